"""After how many seeds the simulator sees that a guard of the protocol was taken away: `make sim-mutants`.

It prints the table of docs/simulator.md. Each mutant runs in a process of its own; where other parts of the project are
taken away with the guard, its control, the same with the guard in place, must come to rest.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from tests.sim.faults import Fault
from tests.sim.mutant import Mutant
from tests.sim.mutations import MUTANTS
from tests.sim.simulation import faults_of, setting_of, simulate

SEEDS_MAX = 400
"""After so many seeds without a breach a mutant has survived. Arbitrary: minutes."""


@dataclass(frozen=True)
class Hunt:
    """What came of a mutant: the seeds that it took, and the first breach; empty where it survived."""

    name: str
    seeds: int
    breach: str
    seconds: float


def hunt(name: str, seeds: int, *, control: bool = False) -> Hunt:
    """Apply a mutant to this process, for good, and run seeds until one shows it. control: only what goes with it."""
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    for line in (*mutant.without, *(() if control else mutant.lines)):
        line.rewrite()
    began = time.monotonic()
    for seed in range(1, seeds + 1):
        result = simulate(seed, _faults(mutant, seed), mutant.alone or setting_of(seed))
        if result.breaches:
            return Hunt(name, seed, result.breaches[0], time.monotonic() - began)
    return Hunt(name, seeds, "", time.monotonic() - began)


def _faults(mutant: Mutant, seed: int) -> Sequence[Fault]:
    if mutant.plan is not None:
        return mutant.plan(random.Random(f"plan {mutant.name} {seed}"), mutant.alone or setting_of(seed))
    faults = faults_of(seed)
    return faults if mutant.harms is None else [fault for fault in faults if fault.harm in mutant.harms]


def main() -> int:
    """Print the table; return 1 where a mutant survives or a control does not hold."""
    parser = argparse.ArgumentParser(description="Take each guard away, and count the seeds until it is seen.")
    parser.add_argument("names", nargs="*", help="mutants; all where none is named")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # as in run.py
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606 - this very program
    wanted = [mutant for mutant in MUTANTS if not options.names or mutant.name in options.names]
    print("| mutant | seeds | what is seen first |\n|---|---|---|", flush=True)
    bad = 0
    with ProcessPoolExecutor(options.workers, max_tasks_per_child=1) as pool:
        hunts = [pool.submit(hunt, mutant.name, options.seeds) for mutant in wanted]
        controls = [
            pool.submit(hunt, mutant.name, CONTROL_SEEDS, control=True)
            for mutant in wanted
            if mutant.without or mutant.plan
        ]
        for found in (each.result() for each in hunts):
            bad += not found.breach
            print(f"| `{found.name}` | {found.seeds} | {found.breach or 'SURVIVES'} |", flush=True)
        for found in (each.result() for each in controls):
            bad += bool(found.breach)
            if found.breach:
                print(f"the control of {found.name} does not hold: seed {found.seeds}: {found.breach}", flush=True)
    return 1 if bad else 0


CONTROL_SEEDS = 20
"""Seeds in which what goes with a mutant must not show a breach by itself. Arbitrary: more than it takes."""

if __name__ == "__main__":
    sys.exit(main())

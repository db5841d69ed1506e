"""Traces of simulations for `spec/run traces`: of fixed seeds, each thread's as it was, and copies that are wrong.

`python tests/sim/traces.py FOLDER` writes good_….ndjson and bad_….ndjson; `--seeds N` takes more of them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.sim.breakage import BREAKS, broken
from tests.sim.faults import FAULTS_SECONDS, OF_NOTICES, Fault, Harm, plan_news
from tests.sim.mutations import MUTANTS
from tests.sim.process import Setting
from tests.sim.simulation import simulate
from tests.sim.trace import Event, Part, Trace

SEEDS = (2, 7, 8, 18, 22, 25, 34, 47, 53, 62, 77, 81, 85, 129, 224, 225, 250)
"""The simulations that CI takes traces of: among them is all that a trace can tell of, in both ways of taking."""

BROKEN_EACH = 2
"""How many wrong copies of each kind. Arbitrary: each costs as much as a right one."""

MUTATED = (("no_read_after_release", 6), ("token_from_claim_alone", 6))
"""Guards that are taken away from the code, each with a seed whose every trace then shows that it is missing."""

HARMS = (
    Harm.CRASH,
    Harm.FREEZE,
    Harm.DRAIN,
    Harm.ALL_GONE,
    Harm.SESSION_DELETED,
    Harm.CLAIM_DELETED,
    Harm.CLAIM_PUT_BACK,
    Harm.LOST,
)
"""What the specification's environment does."""

DOWN_SECONDS_MIN = 1.5
"""How long a crashed process is down at least: longer than anything that it had sent can be on its way."""


def setting_of(seed: int) -> Setting:
    """Return what a seed chooses once."""
    rng = random.Random(f"traced setting {seed}")
    return Setting(
        processes=rng.randint(2, 3),
        threads=rng.randint(1, 2),
        fused=rng.random() < 0.35,
        scheduled=True,
        max_turns=rng.choice((2, 8)),
        deadly=False,
        plain=True,
        noticing=rng.random() < 0.5,
    )


def faults_of(seed: int) -> list[Fault]:
    """Return the faults that a seed draws."""
    rng, processes = random.Random(f"traced faults {seed}"), setting_of(seed).processes
    faults = []
    for _ in range(rng.randint(1, 6)):
        harm = rng.choice(HARMS)
        seconds = rng.uniform(DOWN_SECONDS_MIN, 4.0)
        share = rng.choice((0.1, 0.3)) if harm is Harm.LOST else float(rng.random() < 0.5)
        at = round(rng.uniform(0.5, FAULTS_SECONDS - 4.0), 3)
        faults.append(Fault(at=at, harm=harm, target=rng.randrange(processes), seconds=round(seconds, 3), share=share))
    if setting_of(seed).noticing:
        faults += plan_news(rng, processes=processes, harms=OF_NOTICES)
    return sorted(faults, key=lambda fault: fault.at)


def traced(seed: int) -> Trace:
    """Run a seed, and return its trace. Raises AssertionError where the simulation itself shows a breach."""
    setting = setting_of(seed)
    trace = Trace(setting.threads)
    result = simulate(seed, faults_of(seed), setting, trace)
    assert not result.breaches, (seed, result.breaches)
    return trace


def write(path: Path, events: Sequence[Event]) -> None:
    """Write a trace."""
    path.write_text("".join(json.dumps(event) + "\n" for event in events), "utf-8")


def copies(parts: Mapping[str, Part], each: int) -> dict[str, list[Event]]:
    """Return wrong copies by name, so many of each kind. Raises AssertionError where a kind has no place at all."""
    made: dict[str, list[tuple[str, list[Event]]]] = {kind: [] for kind in BREAKS}
    for name, part in parts.items():
        for kind, events in broken(part.events, name):
            made[kind].append((name, events))
    without = [kind for kind, found in made.items() if not found]
    assert not without, f"these traces have no place for {without}: take other seeds"
    rng = random.Random("copies")
    chosen = {kind: rng.sample(found, min(each, len(found))) for kind, found in made.items()}
    return {f"{kind}_{name}": events for kind, found in chosen.items() for name, events in found}


def write_mutated(name: str, seed: int, folder: Path) -> None:
    """Write the traces of a simulation of code that lacks a guard. This process runs the changed code for good."""
    for line in next(mutant for mutant in MUTANTS if mutant.name == name).lines:
        line.rewrite()
    trace = Trace(setting_of(seed).threads)
    simulate(seed, faults_of(seed), setting_of(seed), trace)
    for thread_id, part in trace.parts.items():
        if not part.untold:
            write(folder / f"bad_code_{name}_seed_{seed}_{thread_id}.ndjson", part.events)


def main() -> int:
    """Write the traces."""
    parser = argparse.ArgumentParser(description="Write the traces of simulations.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=0, help="so many from the first on, in place of the fixed ones")
    parser.add_argument("--broken", type=int, default=BROKEN_EACH, help="wrong copies of each kind")
    parser.add_argument("--mutant", help="of this mutant of the code, and of the first seed alone")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # as in run.py
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606 - this very program
    if options.mutant is not None:
        write_mutated(options.mutant, options.first, options.folder)
        return 0
    parts: dict[str, Part] = {}
    seeds = range(options.first, options.first + options.seeds) if options.seeds else SEEDS
    for seed in seeds:
        for thread_id, part in traced(seed).parts.items():
            if part.untold:
                print(f"left out   seed {seed}, thread {thread_id}: {part.untold}")
            else:
                parts[f"seed_{seed}_{thread_id}"] = part
    for name, part in parts.items():
        write(options.folder / f"good_{name}.ndjson", part.events)
    wrong = copies(parts, options.broken) if options.broken else {}
    for name, events in wrong.items():
        write(options.folder / f"bad_{name}.ndjson", events)
    for name, seed in MUTATED if options.broken else ():
        again = [sys.executable, __file__, str(options.folder), "--mutant", name, "--first", str(seed)]
        subprocess.run(again, check=True)
    print(f"simulated  {len(parts)} threads of {len(seeds)} seeds, and {len(wrong)} wrong copies of them")
    return 0


if __name__ == "__main__":
    sys.exit(main())

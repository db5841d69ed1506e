"""Run seeds: `make sim`, `make sim SEED=7`, `make sim-long`.

A failing seed prints its faults, what was wrong and the end of its log; `--log` prints all of it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import count, islice

from tests.sim.simulation import Result, simulate

SEEDS = 200
"""What CI runs: under three minutes on two cores."""

TAIL_LINES = 40
"""Lines of a failing seed's log that are printed. Arbitrary: a screen."""

BATCH = 100
"""Seeds between two lines of progress. Arbitrary."""


def main() -> int:
    """Return 0 where no seed shows a breach."""
    parser = argparse.ArgumentParser(description="Simulate many runners under faults.")
    parser.add_argument("--seed", type=int, help="one seed only")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many; 0: until told to stop")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--log", action="store_true", help="print the whole log")
    parser.add_argument("--go-on", action="store_true", help="do not stop at the first failing seeds")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of names are walked in the code under test
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606 - this very program
    if options.seed is not None:
        result = simulate(options.seed)
        _show(result, None if options.log else TAIL_LINES)
        return 1 if result.breaches else 0
    last = options.first + options.seeds
    seeds = count(options.first) if options.seeds == 0 else range(options.first, last)
    return _many(iter(seeds), options.workers, go_on=options.go_on)


def _many(seeds: Iterable[int], workers: int, *, go_on: bool) -> int:
    began, done, failed, slowest = time.monotonic(), 0, 0, 0.0
    with ProcessPoolExecutor(workers) as pool:
        while batch := list(islice(seeds, BATCH)):
            for result in pool.map(_short, batch):
                done, slowest = done + 1, max(slowest, result.rest_seconds)
                if result.breaches:
                    failed += 1
                    _show(result, TAIL_LINES)
            seconds = time.monotonic() - began
            print(f"{done} seeds to {batch[-1]}, {failed} failed; {seconds:.0f} s; rest after {slowest:.1f} s at most")
            sys.stdout.flush()
            if failed and not go_on:
                break
    return 1 if failed else 0


def _short(seed: int) -> Result:
    """Run a seed, and leave out the log of one that shows no breach."""
    result = simulate(seed)
    return result if result.breaches else replace(result, log=())


def _show(result: Result, tail: int | None) -> None:
    lines = result.log if tail is None else result.log[-tail:]
    print(f"seed {result.seed}: {result.setting}")
    for fault in result.faults:
        print(f"    {fault}")
    print(*lines, sep="\n")
    for breach in result.breaches or ("no breach",):
        print(f"  {breach}")
    print(f"rest after {result.rest_seconds:.2f} s; again: make sim SEED={result.seed}")


if __name__ == "__main__":
    sys.exit(main())

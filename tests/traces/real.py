"""Traces of real processes for `spec/run real`: the soak in small on one SQLite file, told by the file's own ledger.

`python tests/traces/real.py FOLDER` writes good_….ndjson of each thread, and bad_….ndjson, copies that are wrong in one
place. `--without fence` takes a guard out of the runners: then `spec/run trace` must refuse some that are named good_.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.sim.breakage import broken
from tests.sim.traces import write
from tests.soak.soak import GUARDS, Plan, soak
from tests.traces import ledger
from tests.traces.telling import Part, tell

MESSAGES, THREADS, SECONDS = 60, 10, 15.0
"""A soak that takes a minute, with some ten kills and freezes."""

BROKEN: tuple[str, ...] = (
    "release_missing",
    "death_missing",
    "start_missing",
    "end_missing",
    "append_missing",
    "start_before_claim",
    "token_lowered",
    "token_raised",
    "token_of_another_run",
    "attempt_skipped",
    "taken_too_far",
    "stale_write",
)
"""The breaks that the database shows. What it does not show at all, as a read after a release, could not be missed."""


def run(seed: int, without: str) -> dict[str, Part]:
    """Run a soak, and return each thread's trace. Raises AssertionError where the soak itself shows a breach."""
    with tempfile.TemporaryDirectory(prefix="turnkeeper-traces-") as made:
        path = Path(made) / "journal.db"
        ledger.begin(path)
        plan = Plan(MESSAGES, THREADS, SECONDS, seed, without=without, forks=not without)
        outcome = asyncio.run(soak(plan, f"sqlite:///{path}", Path(made)))
        assert without or not outcome.breaches, outcome.breaches
        return tell(ledger.read(path))


def write_all(parts: Mapping[str, Part], folder: Path, seed: int) -> None:
    """Write the traces, and one wrong copy for each kind of break that they have a place for."""
    wrong: dict[str, list[tuple[str, list[dict[str, str | int | bool]]]]] = {kind: [] for kind in BROKEN}
    for name, part in parts.items():
        write(folder / f"good_real_{name}.ndjson", part.events)
        for kind, events in broken(part.events, name):
            wrong.setdefault(kind, []).append((name, events))
    for kind in BROKEN:
        if wrong[kind]:
            name, events = random.Random(f"{kind} {seed}").choice(wrong[kind])
            write(folder / f"bad_{kind}_real_{name}.ndjson", events)


def main() -> int:
    """Write the traces."""
    parser = argparse.ArgumentParser(description="Write the traces of real processes.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--without", choices=GUARDS, default="", help="take a guard out of the runners")
    options = parser.parse_args()
    parts = run(options.seed, options.without)
    for name, part in parts.items():
        if part.untold:
            print(f"left out   thread {name}: {part.untold}")
    told = {name: part for name, part in parts.items() if not part.untold}
    write_all(told, options.folder, options.seed)
    counts = Counter(str(event["action"]) for part in told.values() for event in part.events)
    print(f"real       {len(told)} threads of {len(parts)}: {', '.join(f'{n} {a}' for a, n in counts.most_common())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Schedules that were found once, kept as files: a setting and faults under a name, replayed for ever after.

`python tests/sim/scripts.py SEED NAME "what it shows"` leaves out of a failing seed every fault that it fails without,
and writes what is left.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.sim.faults import Fault, Harm
from tests.sim.process import Setting
from tests.sim.simulation import Result, simulate

FOLDER = Path(__file__).parents[1] / "scripts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A schedule and what it shows."""

    name: str
    shows: str
    seed: int
    setting: Setting
    faults: tuple[Fault, ...]

    def replay(self) -> Result:
        """Run it."""
        return simulate(self.seed, self.faults, self.setting)

    def write(self) -> Path:
        """Keep it under its name."""
        path = FOLDER / f"{self.name}.json"
        body = {key: value for key, value in asdict(self).items() if key != "name"}
        path.write_text(json.dumps(body, indent=2) + "\n", "utf-8")
        return path


def read(path: Path) -> Script:
    """Read a script."""
    body = json.loads(path.read_text("utf-8"))
    faults = tuple(Fault(**{**fault, "harm": Harm(fault["harm"])}) for fault in body["faults"])
    setting = Setting(**body["setting"])
    return Script(name=path.stem, shows=body["shows"], seed=body["seed"], setting=setting, faults=faults)


def reduced(seed: int, setting: Setting, faults: Sequence[Fault]) -> tuple[Fault, ...]:
    """Return the faults without which the seed does not fail, one by one from the last."""
    left = tuple(faults)
    for fault in reversed(faults):
        fewer = tuple(other for other in left if other is not fault)
        if simulate(seed, fewer, setting).breaches:
            left = fewer
    return left


def main() -> int:
    """Write a script of a failing seed; return 1 where the seed does not fail."""
    seed, name, shows = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    if os.environ.get("PYTHONHASHSEED") != "0":  # as in run.py
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606 - this very program
    result = simulate(seed)
    if not result.breaches:
        print(f"seed {seed} shows no breach")
        return 1
    faults = reduced(seed, result.setting, result.faults)
    print(Script(name=name, shows=shows, seed=seed, setting=result.setting, faults=faults).write())
    return 0


if __name__ == "__main__":
    sys.exit(main())

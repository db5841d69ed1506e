"""How long a waiting message waits for another worker of a peer, after its holder was killed.

As `bench/takeover.py` does it to turnkeeper: a worker runs a turn that never ends, a second message waits behind it,
the worker is killed with SIGKILL in the middle. Measured is the wall clock from just before the kill to the moment at
which the next turn of the key begins elsewhere, whichever of the two messages it is for.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.peers.clients.peer import HOLD, READY
from bench.peers.processes import Program, Running

LOOK_SECONDS = 0.01
"""How often the notes of the starts are read; their moments stand in them."""


QUICK_SECONDS = 15.0
"""How long a quick look waits for a takeover that may never come."""


@dataclass(frozen=True)
class Case:
    """One way to set a peer up, and how often it is tried.

    restarts: the killed process is started again at once under its old identity, as a supervisor would.
    phase_seconds: the kills are spread evenly over so long, since periods of that length play a part: each lane has its
        share of them, and the only trial of a lane stands in the middle of its share.
    within_seconds: after so long a trial is given up and noted as such.
    """

    settings: str
    fast: bool = False
    restarts: bool = False
    lanes: int = 4
    trials: int = 5
    phase_seconds: float = 2.0
    within_seconds: float = 60.0


def quickly(case: Case) -> Case:
    """Return the case as a quick look has it: one trial, not waited for long."""
    return replace(case, lanes=1, trials=1, within_seconds=min(case.within_seconds, QUICK_SECONDS), phase_seconds=1.0)


class Lane:
    """Trials one after the other, on a database of their own: who takes over is the holder of the next trial."""

    def __init__(self, program: Program, case: Case, number: int, folder: Path) -> None:
        self._program = program
        self._case = case
        self._number = number
        self._starts = folder / "starts"
        self._workers: list[Running] = []

    def run(self) -> list[float | None]:
        """Return the seconds of each trial; None for one in which nobody took over in the time given."""
        try:
            with self._program.running("send") as sender:
                self._work("worker-0").expect(READY)
                return [self._trial(sender, number) for number in range(self._case.trials)]
        finally:
            for worker in self._workers:
                worker.kill()

    def _trial(self, sender: Running, number: int) -> float | None:
        [holder] = self._workers
        key = f"lane-{self._number}-key-{number}"
        self._send(sender, key, HOLD)
        if self._start_of(key, 0.0, self._case.within_seconds) is None:
            raise TimeoutError(f"{self._program.peer} did not start a turn that nothing stood before")
        taker = self._work(f"worker-{number + 1}")
        taker.expect(READY)
        self._send(sender, key, "waits")
        middle = random.random() if self._case.trials > 1 else 0.5
        share = (self._number + middle) / self._case.lanes
        time.sleep(share * self._case.phase_seconds)
        killed = holder.kill()
        self._workers.remove(holder)
        if self._case.restarts:
            self._work(holder.identity)
        found = self._start_of(key, killed, self._case.within_seconds)
        if self._case.restarts:  # the one with the holder's identity goes on alone
            taker.kill()
            self._workers.remove(taker)
        return None if found is None else found - killed

    def _work(self, identity: str) -> Running:
        worker = self._program.start("work", "--starts", str(self._starts), identity=identity)
        self._workers.append(worker)
        return worker

    @staticmethod
    def _send(sender: Running, key: str, text: str) -> None:
        sender.tell(key, text)
        sender.expect("sent")

    def _start_of(self, key: str, after: float, within_seconds: float) -> float | None:
        """Return when a turn of the key first started after a moment, waiting for it."""
        deadline = time.monotonic() + within_seconds
        while time.monotonic() < deadline:
            for start in self._noted():
                if start["key"] == key and start["at"] > after:
                    return float(start["at"])
            time.sleep(LOOK_SECONDS)
        return None

    def _noted(self) -> list[dict[str, Any]]:
        """Read the lines that are whole."""
        if not self._starts.exists():
            return []
        whole, _, _ = self._starts.read_text(encoding="utf-8").rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]


def run_lane(program: Program, case: Case, number: int) -> list[float | None]:
    """Run one lane of a case on what has been prepared for it."""
    with tempfile.TemporaryDirectory(prefix="turnkeeper-peers-") as folder:
        return Lane(program, case, number, Path(folder)).run()


def told(system: str, case: Case, lanes: list[Future[list[float | None]]]) -> dict[str, Any]:
    """Wait for a case, and return it as it is kept."""
    seconds = [one for lane in lanes for one in lane.result()]
    return {"system": system, "settings": case.settings, "within_seconds": case.within_seconds, "seconds": seconds}

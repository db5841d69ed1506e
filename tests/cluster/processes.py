"""Programs that run beside the tests, each known by the pid that was written down as it started.

A record holds the pid and the kernel's start time of that process, so that a pid which the kernel has given to somebody
else since is never signalled, and how it was started. Whoever finds the folder later can stop what is left in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.soak.waiting import CLOCK, PATIENCE, LateError

POLL_SECONDS = 0.05
"""Between two looks at least. Arbitrary: a small part of what the quickest program takes to start."""

LEFT_PARTS = 3
"""Between two looks as many times what the last one took: one by kubectl would else keep half a core busy."""

STOP_SECONDS = 10
"""How long a program may take to end by itself before it is killed: arbitrary; etcd takes 0.1 s, the kubelet 1 s."""

# The kernel sends the started program SIGTERM when its maker ends, even by SIGKILL (PR_SET_PDEATHSIG = 1).
LAUNCHER = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 15, 0, 0, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""


def wait_until(look: Callable[[], object], what: str, *, seconds: float) -> None:
    """Return once `look` is true. Raises LateError, naming `what`, long after so many seconds."""
    began, bell = CLOCK.monotonic(), threading.Event()
    deadline = began + PATIENCE * seconds
    while not look():
        now = CLOCK.monotonic()
        if now >= deadline:
            raise LateError(f"not in {PATIENCE * seconds:.0f} s: {what}")
        bell.wait(max(POLL_SECONDS, LEFT_PARTS * (now - began)))
        began = CLOCK.monotonic()


@dataclass(frozen=True, slots=True)
class Program:
    """How a program is started, and how one sees that it is ready."""

    command: Sequence[str]
    ready: Callable[[], object]
    seconds: float = 30.0
    environment: Mapping[str, str] = field(default_factory=dict)


class Processes:
    """The programs of one folder: their records, their logs.

    outlives: True where the programs are to go on when their maker ends; False where the kernel shall end them with it.
    """

    def __init__(self, folder: Path, *, outlives: bool) -> None:
        self._records, self._logs = folder / "pids", folder / "logs"
        self._outlives = outlives
        self._launch = [] if outlives else [sys.executable, "-c", LAUNCHER]
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        for made in (self._records, self._logs):
            made.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, program: Program) -> None:
        """Start a program and return when it is ready.

        Raises:
            LateError: it ended or was not ready in time; the message ends with the last lines of its log.
        """
        with (self._logs / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(
                [*self._launch, *program.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **program.environment},
                start_new_session=True,
            )
        self._children[name] = child
        record = {
            "pid": child.pid,
            "started": _started(child.pid),
            "number": self._record(name).get("number", len(self._names())),
            "command": list(program.command),
        }
        (self._records / name).write_text(json.dumps(record))
        try:
            wait_until(lambda: child.poll() is not None or program.ready(), f"{name} is ready", seconds=program.seconds)
            ended = child.poll()
        except LateError as error:
            raise LateError(f"{error}; its log ends:\n{self.log(name)}") from error
        if ended is not None:
            raise LateError(f"{name} ended with {ended}; its log ends:\n{self.log(name)}")
        if self._outlives:
            del self._children[name]
            child.returncode = 0  # nobody here waits for its end, and is not to be warned of that either

    def start_again(self, name: str, ready: Callable[[], object]) -> None:
        """Start a program that was stopped, as it was started before."""
        self.start(name, Program(self._record(name)["command"], ready))

    def stop(self, name: str, *, by: signal.Signals = signal.SIGTERM) -> None:
        """End a program and return when it is gone; no error if it is."""
        pid = self.pid(name)
        if pid and by != signal.SIGKILL:
            os.kill(pid, signal.SIGCONT)  # one that was frozen could not hear the rest
            os.kill(pid, by)
            with contextlib.suppress(LateError):  # it is killed below
                wait_until(lambda: not self.pid(name), f"{name} has ended", seconds=STOP_SECONDS / PATIENCE)
        if pid := self.pid(name):
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not self.pid(name), f"{name} is gone", seconds=STOP_SECONDS)
        if child := self._children.pop(name, None):
            child.wait()

    def pid(self, name: str) -> int:
        """The pid of a program that runs; 0 if it does not."""
        if child := self._children.get(name):
            child.poll()  # collects it if it has ended
        record = self._record(name)
        return int(record["pid"]) if record and _started(record["pid"]) == record["started"] else 0

    def running(self) -> bool:
        """Whether there is a record, and each that there is has its program."""
        names = self._names()
        return bool(names) and all(self.pid(name) for name in names)

    def stop_all(self) -> None:
        """End every program of the folder, the youngest first."""
        for name in self._names():
            self.stop(name)
            (self._records / name).unlink()

    def log(self, name: str, lines: int = 15) -> str:
        """The last lines that a program has written."""
        return "\n".join((self._logs / f"{name}.log").read_text("utf-8", "replace").splitlines()[-lines:])

    def _names(self) -> list[str]:
        """The recorded programs, the youngest first."""
        names = (record.name for record in self._records.iterdir())
        return sorted(names, key=lambda name: int(self._record(name)["number"]), reverse=True)

    def _record(self, name: str) -> dict[str, Any]:
        """What was written down as a program started; empty if it never did."""
        path = self._records / name
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found


def _started(pid: int) -> str:
    """The kernel's start time of a process; empty if there is none, or only its remains."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]  # fields 3 and 22 of proc(5), the first two cut off

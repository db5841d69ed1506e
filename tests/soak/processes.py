"""Real `turnkeeper run` processes: started, killed, frozen and thawed by their recorded pids."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.soak.nursery import Nursery
from tests.soak.waiting import CLOCK, until

FREEZE_SECONDS = 5.0
"""Longest wait for a process to stand still. Arbitrary: a thousand times what it takes."""

START_SECONDS = 90.0
"""Longest start. One takes a second alone; a busy machine gets ninety."""


@dataclass
class RunnerProcess:
    """One place where a runner runs, life after life, on one port.

    program: what precedes the flags of `run` where a life is started afresh. nursery: where lives are forked instead.
    """

    name: str
    folder: Path
    flags: Sequence[str]
    program: Sequence[str] = (sys.executable, "-m", "turnkeeper", "run")
    environment: Mapping[str, str] = field(default_factory=dict)
    nursery: Nursery | None = None
    port: int = 0
    lives: int = 0
    pid: int = 0
    is_frozen: bool = False
    is_ready: bool = False
    _handle: int = -1  # of this very life: a pid may be given out again
    _popen: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.port = self.port or free_port()

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def is_alive(self) -> bool:
        """Whether this life lasts."""
        return self._handle >= 0 and not select.select([self._handle], [], [], 0)[0]

    @property
    def log(self) -> Path:
        """What this life wrote to its stderr."""
        return self.folder / f"{self.name}-{self.lives}.log"

    def start(self, *flags: str) -> None:
        """Begin a new life; further flags are for this life only."""
        assert not self.is_alive
        self._bury()
        self.lives += 1
        self.is_frozen = self.is_ready = False
        given = ["--port", str(self.port), *self.flags, *flags]
        if self.nursery is not None:
            self.pid = self.nursery.fork(given, self.log, self.environment)
        else:
            with self.log.open("wb") as log:
                self._popen = subprocess.Popen(
                    [*self.program, *given],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **self.environment},
                )
            self.pid = self._popen.pid
        self._handle = os.pidfd_open(self.pid)

    async def ready(self) -> None:
        """Return once it answers that it is ready."""
        async with httpx.AsyncClient(base_url=self.url, trust_env=False, timeout=2.0) as client:

            async def is_ready() -> bool:
                assert self.is_alive, f"{self.name} did not start: {self.log.read_text('utf-8', 'replace')[-2000:]}"
                with contextlib.suppress(httpx.HTTPError):
                    return (await client.get("/readyz")).status_code == httpx.codes.OK
                return False

            await until(is_ready, f"{self.name} is ready", seconds=START_SECONDS)
        self.is_ready = True

    def kill(self) -> None:
        """End this life by SIGKILL, and return when it is over."""
        self.send(signal.SIGKILL)
        self.is_ready = False
        if self._handle >= 0:
            select.select([self._handle], [], [])
        self._bury()

    def freeze(self) -> None:
        """Stop it, with its sockets, memory and locks as they are; return once each of its threads stands.

        On a busy machine the signal takes a while to reach all of them, and one that still runs may take a lock that
        was just given back.
        """
        self.send(signal.SIGSTOP)
        deadline = CLOCK.monotonic() + FREEZE_SECONDS
        while self.is_alive and not self._stands_still() and CLOCK.monotonic() < deadline:
            os.sched_yield()
        self.is_frozen = True

    def _stands_still(self) -> bool:
        states = set()
        for stat in Path(f"/proc/{self.pid}/task").glob("*/stat"):
            with contextlib.suppress(OSError):  # a thread that has just ended
                states.add(stat.read_text().rpartition(")")[2].split()[0])
        return states <= {"T"}

    def thaw(self) -> None:
        """Let it go on."""
        self.send(signal.SIGCONT)
        self.is_frozen = False

    def send(self, number: signal.Signals) -> None:
        """Send this very life a signal, if it lasts."""
        if self.is_alive:
            signal.pidfd_send_signal(self._handle, number)

    def _bury(self) -> None:
        if self._popen is not None:
            self._popen.wait()
            self._popen = None
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


@contextlib.contextmanager
def ended_at_last(processes: Sequence[RunnerProcess]) -> Iterator[None]:
    """Kill what still lives on leaving."""
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

"""A peer's programs as processes of their own: started, spoken to by lines, and killed by the id that was noted."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from bench.peers.clients.peer import READY
from bench.peers.environment import python
from bench.processes import ROOT, NotStartedError

LINE_SECONDS = 120.0
"""How long a process may take to say its next line: a start of one on two busy cores took eight seconds."""

ROLE_SECONDS = 300.0
"""How long a program that ends by itself may take; the longest measures for half a minute."""


class Running:
    """A started program that says what it does, a line each."""

    def __init__(self, command: list[str], identity: str) -> None:
        self.identity = identity
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it is read when the process has failed
        self._process = subprocess.Popen(
            command, env=_surroundings(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )

    @property
    def process_id(self) -> int:
        """The process's id."""
        return self._process.pid

    def expect(self, wanted: str) -> None:
        """Wait for a line. Raises NotStartedError, with the program's last words, if it does not come."""
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], LINE_SECONDS)
        said = self._process.stdout.readline().decode().strip() if readable else ""
        if said != wanted:
            self.kill()
            last_words = os.pread(self._errors.fileno(), 1 << 20, 0).decode()[-2000:]
            raise NotStartedError(f"{said!r} in place of {wanted!r}: {last_words}")

    def tell(self, *words: str) -> None:
        """Say a line to the program."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{' '.join(words)}\n".encode())
        self._process.stdin.flush()

    def kill(self) -> float:
        """Kill the process as a crash would, and return the wall clock's seconds just before."""
        now = time.time()
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        return now


@dataclass(frozen=True)
class Program:
    """A peer's program. `url`: of its database, or of its server. `fast`: with the fastest settings it allows."""

    peer: str
    url: str
    fast: bool = False

    def ask(self, role: str, *arguments: str) -> Any:  # noqa: ANN401 - what JSON holds
        """Run a role that ends by itself, and return what it prints; None if nothing."""
        command = self._command(role, *arguments)
        with tempfile.TemporaryFile() as errors:
            run = subprocess.run(
                command, env=_surroundings(), stdout=subprocess.PIPE, stderr=errors, timeout=ROLE_SECONDS, check=False
            )
            if run.returncode != 0:
                last_words = os.pread(errors.fileno(), 1 << 20, 0).decode()[-2000:]
                raise NotStartedError(f"{self.peer} failed as {role}: {last_words}")
        lines = run.stdout.splitlines()
        return json.loads(lines[-1]) if lines else None

    def start(self, role: str, *arguments: str, identity: str = "one") -> Running:
        """Start a role that goes on until it is killed; its owner kills it."""
        return Running(self._command(role, "--identity", identity, *arguments), identity)

    @contextmanager
    def running(self, role: str, *arguments: str, identity: str = "one") -> Iterator[Running]:
        """Yield a role that goes on, once it is ready; kill it on leaving."""
        started = self.start(role, *arguments, identity=identity)
        try:
            started.expect(READY)
            yield started
        finally:
            started.kill()

    def _command(self, role: str, *arguments: str) -> list[str]:
        fast = ["--fast"] if self.fast else []
        program = [str(python()), "-m", "bench.peers.clients.program", self.peer, role, "--url", self.url]
        return [*program, *fast, *arguments]


def _surroundings() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}

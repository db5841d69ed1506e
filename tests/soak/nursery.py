"""Starts `turnkeeper run` processes by fork from one that has loaded the code: a new life costs no import.

Importing takes two seconds of CPU, the kills come every two seconds: on a small or busy machine processes that are
started afresh would hardly ever be up. What is forked is a process like any other from there on: its own memory, loop,
connections and pid, running the command line's `main`. As a script it is the one that forks, told by JSON lines.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

SELF = Path(__file__)


class Nursery:
    """A process that forks runners; they end with it."""

    def __init__(self, guard: str = "") -> None:
        """guard: what its runners are to be without; see `sabotaged`."""
        command = [sys.executable, str(SELF), guard]
        environment = {**os.environ, "PYTHONPATH": str(SELF.parents[2])}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def fork(self, flags: Sequence[str], log: Path, environment: Mapping[str, str]) -> int:
        """Begin a runner with the flags of `run`; return its pid."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"flags": list(flags), "log": str(log), "environment": dict(environment)}
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End it, and every runner that it forked."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@contextlib.contextmanager
def nursery(guard: str = "") -> Iterator[Nursery]:
    """Keep a nursery for the time of a `with` block."""
    made = Nursery(guard)
    try:
        yield made
    finally:
        made.close()


def serve(guard: str) -> None:
    """Fork a runner for each line of the input; at its end, end them all."""
    from tests.soak.sabotaged import SABOTAGE  # noqa: PLC0415 - the code is loaded in the process that forks alone
    from turnkeeper import cli, wiring  # noqa: F401, PLC0415 - the same; wiring loads every part

    if guard:
        SABOTAGE[guard]()
    born: set[int] = set()
    signal.signal(signal.SIGCHLD, lambda *_: _reap(born))
    for line in sys.stdin.buffer:
        order = json.loads(line)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})  # nobody is buried before it is in the book
        pid = os.fork()
        if pid == 0:
            _live(order, cli.main)
        born.add(pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        os.write(1, f"{pid}\n".encode())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _reap(born)
    for pid in born:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _live(order: Mapping[str, object], main: object) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    log = os.open(str(order["log"]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    empty = os.open(os.devnull, os.O_RDONLY)
    for place, to in ((0, empty), (1, log), (2, log)):
        os.dup2(to, place)
    environment, flags = order["environment"], order["flags"]
    assert isinstance(environment, dict)
    assert isinstance(flags, list)
    assert callable(main)
    os.environ.update(environment)
    sys.argv[1:] = ["run", *flags]
    code = 1
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        sys.stderr.flush()
        os._exit(code)


def _reap(born: set[int]) -> None:
    """Take leave of those that ended: from here on their pids may be given to others."""
    with contextlib.suppress(ChildProcessError):
        while pid := os.waitpid(-1, os.WNOHANG)[0]:
            born.discard(pid)


if __name__ == "__main__":
    serve(sys.argv[1])

"""Sees to it that no command outlives its runner, however the runner ends.

A child that is told of its parent's death by the kernel (PR_SET_PDEATHSIG) needs code between fork and exec, which is
not safe in a process with threads, and it covers no grandchild. So one small process for each handler holds a pipe from
the runner: when the pipe breaks, it ends every group that was noted (`guard_script.py`). What it does not cover: the
few microseconds between a command's start and its note, and processes that left their group.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("guard_script.py")

CLOSE_SECONDS_MAX = 5.0
"""Arbitrary: the guard has nothing to do by then and ends in milliseconds."""

_log = logging.getLogger(__name__)


class Guard:
    """The process that ends noted groups when this one is gone. It is started at the first note."""

    def __init__(self, grace_seconds: float) -> None:
        self._grace_seconds = grace_seconds
        self._noted: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def note(self, group: int) -> None:
        """Have a group ended if this process dies from now on. Raises OSError where no process can be started."""
        self._noted.add(group)
        if self._process is None or not self._write(f"+{group}\n"):
            self._start()

    def forget(self, group: int) -> None:
        """Say that a group has ended."""
        self._noted.discard(group)
        if self._process is not None:
            self._write(f"-{group}\n")

    async def aclose(self) -> None:
        """End the guard; every group has been forgotten by now."""
        process, self._process = self._process, None
        if process is not None:
            await asyncio.to_thread(_end, process)

    def _start(self) -> None:
        if self._process is not None:
            _log.warning("the guard of commands had died (it was process %d); a new one is started", self._process.pid)
            _end(self._process)
        command = [sys.executable, "-I", "-S", str(SCRIPT), str(self._grace_seconds)]
        self._process = subprocess.Popen(  # noqa: S603 - our own script under our own interpreter
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        if self._process.stdin is not None:
            os.set_blocking(self._process.stdin.fileno(), False)
        for group in self._noted:
            self._write(f"+{group}\n")

    def _write(self, line: str) -> bool:
        """Write a line, which is short enough to go whole or not at all; False if the guard does not read."""
        try:
            if self._process is not None and self._process.stdin is not None:
                os.write(self._process.stdin.fileno(), line.encode("ascii"))
                return True
        except OSError:
            pass
        return False


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(CLOSE_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

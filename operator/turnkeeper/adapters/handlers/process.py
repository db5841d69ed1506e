"""One command in a process group of its own, from its start to the moment when nothing of it is left.

The order at the end is what matters: a group is ended while its first process is dead but not yet reaped, for only then
is it certain that the group's number has not gone to somebody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO

from turnkeeper.adapters.handlers.guard import Guard
from turnkeeper.adapters.handlers.pipes import PipeReader, PipeWriter
from turnkeeper.errors import HandlerError

KILL_SECONDS_MAX = 5.0
"""How long a killed process may take to be gone. Arbitrary: more than one that hangs in the kernel is worth."""

GONE_SECONDS_MAX = 0.2
"""How long the rest of a killed group may take to be gone. Arbitrary: the kernel needs microseconds."""

LOOK_SECONDS = 0.005
"""Arbitrary: between two looks whether it is."""


class GroupProcess:
    """A command that was started, the first process of a new session and group. Made by `start`."""

    def __init__(self, popen: subprocess.Popen[bytes], pidfd: int, guard: Guard) -> None:
        self._popen = popen
        self._pidfd = pidfd
        self._guard = guard
        self._is_over = False
        self.ended = asyncio.Event()
        self.stdin = PipeWriter(_open(popen.stdin))
        self.stdout = PipeReader(_open(popen.stdout), self.ended)
        self.stderr = PipeReader(_open(popen.stderr), self.ended)
        asyncio.get_running_loop().add_reader(pidfd, self._note_end)

    @property
    def pid(self) -> int:
        """The number of the process and of its group."""
        return self._popen.pid

    @property
    def code(self) -> int | None:
        """The exit code, the negative signal number, or None before `end` has reaped the process."""
        return self._popen.returncode

    async def end(self, grace_seconds: float) -> None:
        """End the whole group: SIGTERM, after the grace SIGKILL; then reap it. At once where the command has ended.

        Nothing reads its pipes any more. Doing it again, also after a first try was cancelled, is harmless.
        """
        if self._is_over:
            return
        self.stdin.close()
        if not self.ended.is_set():
            self._signal(signal.SIGTERM)
            discarding = [asyncio.ensure_future(pipe.discard()) for pipe in (self.stdout, self.stderr)]
            await self._ends_within(grace_seconds)
            for task in discarding:
                task.cancel()
            await asyncio.wait(discarding)
        # Whatever the command had started goes with it; the group can't be another's, for its first is not reaped.
        self._signal(signal.SIGKILL)
        if await self._ends_within(KILL_SECONDS_MAX):
            self._guard.forget(self.pid)
            self._popen.wait()
            await self._see_group_gone()
        else:
            logging.getLogger(__name__).error("process %d is still there after SIGKILL; it is left alone", self.pid)
        self._close()

    def _note_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        self.ended.set()

    async def _ends_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.ended.wait(), seconds)
        return self.ended.is_set()

    def _signal(self, number: int) -> None:
        if self._popen.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    async def _see_group_gone(self) -> None:
        """Wait until nothing of the group is left, and reap those that this process inherits (as a container's first).

        It is bounded: where the first process of a container reaps nothing, the dead stay in their group.
        """
        ends_at = asyncio.get_running_loop().time() + GONE_SECONDS_MAX
        while asyncio.get_running_loop().time() < ends_at:
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-self.pid, os.WNOHANG)[0]:  # noqa: ASYNC222 - WNOHANG does not wait
                    pass
            try:
                os.killpg(self.pid, 0)
            except OSError:
                return
            await asyncio.sleep(LOOK_SECONDS)

    def _close(self) -> None:
        self._is_over = True
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self.stdout.close()
        self.stderr.close()


def start(command: Sequence[str], guard: Guard, environment: Mapping[str, str], directory: str | None) -> GroupProcess:
    """Start a command. Raises HandlerError if it can't be started."""
    try:
        popen = subprocess.Popen(  # noqa: S603 - running the configured command is what the handler is for
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise HandlerError(f"the command {command[0]!a} could not be started: {error}") from error
    try:
        guard.note(popen.pid)
        return GroupProcess(popen, os.pidfd_open(popen.pid), guard)
    except OSError as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(popen.pid, signal.SIGKILL)
        popen.wait()
        guard.forget(popen.pid)
        raise HandlerError(f"the command {command[0]!a} could not be watched, so it was ended: {error}") from error


def _open(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise AssertionError("the process was started without this pipe")
    return pipe

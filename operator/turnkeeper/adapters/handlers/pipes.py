"""The two ends of a process's pipes, as the event loop sees them.

asyncio's own subprocess streams wait for the pipe's end, which a grandchild that inherited it may put off for ever, and
reap the process before its group can be ended. Here a read stops where the process's own output stops.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from typing import IO

READ_BYTES = 65_536
"""The usual capacity of a pipe: what is still in it when its process has ended is at most this."""


class PipeReader:
    """Reads what a process writes, until the pipe's end or, the process being over, until what it left is read."""

    def __init__(self, pipe: IO[bytes], ended: asyncio.Event) -> None:
        self._pipe = pipe
        self._ended = ended
        os.set_blocking(pipe.fileno(), False)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Return what comes, as it comes. One reader at a time."""
        left: int | None = None
        while left is None or left > 0:
            if left is None and self._ended.is_set():
                # Whoever writes from now on is not the process; more than the pipe can hold is not its output.
                left = READ_BYTES
            try:
                chunk = os.read(self._pipe.fileno(), READ_BYTES if left is None else left)
            except BlockingIOError:
                if left is not None:
                    return
                await self._wait()
                continue
            if not chunk:
                return
            left = None if left is None else left - len(chunk)
            yield chunk

    async def discard(self) -> None:
        """Read and forget, so that the process does not block on a full pipe while it ends."""
        async for _ in self.chunks():
            await asyncio.sleep(0)

    def close(self) -> None:
        """Close this end."""
        self._pipe.close()

    async def _wait(self) -> None:
        """Return when there is something to read, or the process has ended."""
        loop = asyncio.get_running_loop()
        readable = loop.create_future()
        loop.add_reader(self._pipe.fileno(), _set, readable)
        ended = loop.create_task(self._ended.wait())
        try:
            await asyncio.wait({readable, ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            loop.remove_reader(self._pipe.fileno())
            ended.cancel()


class PipeWriter:
    """Writes to a process that may read late or never; nobody waits for it. What it has closed is dropped."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._waiting: list[bytes] = []
        self._is_armed = False
        os.set_blocking(pipe.fileno(), False)

    @property
    def is_open(self) -> bool:
        """Whether anybody may still read what is written."""
        return not self._pipe.closed

    @property
    def waiting_lines(self) -> int:
        """How many writes the process has not made room for."""
        return len(self._waiting)

    def write(self, data: bytes) -> None:
        """Write now or as soon as there is room, in order."""
        if self.is_open:
            self._waiting.append(data)
            self._flush()

    def close(self) -> None:
        """Close this end, whatever still waits."""
        self._disarm()
        self._waiting.clear()
        self._pipe.close()

    def _flush(self) -> None:
        try:
            while self._waiting:
                view = memoryview(self._waiting[0])
                written = os.write(self._pipe.fileno(), view[: 4 * READ_BYTES])
                if written < len(view):
                    self._waiting[0] = bytes(view[written:])
                else:
                    del self._waiting[0]
        except BlockingIOError:
            if not self._is_armed:
                asyncio.get_running_loop().add_writer(self._pipe.fileno(), self._flush)
                self._is_armed = True
        except OSError:
            self.close()
        else:
            self._disarm()

    def _disarm(self) -> None:
        if self._is_armed:
            asyncio.get_running_loop().remove_writer(self._pipe.fileno())
            self._is_armed = False


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

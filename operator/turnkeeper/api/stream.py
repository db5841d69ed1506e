"""A thread's log as a stream of server-sent events.

Only entries of the log carry an id, their seq: a client's resume point is always a place in the log, and the pieces of
a stream that was cut, joined, are the log. Everything else (heartbeats, `reset`, `end`) has none.

A client is served at its own pace: the next entries are read once it took the last ones, so it costs one frame of
memory however slow it is, and is cut when it takes nothing for long. It then resumes where it was.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from turnkeeper.api.problems import MALFORMED_POSITION, ProblemError
from turnkeeper.api.told import SEQ_MAX, EntryTold
from turnkeeper.core.names import dump_json
from turnkeeper.core.values import Entry
from turnkeeper.errors import TurnkeeperError

log = logging.getLogger(__name__)

MEDIA_TYPE = "text/event-stream"

SEND_SECONDS_MAX = 30.0
"""How long a client may take nothing before it is cut. Arbitrary: longer than a phone's tunnel, and it can resume."""

RETRY_MS = 1_000
"""How long a browser waits before it resumes. Arbitrary: a runner's restart takes about that."""

HEARTBEAT = b": heartbeat\n\n"

_POSITION = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)


def position_of(header: str | None, after: str | None) -> int | None:
    """Return where a client resumes, or None where it names no place.

    A browser that resumes sends `Last-Event-ID` and the address it first had, so the header goes first; an empty one
    means that it saw no id yet. Raises ProblemError 400.
    """
    if header:
        return _parse_position(header, "Last-Event-ID")
    return None if after is None else _parse_position(after, "after")


def _parse_position(text: str, name: str) -> int:
    if _POSITION.fullmatch(text) is None or int(text) > SEQ_MAX:
        rule = f"it must be a whole number from 0 to {SEQ_MAX}, the id of the last event that you saw, or be left out"
        raise ProblemError(MALFORMED_POSITION, f"{name} {text[:40]!a} is not a position: {rule}")
    return int(text)


def frame(event: str, data: str, event_id: int | None = None) -> bytes:
    """Return one event. `data` is ASCII JSON without line breaks, so no content can end the frame early."""
    head = "" if event_id is None else f"id: {event_id}\n"
    return f"{head}event: {event}\ndata: {data}\n\n".encode("ascii")


def entry_frame(entry: Entry) -> bytes:
    """Return an entry as an event."""
    return frame(entry.kind.value, dump_json(EntryTold.of(entry).model_dump()), entry.seq)


class Streams:
    """The streams that are open in one app, so that a stop can end them all at once."""

    def __init__(self) -> None:
        self.is_closing = asyncio.Event()
        self.open = 0

    def close(self) -> None:
        """End every stream now and each later one at once; their clients resume, here or elsewhere."""
        self.is_closing.set()


class EventStream(Response):
    """Sends what `entries` yields until it ends, the client goes, stops reading, or the app's streams are closed."""

    media_type = MEDIA_TYPE

    def __init__(self, entries: AsyncIterator[Entry | None], streams: Streams, *, after: int, head: int) -> None:
        headers = {
            "Cache-Control": "no-cache, no-transform",
            "X-Accel-Buffering": "no",  # nginx would hold events back
        }
        super().__init__(None, headers=headers)
        del self.headers["content-length"]
        self._entries = entries
        self._streams = streams
        self._after = after
        self._head = head

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the stream."""
        self._streams.open += 1
        ends: list[Coroutine[Any, Any, object]] = [
            self._pump(send),
            _until_gone(receive),
            self._streams.is_closing.wait(),
        ]
        tasks = [asyncio.create_task(end) for end in ends]
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            self._streams.open -= 1
            await _close(self._entries)
        pumped = results[0]
        if isinstance(pumped, TimeoutError):
            return  # nothing more goes through: the server closes the connection of a response that is not complete
        if isinstance(pumped, TurnkeeperError):
            log.warning("a stream of %s was cut: %s", scope["path"], pumped)
        elif isinstance(pumped, Exception):
            log.error("a stream of %s failed", scope["path"], exc_info=pumped)
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, send: Send) -> None:
        async def put(data: bytes) -> None:
            message = {"type": "http.response.body", "body": data, "more_body": True}
            # Not wait_for: it may swallow the cancellation that comes as the client goes, and the stream would stay.
            async with asyncio.timeout(SEND_SECONDS_MAX):
                await send(message)

        first = f"retry: {RETRY_MS}\n\n".encode()
        if self._after > self._head:
            first += frame("reset", dump_json({"head": self._head}))
        await put(first)
        seen = 0 if self._after > self._head else self._after
        async for entry in self._entries:
            if entry is None:
                await put(HEARTBEAT)
            else:
                await put(entry_frame(entry))
                seen = entry.seq
        if not self._streams.is_closing.is_set():
            await put(frame("end", dump_json({"head": seen})))


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _close(entries: AsyncIterator[Entry | None]) -> None:
    aclose = getattr(entries, "aclose", None)
    if aclose is not None:
        await aclose()

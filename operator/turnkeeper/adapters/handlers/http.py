"""Posts each turn to a web service, which answers with the same lines that a command writes.

A request goes one way: what is sent while it runs can't reach it, so steering is left and starts the next turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import httpx

from turnkeeper.adapters.handlers.http_call import Caller, checked_headers, checked_url
from turnkeeper.adapters.handlers.lines import LINE_BYTES_MAX, CutLine, LineSplitter, Refused, parse_line
from turnkeeper.adapters.handlers.reporter import Reporter
from turnkeeper.adapters.handlers.verdicts import Answered, Verdict, read_verdict, settle
from turnkeeper.adapters.handlers.wire import earlier, turn_document
from turnkeeper.core.names import dump_json
from turnkeeper.core.values import Json
from turnkeeper.errors import HandlerError
from turnkeeper.ports import Pause, Turn

LINES = "application/x-ndjson"
DOCUMENT = "application/json"
NO_CONTENT = 204


class HttpHandler:
    """Posts each turn to `url`, and reads events and the verdict from the answer.

    headers: sent along, for example an Authorization. timeout_seconds: the longest silence; an empty line in the answer
    breaks it. connect_seconds_max: how long it is tried to connect. line_bytes_max: the longest line or document that
    is read. history_limit: how many entries from before the turn are sent along.
    Raises SettingsError for a URL or header that can't be used.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = 60.0,
        connect_seconds_max: float = 10.0,
        line_bytes_max: int = LINE_BYTES_MAX,
        history_limit: int = 200,
    ) -> None:
        self._url = checked_url(url, "http")
        self._caller = Caller(checked_headers(headers or {}, "http"), timeout_seconds, connect_seconds_max)
        self._line_bytes_max = line_bytes_max
        self._history_limit = history_limit

    async def turn(self, turn: Turn) -> Json | Pause:
        """Post the turn and return the service's verdict. Closing the connection is how a cancellation reaches it."""
        document = turn_document(turn, await earlier(turn, self._history_limit))
        headers = {
            "Accept": f"{LINES}, {DOCUMENT}",
            "Accept-Encoding": "identity",
            # A run is asked for once, however often it is tried to connect; a turn's later attempts are other runs.
            "Idempotency-Key": turn.run_id,
            "Turnkeeper-Token": str(turn.token),
        }
        async with self._caller.post(self._url, dump_json(document).encode("ascii"), headers) as response:
            verdict = await self._verdict(turn, response)
        return settle(verdict)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._caller.aclose()

    async def _verdict(self, turn: Turn, response: httpx.Response) -> Verdict:
        if response.status_code == NO_CONTENT:
            return Answered(None)
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind == DOCUMENT:
            return await self._document(response)
        if kind != LINES:
            raise HandlerError(f"{self._url} answered with {kind[:80]!a}, neither {LINES} nor {DOCUMENT}")
        reporter = Reporter(turn, asyncio.get_running_loop().time)
        async for line in self._lines(response):
            verdict = await _heard(line, reporter)
            if verdict is not None:
                await reporter.close()
                return verdict
        await reporter.close()
        raise HandlerError(f"{self._url} ended its answer without a line that says answer, ask or fail")

    async def _document(self, response: httpx.Response) -> Verdict:
        """Read a body that is one JSON document: the verdict alone."""
        body = b""
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > self._line_bytes_max:
                raise HandlerError(f"{self._url} answered with more than {self._line_bytes_max} bytes")
        line = parse_line(body)
        verdict = read_verdict(line)
        if verdict is None:
            why = line.reason if isinstance(line, Refused) else 'its "type" is none of answer, ask and fail'
            raise HandlerError(f"{self._url} answered with a document that is no verdict: {why}")
        return verdict

    async def _lines(self, response: httpx.Response) -> AsyncIterator[bytes | CutLine]:
        splitter = LineSplitter(self._line_bytes_max)
        async for chunk in response.aiter_bytes():
            for line in splitter.feed(chunk):
                yield line
        last = splitter.rest()
        if last is not None:
            yield last


async def _heard(raw: bytes | CutLine, reporter: Reporter) -> Verdict | None:
    if isinstance(raw, bytes) and not raw.strip():
        return None
    line = parse_line(raw)
    verdict = read_verdict(line)
    if verdict is not None:
        return verdict
    if isinstance(line, Refused):
        await reporter.refused(line.reason)
    elif line["type"] != "event":
        await reporter.refused(f"a line of the type {str(line['type'])[:80]!a}, which an answer over HTTP can't hold")
    elif "event" not in line:
        await reporter.refused('an "event" line has no "event"')
    else:
        await reporter.event(line["event"])
    return None

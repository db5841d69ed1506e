"""What a model says piece by piece, written to the log in fewer and larger pieces.

A fast model sends a hundred pieces a second, and each event of a log is a durable transaction. A reader can't tell
twenty pieces a second from a hundred.
"""

from __future__ import annotations

import asyncio

from turnkeeper.ports import Turn

GAP_SECONDS = 0.05
"""Shortest time between two events. Arbitrary: twenty a second look like a flow."""


class Deltas:
    """Gathers pieces of text and emits them as `{"delta": text}`; all of them, in order, make the whole."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._said: list[str] = []
        self._waiting = ""
        self._half = ""
        self._news = asyncio.Event()
        self._closed = asyncio.Event()
        self.size = 0

    @property
    def whole(self) -> str:
        """Everything that was added."""
        return "".join(self._said)

    def add(self, text: str) -> None:
        """Add a piece. The two halves of a character may come in two pieces."""
        text = self._half + text
        self._half = text[-1] if text and "\ud800" <= text[-1] <= "\udbff" else ""
        self._add_whole(text.removesuffix(self._half) if self._half else text)

    def close(self) -> None:
        """Say that nothing more comes."""
        self._add_whole(self._half)
        self._half = ""
        self._closed.set()
        self._news.set()

    async def emit_all(self) -> None:
        """Emit what comes until `close`, and return when everything is in the log."""
        while True:
            await self._news.wait()
            self._news.clear()
            text, self._waiting = self._waiting, ""
            if text:
                await self._turn.emit({"delta": text})
            if self._closed.is_set() and not self._waiting:
                return
            await self._gap()

    def _add_whole(self, text: str) -> None:
        if text:
            # Pairs become the characters that they stand for; a half that has lost its other one becomes U+FFFD.
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            self._said.append(text)
            self._waiting += text
            self.size += len(text)
            self._news.set()

    async def _gap(self) -> None:
        """Wait until the next event is due, or nothing more comes."""
        try:
            async with asyncio.timeout(GAP_SECONDS):
                await self._closed.wait()
        except TimeoutError:
            return

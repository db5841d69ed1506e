"""Writes what a program says to its run's log: every event, and a bounded number of remarks about it.

A remark is what the program did not mean as an event: a line of its stderr, or why a line was refused. A program that
only complains must not fill a log that is kept for ever, so beyond a stated rate remarks are counted, not written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from turnkeeper.core.values import Json
from turnkeeper.errors import InvalidInputError
from turnkeeper.ports import Turn

REMARKS_AT_ONCE_MAX = 100
"""Arbitrary: a stack trace in full."""

REMARKS_PER_SECOND_MAX = 5
"""Arbitrary: what a person may read along with. An hour's run writes at most 18,100."""

REMARK_LENGTH_MAX = 4_000
"""Longest remark in characters. Arbitrary: a screen full."""


class Reporter:
    """Writes events one after another, whoever of a run's tasks has them."""

    def __init__(self, turn: Turn, monotonic: Callable[[], float]) -> None:
        self._turn = turn
        self._monotonic = monotonic
        self._one_at_a_time = asyncio.Lock()
        self._budget = float(REMARKS_AT_ONCE_MAX)
        self._counted_at = monotonic()
        self._left_out = 0

    async def event(self, event: Json) -> None:
        """Write an event; one that can't be kept is refused alone, and the log says why."""
        try:
            await self._emit(event)
        except InvalidInputError as error:
            await self.refused(str(error))

    async def refused(self, reason: str) -> None:
        """Remark that a line was refused."""
        await self._remark("refused", reason)

    async def stderr(self, line: str) -> None:
        """Remark what a program wrote to its stderr."""
        await self._remark("stderr", line)

    async def close(self) -> None:
        """Write how many remarks were left out, if any were."""
        if self._left_out:
            await self._emit({"left_out": self._left_out, "reason": "more remarks than a run's log takes"})
            self._left_out = 0

    async def _remark(self, about: str, text: str) -> None:
        now = self._monotonic()
        earned = (now - self._counted_at) * REMARKS_PER_SECOND_MAX
        self._budget = min(self._budget + earned, REMARKS_AT_ONCE_MAX)
        self._counted_at = now
        if self._budget < 1:
            self._left_out += 1
            return
        self._budget -= 1
        if len(text) > REMARK_LENGTH_MAX:
            text = f"{text[:REMARK_LENGTH_MAX]} [cut: {len(text)} characters]"
        await self._emit({about: text})

    async def _emit(self, event: Json) -> None:
        async with self._one_at_a_time:
            await self._turn.emit(event)

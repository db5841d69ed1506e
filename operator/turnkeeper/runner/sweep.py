"""Recover: take every thread of the workspace that is owed, as the runner itself.

It judges the thread, not the worker: nobody has to know which worker died. It pages through what is owed and what is
running, oldest first, and so costs what is there to do, not what threads exist. A thread whose holder's session exists
is not passed over: a look is armed on it, since a holder that crashed a moment ago has not expired yet and nothing else
may ever be asked in that thread. It may run anywhere, any number of times, twice at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

from turnkeeper.core import questions
from turnkeeper.core.claim import Busy
from turnkeeper.core.recovery import Recovered
from turnkeeper.core.turn import Started
from turnkeeper.core.values import Thread
from turnkeeper.core.words import Resolution, ThreadState
from turnkeeper.errors import TurnkeeperError
from turnkeeper.ports import Claims
from turnkeeper.runner.drive import DriveVerdict, Failed, Tools
from turnkeeper.runner.looks import Looks
from turnkeeper.runner.taker import Taker

PAGE = 100
"""Threads read at once. Arbitrary: bounds memory, and one statement for a hundred threads costs as for one."""

CONCURRENCY = 8
"""Threads taken at once. Arbitrary: fills a journal's batches without crowding out messages."""

_log = logging.getLogger(__name__)


class Sweep:
    """One run of recover; made anew for each, so that nothing is remembered from one to the next.

    exists: whether a session was seen to exist a moment ago; True needs no read, since a look stands behind it.
    """

    def __init__(
        self,
        tools: Tools,
        claims: Claims,
        taker: Taker,
        looks: Looks,
        own_session: str,
        *,
        exists: Callable[[str], bool],
    ) -> None:
        self._tools = tools
        self._claims = claims
        self._taker = taker
        self._looks = looks
        self._own_session = own_session
        self._exists = exists
        self._existing: set[str] | None = None  # by a read of this sweep, once one was needed
        self._is_unreadable = False
        self._started: list[str] = []
        self._held = self._refused = self._failed = self._parked = self._remaining = 0

    async def run(self, limit: int | None) -> Recovered:
        """Sweep once, starting at most `limit` runs. A thread that fails is counted, and the sweep goes on."""
        began = self._tools.clock.monotonic()
        await self._expire()
        async for page in self._pages(ThreadState.OWED):
            await self._take_all(page, limit)
        async for page in self._pages(ThreadState.RUNNING):
            await self._take_all([thread for thread in page if not await self._is_held(thread)], limit)
        return Recovered(
            started=tuple(self._started),
            held=self._held,
            refused=self._refused,
            failed=self._failed,
            parked=self._parked,
            remaining=self._remaining,
            complete=not self._remaining and not self._failed,
            seconds=self._tools.clock.monotonic() - began,
        )

    async def _pages(self, state: ThreadState) -> AsyncIterator[list[Thread]]:
        after: tuple[int, str] | None = None
        while True:
            try:
                page = list(await self._tools.journal.owed(state, after, PAGE))
            except TurnkeeperError as error:
                _log.warning("the sweep is partial: %s threads can't be read: %s", state, error)
                self._failed += 1
                return
            if page:
                yield page
                after = (page[-1].owed_since_ms or 0, page[-1].thread_id)
            if len(page) < PAGE:
                return

    async def _is_held(self, thread: Thread) -> bool:
        """Leave a thread to its live holder, with a look on that holder's session."""
        if thread.session == self._own_session:
            drive = self._taker.drives.get(thread.thread_id)
            self._held += drive is not None
            return drive is not None
        if not self._exists(thread.session) and thread.session not in await self._read_existing():
            return self._is_unreadable
        self._held += 1
        self._looks.arm(thread.thread_id, thread.session, self._tools.options.claim_ttl_seconds)
        return True

    async def _read_existing(self) -> set[str]:
        """Read afresh, once, which sessions exist: an old view of "not there" may have missed a new one."""
        if self._existing is None:
            self._existing = set()
            try:
                self._existing |= {record.session for record in await self._claims.sessions()}
            except TurnkeeperError as error:
                _log.warning("the sweep leaves running threads out, since sessions can't be read: %s", error)
                self._failed += 1
                self._is_unreadable = True
        return self._existing

    async def _take_all(self, page: list[Thread], limit: int | None) -> None:
        for start in range(0, len(page), CONCURRENCY):
            await asyncio.gather(*(self._take(thread, limit) for thread in page[start : start + CONCURRENCY]))

    async def _take(self, thread: Thread, limit: int | None) -> None:
        is_enough = limit is not None and len(self._started) >= limit
        if thread.thread_id in self._taker.drives:
            self._held += 1
            return
        if self._looks.is_ripening(thread.thread_id):
            self._refused += 1
            return
        drive = None if is_enough else self._taker.take(thread.thread_id, keep=True)
        if drive is None:
            self._remaining += 1
            return
        self._count(await asyncio.shield(drive.first))

    def _count(self, verdict: DriveVerdict) -> None:
        self._parked += getattr(verdict, "parked", 0)
        if isinstance(verdict, Started):
            self._started.append(verdict.run.run_id)
        elif isinstance(verdict, Failed):
            self._failed += 1
        elif isinstance(verdict, Busy):
            self._held += 1
        else:
            self._refused += 1

    async def _expire(self) -> None:
        """Resolve the questions whose time is over."""
        now_ms = self._tools.clock.wall_ms()
        try:
            for thread_id, question_id in await self._tools.journal.overdue(now_ms, PAGE):
                act = questions.answer(thread_id, question_id, Resolution.EXPIRED, None, now_ms)
                await self._tools.journal.transact(act)
        except TurnkeeperError as error:
            _log.warning("the sweep could not resolve questions whose time is over: %s", error)
            self._failed += 1

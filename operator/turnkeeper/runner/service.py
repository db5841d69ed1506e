"""The runner as its users see it: what `Requests` takes, and recover, watch, drain, aclose.

Every call records first and acts after: what is answered with success is in the journal, and everything that this
process then does about it (steer, take, look) could be lost with the process and would be found again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Self

from turnkeeper.core.claim import SessionRecord
from turnkeeper.core.lookagain import Look
from turnkeeper.core.recovery import Recovered
from turnkeeper.core.values import Entry
from turnkeeper.errors import TurnkeeperError
from turnkeeper.ports import Claims
from turnkeeper.runner.drive import Tools
from turnkeeper.runner.execution import Cause
from turnkeeper.runner.looks import Looks
from turnkeeper.runner.peers import PeerWatch
from turnkeeper.runner.presence import Presence, Roster
from turnkeeper.runner.requests import Requests
from turnkeeper.runner.session import RenewalHost, SessionKeeper
from turnkeeper.runner.stream import follow_log
from turnkeeper.runner.sweep import Sweep
from turnkeeper.runner.taker import Taker
from turnkeeper.runner.timers import Timers

RESWEEP_SECONDS = 5.0
"""When to sweep again after a sweep in which something failed, if that is sooner than it was due: its threads may have
nobody else, and a runner whose controller sweeps for it has no other sweep of its own. Arbitrary: a short outage's
length."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether work should be sent here, and if not, why."""

    is_ready: bool
    reasons: tuple[str, ...]


class Runner(Requests):
    """Takes the turns of one workspace. Use as an async context manager, or `start` and `aclose`.

    roster: tells which sessions exist, where that need not be read from `claims`; run and closed by its opener.
    """

    def __init__(self, tools: Tools, claims: Claims, renewals: RenewalHost, roster: Roster | None = None) -> None:
        self._claims = claims
        self._timers = Timers(tools.clock)
        looks = Looks(self._timers, tools.clock, tools.observer, self._look)
        taker = Taker(tools, looks, lambda: self._keeper.session)
        self._keeper = SessionKeeper(
            claims,
            tools.clock,
            tools.options,
            tools.observer,
            renewals,
            tools.peers,
            on_lost=taker.lost,
            on_opened=taker.opened,
        )
        presence = Presence(
            claims, tools.clock, tools.options.claim_ttl_seconds, self._session_gone, self._seen, roster
        )
        self._peer_watch = (
            PeerWatch(tools.peers, claims, tools.clock, tools.observer, presence.noticed) if tools.peers else None
        )
        super().__init__(tools, self._keeper, presence, looks, taker)
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Open a session and begin: sweep the workspace, then take what comes.

        Raises UnavailableError where the claim store can't be reached.
        """
        await self._presence.poll()
        await self._keeper.start()
        loops: list[Coroutine[Any, Any, None]] = [
            self._timers.run(),
            self._presence.run(),
            self._tools.hints.run(),
            self._taker.run_backlog(),
            self._sweep_on_schedule(),
        ]
        for loop in loops:
            self._own(loop)

    async def recover(self, limit: int | None = None) -> Recovered:
        """Take every owed thread of the workspace (spec action Sweep). Idempotent; never raises for a thread."""
        sweep = Sweep(
            self._tools, self._claims, self._taker, self._looks, self._keeper.session, exists=self._presence.exists
        )
        return await sweep.run(limit)

    def watch(self, thread_id: str, after: int, *, follow: bool) -> AsyncIterator[Entry | None]:
        """Yield a thread's entries after a seq, as they come; None when there was none for a while.

        Ends once the thread is idle, unless `follow`.
        """
        return follow_log(self.journal, self._tools.hints, thread_id, after, follow=follow)

    def readiness(self) -> Readiness:
        """Say whether work should be sent here."""
        reasons = []
        if not self._taker.is_taking:
            reasons.append("the runner is stopping")
        if not self._keeper.is_held:
            reasons.append("the runner holds no session: its claim store can't be reached")
        if self._presence.failure:
            reasons.append(self._presence.failure)
        return Readiness(not reasons, tuple(reasons))

    def liveness(self) -> Readiness:
        """Say whether the process works at all: its own loops must not have ended."""
        ended = () if self._is_closed else tuple(repr(task.exception()) for task in self._tasks if task.done())
        return Readiness(not ended, ended)

    async def drain(self, timeout_seconds: float, *, leave_seconds: float = 0.0) -> None:
        """Take nothing more, let turns end within the time, interrupt the rest, and record that.

        leave_seconds: how long from the first call on messages are still accepted, for others to take.
        """
        if self._taker.is_taking:
            self._accepts_until = self._tools.clock.monotonic() + leave_seconds
        self._taker.is_taking = False
        if await self._taker.settled(timeout_seconds):
            return
        self._taker.cut(Cause.DRAINING)
        if not await self._taker.settled(
            self._tools.options.cancel_grace_seconds + self._tools.options.claim_ttl_seconds
        ):
            _log.error("not every run could be recorded as interrupted; the next taker does it")

    async def aclose(self) -> None:
        """Stop now: interrupt what runs, release the claims, close the session. Does not close the journal."""
        await self.drain(0.0)
        self._is_closed = True
        await self._timers.aclose()
        await self._taker.aclose()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._peer_watch is not None:
            await self._peer_watch.aclose()
        await self._keeper.aclose()

    async def _look(self, look: Look) -> str:
        """Take the look (spec action LookAgain): nothing is claimed while the holder is seen to live."""
        thread = await self.journal.thread(look.thread_id)
        if thread is None or not (thread.is_owed or thread.run is not None):
            return "nothing_owed"
        is_held = thread.run is not None and thread.session != self._keeper.session
        if is_held and self._presence.exists(thread.session):
            self._looks.arm(look.thread_id, thread.session, self._tools.options.claim_ttl_seconds)
            return "refused"
        drive = self._taker.look(look)
        if drive is None:
            return "no_room"
        verdict = await asyncio.shield(drive.first)
        return {"Started": "taken", "Busy": "refused", "Failed": "failed"}.get(type(verdict).__name__, "nothing_owed")

    def _seen(self, records: Sequence[SessionRecord]) -> None:
        if self._peer_watch is not None:
            self._peer_watch.seen(self._keeper.session, records)

    async def _session_gone(self, session: str) -> None:
        """Take what an ended session ran, and let the looks at it come due."""
        self._looks.session_gone(session)
        if session == self._keeper.session:
            return
        try:
            self._looks.take_over(await self.journal.ran_by(session))
        except TurnkeeperError as error:
            _log.warning("what session %s ran can't be read, the sweep will find it: %s", session, error)

    async def _sweep_on_schedule(self) -> None:
        """Sweep at the start and, where nobody else asks for it, on an interval; soon again after a failure."""
        interval = self._tools.options.sweep_interval_seconds
        while True:
            pause = interval
            if not await self._sweep_whole():
                pause = RESWEEP_SECONDS if interval is None else min(interval, RESWEEP_SECONDS)
            if pause is None:
                await asyncio.Event().wait()
                return
            await self._tools.clock.sleep(pause * random.uniform(0.9, 1.1))  # noqa: S311 - jitter, not a secret

    async def _sweep_whole(self) -> bool:
        """Sweep, and say whether nothing failed: what is left for want of room is the backlog's."""
        try:
            recovered = await self.recover()
        except TurnkeeperError as error:
            _log.warning("the sweep failed: %s", error)
            return False
        if recovered.started or not recovered.complete:
            _log.info("swept: %s", recovered)
        return not recovered.failed

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(_report)


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.critical("a loop of the runner ended, and its liveness fails", exc_info=error)

"""What this process drives, and what follows each drive: the hand-over, a look, the backlog, a turn apart.

Every path that may owe a thread a turn ends in `take`: a message, an answer, a look, a sweep, a slot that came free, a
session that ended. It is idempotent and cheap to call; what it can't do now it leaves where it will be found.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Coroutine

from turnkeeper.core.claim import Busy, SessionGone
from turnkeeper.core.cursor import AcceptVerdict
from turnkeeper.core.draft import Act
from turnkeeper.core.ending import AlreadyEnded, Ended
from turnkeeper.core.lookagain import Look
from turnkeeper.core.recovery import backoff_seconds
from turnkeeper.core.trace import Decision
from turnkeeper.core.turn import Later, NeedsApart, Superseded
from turnkeeper.core.words import ThreadState
from turnkeeper.errors import TurnkeeperError
from turnkeeper.ports import OWED, Watch
from turnkeeper.runner.drive import Drive, DriveVerdict, Failed, How, Opening, Tools
from turnkeeper.runner.execution import Cause
from turnkeeper.runner.looks import Looks
from turnkeeper.runner.slots import Slots
from turnkeeper.runner.waiting import first_of

BACKLOG_SECONDS = 1.0
"""How often a runner with room looks for owed threads of which it was not told. Arbitrary: one small read a second."""

SOON_SECONDS = 1.0
"""When to look again at what should pass by itself: a claim of this process whose release is being tried, a journal
that knows a greater token, a turn that waits for an idle runner."""

APART_SECONDS = 30.0
"""How long nothing begins beside a turn that runs apart. Arbitrary: what kills its runner mostly does so at once, and
newcomers wait for so long where there is no other runner."""

BEHIND_MAX = 1_000
"""Most threads remembered that found no room here. The sweep finds whatever is not remembered."""

_log = logging.getLogger(__name__)


class Taker:
    """`session` returns the present session, or "" between two lives."""

    def __init__(self, tools: Tools, looks: Looks, session: Callable[[], str]) -> None:
        self.drives: dict[str, Drive] = {}
        self.is_taking = True
        self._tools = tools
        self._looks = looks
        self._session = session
        self._slots = Slots(tools.options.max_turns)
        self._tasks: set[asyncio.Task[None]] = set()
        self._has_room = asyncio.Event()
        self._behind: dict[str, None] = {}  # in the order in which they found no room
        self._orphans: set[str] = set()  # threads whose runs were lost with a session, to be taken in the next life

    @property
    def room(self) -> int:
        """How many turns could begin here now."""
        return self._slots.room if self.is_taking and self._session() else 0

    def take(self, thread_id: str, *, ripe: bool = False, apart: bool = False, keep: bool = False) -> Drive | None:
        """Begin to drive a thread, or nudge the drive that there is; None where there is no room, session or leave.

        What is left undone is not forgotten: the thread is owed by its row, and found by the backlog or the sweep;
        other runners are told that they may have room for it.
        keep: remember it here for when there is room, since a dead holder's open run hides it from the backlog.
        """
        if known := self.drives.get(thread_id):
            known.nudged = True
            return known
        session = self._session()
        if not self.is_taking:
            self._tools.hints.tell(OWED)
            return None
        if not session:
            self._orphans.add(thread_id)
            return None
        beside = apart and self._slots.is_overdue(thread_id)
        apart = apart and not beside
        if not self._slots.enter(apart=apart, beside=beside):
            if apart:
                self._wait_apart(thread_id)
            elif keep and len(self._behind) < BEHIND_MAX:
                self._behind[thread_id] = None
            self._tools.hints.tell(OWED)
            return None
        if apart or beside:
            self._slots.clear(thread_id)
        self._looks.disarm(thread_id)
        drive = self._begin(thread_id, session, How(ripe=ripe, apart=apart, beside=beside))
        if apart:
            self._own(self._share_after_a_while(drive))
        return drive

    def open(self, accepting: Act[AcceptVerdict]) -> Opening | None:
        """Begin to drive a thread that nobody drives here by recording a message; None where it is to be sent alone."""
        thread_id, session = accepting.thread_id, self._session()
        is_free = thread_id not in self.drives and not self._slots.is_suspect(thread_id)
        if not (is_free and session and self.room and self._slots.enter()):
            return None
        opening = Opening(accepting)
        self._begin(thread_id, session, How(), opening)
        return opening

    def _begin(self, thread_id: str, session: str, how: How, opening: Opening | None = None) -> Drive:
        drive = Drive(thread_id, session, self._tools, how, lambda: self._keeps_claim(how), opening)
        self.drives[thread_id] = drive
        self._tools.observer.decided(Decision.TAKE, thread_id)
        self._own(self._run(drive))
        return drive

    def _own(self, work: Coroutine[None, None, None]) -> None:
        # In a context of its own: a turn is no part of the request that set it off.
        task = asyncio.create_task(work, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _share_after_a_while(self, drive: Drive) -> None:
        """Let others begin beside a turn apart that goes on: it may take hours, and has not killed its runner yet."""
        await self._tools.clock.sleep(APART_SECONDS)
        if self.drives.get(drive.thread_id) is drive:
            self._slots.share()
            self._has_room.set()

    def _keeps_claim(self, how: How) -> bool:
        """A thread goes on under its claim unless others have waited for its slot, or this runner is stopping."""
        return self.is_taking and not self._slots.left_behind and not (how.apart or how.beside)

    async def _run(self, drive: Drive) -> None:
        verdict: DriveVerdict = Failed("cancelled")
        try:
            verdict = await drive.run()
        finally:
            # No await from here to the follow-up: a message that came before it has nudged this drive, and one that
            # comes after it finds none and takes the thread itself.
            del self.drives[drive.thread_id]
            self._tools.observer.decided(Decision.REST, drive.thread_id)
            self._slots.leave(apart=drive.how.apart)
            self._follow_up(drive, verdict)
            self._has_room.set()
            if drive.opening is not None:
                drive.opening.close()

    def _follow_up(self, drive: Drive, verdict: DriveVerdict) -> None:
        thread_id, ttl = drive.thread_id, self._tools.options.claim_ttl_seconds
        if isinstance(verdict, Busy):
            is_own = verdict.session == self._session()
            self._looks.arm(thread_id, verdict.session, SOON_SECONDS if is_own else ttl)
        elif isinstance(verdict, SessionGone):
            self._orphans.add(thread_id)
        elif isinstance(verdict, Superseded):
            self._looks.arm(thread_id, "", SOON_SECONDS)
        elif isinstance(verdict, Later):
            self._looks.arm(thread_id, "", backoff_seconds(verdict.charged), ripe=True)
        elif isinstance(verdict, NeedsApart):
            self._wait_apart(thread_id)
        elif isinstance(verdict, Failed):
            self._follow_failure(drive, verdict)
        elif drive.nudged or isinstance(verdict, AlreadyEnded) or _is_owed(verdict):
            self._hand_over(thread_id)
        if suspect := self._slots.next_apart():
            self.take(suspect, ripe=True, apart=True)

    def _follow_failure(self, drive: Drive, verdict: Failed) -> None:
        """Look again at what was running here, or when a store that is too busy asked for it; else the sweep does."""
        _log.warning("thread %a: %s", drive.thread_id, verdict.reason)
        if drive.session != self._session():
            self.take(drive.thread_id)
        elif verdict.was_running:
            self._looks.arm(drive.thread_id, "", self._tools.options.claim_ttl_seconds)
        elif verdict.retry_after_seconds is not None:
            self._looks.arm(drive.thread_id, "", verdict.retry_after_seconds)

    def _wait_apart(self, thread_id: str) -> None:
        self._slots.suspect(thread_id)
        self._looks.arm(thread_id, "", SOON_SECONDS, ripe=True)

    def look(self, look: Look) -> Drive | None:
        """Take the thread of a look that is due."""
        is_suspect = self._slots.is_suspect(look.thread_id)
        return self.take(look.thread_id, ripe=look.ripe, apart=is_suspect, keep=True)

    def _hand_over(self, thread_id: str) -> None:
        """Take the thread again, behind those that have waited longer (spec action HandOver)."""
        if self._slots.left_behind:
            self._tools.hints.tell(OWED)
        else:
            self.take(thread_id)

    def lost(self, session: str) -> None:
        """Cut every run of a session that is lost; each thread is taken again in the next life."""
        for thread_id, drive in self.drives.items():
            if drive.session == session:
                self._orphans.add(thread_id)
                drive.cut(Cause.LOST)

    def opened(self) -> None:
        """Take what was left at the end of the last life."""
        orphans, self._orphans = self._orphans, set()
        for thread_id in orphans:
            self.take(thread_id)

    def cut(self, cause: Cause) -> None:
        """Cut every run short."""
        for drive in self.drives.values():
            drive.cut(cause)

    async def settled(self, timeout_seconds: float) -> bool:
        """Wait until nothing is driven here; False if that took longer."""
        deadline = self._tools.clock.monotonic() + timeout_seconds
        while self.drives:
            remaining = deadline - self._tools.clock.monotonic()
            if remaining <= 0:
                return False
            await first_of(self._tasks, self._tools.clock, remaining)
        return True

    async def run_backlog(self) -> None:
        """Take what is owed and nobody drives, oldest first, whenever there is room; the owner's task."""
        news = self._tools.hints.watch(OWED)
        while True:
            await self._until_room(news)
            while self._behind and self.room:
                self.take(self._oldest_behind(), keep=True)
            room = self.room
            if not room:
                continue
            try:
                # Threads that wait here for a gap of their own must not hide those behind them.
                owed = await self._tools.journal.owed(ThreadState.OWED, None, room + self._looks.ripening)
            except TurnkeeperError as error:
                _log.warning("what is owed can't be read: %s", error)
                continue
            ready = [thread for thread in owed if not self._looks.is_ripening(thread.thread_id)]
            self._slots.left_behind = len(ready) >= room
            for thread in ready[:room]:
                self.take(thread.thread_id)

    def _oldest_behind(self) -> str:
        thread_id = next(iter(self._behind))
        del self._behind[thread_id]
        return thread_id

    async def _until_room(self, news: Watch) -> None:
        """Wait for a slot to come free while somebody was left behind, for news of what is owed, else for the time."""
        self._has_room.clear()
        due = asyncio.ensure_future(self._tools.clock.sleep(BACKLOG_SECONDS))
        told = asyncio.ensure_future(news.news(2 * BACKLOG_SECONDS))
        try:
            while not (due.done() or told.done()):
                freed = asyncio.ensure_future(self._has_room.wait())
                await asyncio.wait((freed, due, told), return_when=asyncio.FIRST_COMPLETED)
                freed.cancel()
                self._has_room.clear()
                if self._slots.left_behind and self.room:
                    return
        finally:
            due.cancel()
            told.cancel()

    async def aclose(self) -> None:
        """Cancel what is still driven; its claims end with the session."""
        self.is_taking = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _is_owed(verdict: DriveVerdict) -> bool:
    return isinstance(verdict, Ended) and verdict.thread.is_owed

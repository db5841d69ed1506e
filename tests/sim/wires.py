"""The ports of one life of a process, with all that may happen between a call and its answer.

A call's work is carried by the wire, not by the caller: one that is cancelled, frozen or dead no longer hears what
became of it, and it may take effect all the same. Acts of one life on one thread keep their order, as ports promise.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from tests.sim.faults import WINDOWS, Fault, Harm
from tests.sim.virtual import now, pause
from turnkeeper.core.claim import Busy, Claimed, SessionGone, SessionRecord
from turnkeeper.core.draft import Act
from turnkeeper.core.values import Claim, Entry, Message, Parked, Question, Run, Stats, Thread
from turnkeeper.core.words import ThreadState
from turnkeeper.errors import UnavailableError, UnknownOutcomeError
from turnkeeper.ports import Claims, Journal

T = TypeVar("T")

LATENCY_SECONDS = 0.004
"""Mean of a call's way there, and of its way back. Arbitrary: a database on the same network."""

HELD_UP_SHARE = 0.02
HELD_UP_SECONDS = 0.3
"""Now and then a call is held up, for as long as some short turns take: so others come between any two calls."""

GIVEN_UP_SECONDS = 0.5
"""An adapter's own deadline: a sixth of the simulation's claim_ttl, under the third that the ports ask for."""

LATE_SECONDS = 6.0
"""Longest that a write is late: two claim_ttls, so that others have taken over."""

SLOW_SECONDS = 0.4
"""Longest that a slow call takes each way, within its deadline."""

DROPPED_SHARE = 0.5
"""How many of the calls that a process has on their way when it dies never arrive."""


@dataclass
class Aim:
    """A fault that waits for a call: it strikes when `left` calls of the name have been made."""

    fault: Fault
    left: int
    strike: Callable[[], None]


class Line:
    """What connects one life to the stores, and what is wrong with it now."""

    def __init__(self, rng: random.Random, is_over: Callable[[], bool]) -> None:
        self.is_dead = False
        self.is_losing = False  # whether the answer to the call that is being done will be lost
        self.frozen_until = 0.0
        self.windows: list[Fault] = []
        self.aims: list[Aim] = []
        self._rng = rng
        self._is_over = is_over
        self._last_of: dict[str, asyncio.Event] = {}

    async def gate(self) -> None:
        """Return when the life goes on: at once, when it thaws, or never."""
        while True:
            if self._is_over():
                raise asyncio.CancelledError
            if self.is_dead:
                await asyncio.get_running_loop().create_future()
            left = self.frozen_until - now()
            if left <= 0:
                return
            await pause(left)

    def chance(self, share: float) -> bool:
        """Draw from the seed."""
        return self._rng.random() < share

    async def call(self, name: str, work: Callable[[], Awaitable[T]], *, order: str = "", late: bool = False) -> T:
        """Carry a call there and its answer back. order: what it keeps its place in; late: it may be given up."""
        await self.gate()
        aimed = self._aimed(name, late=late)
        harm = aimed.harm if aimed is not None else self._harm(late=late)
        carried = asyncio.get_running_loop().create_task(self._carry(work, order, harm, aimed))
        try:
            answer = await asyncio.shield(self._until_given_up(carried) if harm is Harm.LATE else carried)
        except UnavailableError:
            await self.gate()
            raise
        await self.gate()
        return answer

    async def _until_given_up(self, carried: asyncio.Task[T]) -> T:
        await pause(GIVEN_UP_SECONDS)
        if carried.done():
            return carried.result()
        raise UnknownOutcomeError("no answer within the deadline")

    async def _carry(self, work: Callable[[], Awaitable[T]], order: str, harm: Harm | None, aimed: Fault | None) -> T:
        held_up = aimed.share * SLOW_SECONDS if aimed is not None else 0.0
        before, done = self._last_of.get(order) if order else None, asyncio.Event()
        if order:
            self._last_of[order] = done
        try:
            answer = await self._arrive(work, harm, held_up, before)
        finally:
            done.set()
        await pause(self._way(None if harm is Harm.LATE else harm))
        if harm is Harm.LOST:
            raise UnknownOutcomeError("the answer was lost")
        return answer

    async def _arrive(
        self, work: Callable[[], Awaitable[T]], harm: Harm | None, held_up: float, before: asyncio.Event | None
    ) -> T:
        """Take effect after what was sent before. Calls that are late are on their way together, not in turn."""
        await pause(self._way(harm) + held_up)
        if before is not None:
            await before.wait()
        if harm is Harm.DOWN:
            raise UnavailableError("refused")
        if self.is_dead and self._rng.random() < DROPPED_SHARE:
            raise UnavailableError("it died on the way")
        self.is_losing = harm is Harm.LOST
        return await work()

    def _way(self, harm: Harm | None) -> float:
        if harm is Harm.LATE:
            return self._rng.uniform(GIVEN_UP_SECONDS, LATE_SECONDS)
        if harm is Harm.SLOW:
            return self._rng.uniform(0.0, SLOW_SECONDS)
        if self._rng.random() < HELD_UP_SHARE:
            return self._rng.uniform(0.0, HELD_UP_SECONDS)
        return min(self._rng.expovariate(1 / LATENCY_SECONDS), 10 * LATENCY_SECONDS)

    def _aimed(self, name: str, *, late: bool) -> Fault | None:
        """Count the call, and return what is wrong with this one; a crash or a freeze strikes as it is sent."""
        struck: Fault | None = None
        for aim in [aim for aim in self.aims if aim.fault.call == name]:
            aim.left -= 1
            if aim.left > 0 or (aim.fault.harm is Harm.LATE and not late):
                continue
            self.aims.remove(aim)
            if aim.fault.harm in WINDOWS:
                struck = aim.fault
            aim.strike()
        return struck

    def _harm(self, *, late: bool) -> Harm | None:
        moment = now()
        self.windows = [fault for fault in self.windows if fault.at + fault.seconds > moment]
        for fault in self.windows:
            fits = late or fault.harm is not Harm.LATE
            if fits and self._rng.random() < fault.share:
                return fault.harm
        return None


class WiredJournal:
    """A journal at the other end of a line."""

    def __init__(self, journal: Journal, line: Line) -> None:
        self._journal = journal
        self._line = line

    async def transact(self, act: Act[T]) -> T:
        """See `ports.Journal`. A lost answer is asked again now and then, as the database adapter does by itself."""
        try:
            return await self._line.call(act.name, lambda: self._journal.transact(act), order=act.thread_id, late=True)
        except UnknownOutcomeError:
            decide = act.decide
            again = replace(act, decide=lambda seen: decide(replace(seen, repeated=True)))
            if self._line.chance(0.5):
                raise
            return await self._line.call(act.name, lambda: self._journal.transact(again), order=act.thread_id)

    async def thread(self, thread_id: str) -> Thread | None:
        return await self._line.call("thread", lambda: self._journal.thread(thread_id))

    async def threads(self, state: ThreadState | None, after: str, limit: int) -> Sequence[Thread]:
        return await self._line.call("threads", lambda: self._journal.threads(state, after, limit))

    async def owed(self, state: ThreadState, after: tuple[int, str] | None, limit: int) -> Sequence[Thread]:
        return await self._line.call("owed", lambda: self._journal.owed(state, after, limit))

    async def ran_by(self, session: str) -> Sequence[str]:
        return await self._line.call("ran_by", lambda: self._journal.ran_by(session))

    async def log(self, thread_id: str, after: int, limit: int) -> Sequence[Entry]:
        return await self._line.call("log", lambda: self._journal.log(thread_id, after, limit))

    async def history(self, thread_id: str, before: int, limit: int) -> Sequence[Entry]:
        return await self._line.call("history", lambda: self._journal.history(thread_id, before, limit))

    async def waiting(self, thread_id: str, after: int, limit: int) -> Sequence[Message]:
        return await self._line.call("waiting", lambda: self._journal.waiting(thread_id, after, limit))

    async def message(self, thread_id: str, message_id: str) -> Message | None:
        return await self._line.call("message", lambda: self._journal.message(thread_id, message_id))

    async def questions(self, thread_id: str) -> Sequence[Question]:
        return await self._line.call("questions", lambda: self._journal.questions(thread_id))

    async def question(self, thread_id: str, question_id: str) -> Question | None:
        return await self._line.call("question", lambda: self._journal.question(thread_id, question_id))

    async def parked(self, thread_id: str) -> Sequence[Parked]:
        return await self._line.call("parked", lambda: self._journal.parked(thread_id))

    async def run(self, run_id: str) -> tuple[str, Run] | None:
        return await self._line.call("run", lambda: self._journal.run(run_id))

    async def heads(self, thread_ids: Sequence[str]) -> Mapping[str, int]:
        return await self._line.call("heads", lambda: self._journal.heads(thread_ids))

    async def overdue(self, now_ms: int, limit: int) -> Sequence[tuple[str, str]]:
        return await self._line.call("overdue", lambda: self._journal.overdue(now_ms, limit))

    async def stats(self) -> Stats:
        return await self._line.call("stats", self._journal.stats)

    async def aclose(self) -> None:
        await self._line.gate()


class WiredClaims:
    """Claims at the other end of a line."""

    def __init__(self, claims: Claims, line: Line) -> None:
        self._claims = claims
        self._line = line

    async def open_session(
        self, session: str, runner: str, duration_seconds: float, address: str = ""
    ) -> SessionRecord:
        return await self._line.call(
            "open_session", lambda: self._claims.open_session(session, runner, duration_seconds, address)
        )

    async def renew(self, session: str) -> SessionRecord | SessionGone:
        return await self._line.call("renew", lambda: self._claims.renew(session), late=True)

    async def close_session(self, session: str) -> None:
        await self._line.call("close_session", lambda: self._claims.close_session(session))

    async def session(self, session: str) -> SessionRecord | None:
        return await self._line.call("session", lambda: self._claims.session(session))

    async def sessions(self) -> Sequence[SessionRecord]:
        return await self._line.call("sessions", self._claims.sessions)

    async def declare_dead(self, record: SessionRecord) -> bool:
        return await self._line.call("declare_dead", lambda: self._claims.declare_dead(record))

    async def claim(self, thread_id: str, session: str, nonce: str, journal_token: int) -> Claimed | Busy | SessionGone:
        return await self._line.call(
            "claim", lambda: self._claims.claim(thread_id, session, nonce, journal_token), order=f"claim {thread_id}"
        )

    async def release(self, thread_id: str, claim: Claim) -> None:
        await self._line.call(
            "release", lambda: self._claims.release(thread_id, claim), order=f"claim {thread_id}", late=True
        )

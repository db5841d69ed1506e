"""The looks of refused claimants (spec actions Refused and LookAgain).

At most one for a thread. It is due a claim's lifetime on, or soon after its holder's session is seen to be gone. A look
runs in the timers' context, not in that of the request that was refused; its failure is logged and never raised.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

from turnkeeper.core.lookagain import Look, arm, hasten
from turnkeeper.core.trace import Decision
from turnkeeper.errors import TurnkeeperError
from turnkeeper.ports import Clock, Observer
from turnkeeper.runner.timers import Timers

AT_ONCE = 3
"""Looks taken at once: of a thousand that come due together, each reads its row just before it claims, and finds what
another runner has taken meanwhile. Few, since each is some five calls, which stand in one line where an API server is
too busy: behind more of them a call would not be let in within its deadline."""

_log = logging.getLogger(__name__)


class Looks:
    """`look(look)` takes the thread again; it returns the name of what came of it, for the metric."""

    def __init__(
        self, timers: Timers, clock: Clock, observer: Observer, look: Callable[[Look], Awaitable[str]]
    ) -> None:
        self._timers = timers
        self._clock = clock
        self._observer = observer
        self._look = look
        self._armed: dict[str, Look] = {}
        self._ripening: set[str] = set()
        self._by_session: defaultdict[str, set[str]] = defaultdict(set)
        self._places = asyncio.Semaphore(AT_ONCE)  # in line by the time at which they came due

    def __len__(self) -> int:
        return len(self._armed)

    def arm(self, thread_id: str, session: str, delay_seconds: float, *, ripe: bool = False) -> None:
        """Arm the thread's look; one that is due sooner and can do as much stays."""
        now = self._clock.monotonic()
        look = arm(
            thread_id,
            session,
            now_seconds=now,
            delay_seconds=delay_seconds,
            draw=random.random(),  # noqa: S311 - jitter, not a secret
            ripe=ripe,
        )
        known = self._armed.get(thread_id)
        if known is None or (known.session, known.ripe) != (session, ripe) or known.due_seconds > look.due_seconds:
            self._put(look)
            self._observer.decided(Decision.ARM, thread_id)

    def session_gone(self, session: str) -> None:
        """Make the looks at this session's threads due at once, spread a little."""
        for thread_id in list(self._by_session.get(session, ())):
            self._hasten(self._armed[thread_id], random.random())  # noqa: S311 - jitter, not a secret

    def take_over(self, thread_ids: Sequence[str]) -> None:
        """Look at once at threads whose holder is gone; if they are many, in an order that is this runner's own.

        So two runners seldom try for the same thread, and each finds taken what the other has taken meanwhile.
        """
        is_many = len(thread_ids) > AT_ONCE
        for thread_id in thread_ids:
            look = self._armed.get(thread_id)
            if look is None or look.ripe:  # a gap that was waited for is over: the thread ran meanwhile
                look = Look(thread_id=thread_id, session="", due_seconds=math.inf)
                self._observer.decided(Decision.ARM, thread_id)
            self._hasten(look, random.random() if is_many else 0.0)  # noqa: S311 - jitter, not a secret

    def _hasten(self, look: Look, draw: float) -> None:
        self._put(hasten(look, now_seconds=self._clock.monotonic(), draw=draw))

    def disarm(self, thread_id: str) -> None:
        """Forget a thread's look: the thread is taken here."""
        known = self._armed.pop(thread_id, None)
        if known is not None:
            self._forget(known)
            self._timers.disarm(thread_id)

    def _put(self, look: Look) -> None:
        self.disarm(look.thread_id)
        self._armed[look.thread_id] = look
        self._by_session[look.session].add(look.thread_id)
        if look.ripe:
            self._ripening.add(look.thread_id)
        self._timers.arm(look.thread_id, look.due_seconds, lambda: self._take_look(look))

    def _forget(self, look: Look) -> None:
        self._ripening.discard(look.thread_id)
        self._by_session[look.session].discard(look.thread_id)
        if not self._by_session[look.session]:
            del self._by_session[look.session]

    @property
    def ripening(self) -> int:
        """How many threads wait here for the gap after earlier deaths."""
        return len(self._ripening)

    def is_ripening(self, thread_id: str) -> bool:
        """Whether the thread waits here for the gap after earlier deaths, and should not be taken before."""
        return thread_id in self._ripening

    async def _take_look(self, look: Look) -> None:
        async with self._places:
            if self._armed.get(look.thread_id) is not look:
                return  # disarmed or armed anew while it stood in line
            del self._armed[look.thread_id]
            self._forget(look)
            self._observer.decided(Decision.LOOK_AGAIN, look.thread_id)
            try:
                result = await self._look(look)
            except TurnkeeperError as error:
                result = "failed"
                _log.warning("thread %a: a look failed, the sweep will find it: %s", look.thread_id, error)
            self._observer.looked(result)

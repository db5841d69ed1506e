"""This runner's session: opened, renewed from a thread of its own, lost, and followed by a new one.

Theory. A sign of life must come although a handler blocks the event loop or holds every database connection: so it has
its own thread, its own loop and its own client. And it must say something about the work: so the thread looks whether
the runner's loop moves at all, and stops renewing when it has not for a stated bound.

What is held is held until `lost_seconds` after the *start* of the last renewal that succeeded. Past that moment
everything is lost, whatever a renewal on its way may answer, and a session that was lost is never renewed again: a
process that was frozen wakes up to a new life.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from turnkeeper.core.claim import SessionGone, lost_seconds
from turnkeeper.errors import TurnkeeperError, UnavailableError
from turnkeeper.ports import Claims, Clock, Observer, Peers
from turnkeeper.runner.options import RunnerOptions
from turnkeeper.runner.waiting import set_within

RENEWALS_PER_TTL = 3
"""Two may fail before the session is in danger."""

RETRY_PARTS = 10
"""A failed renewal is tried again after this part of the ttl, so that an outage of a third leaves several tries."""

REOPEN_SECONDS = (0.1, 5.0)
"""First and longest pause between tries to open a new session. Arbitrary: at once, and then without hurry."""

_log = logging.getLogger(__name__)


class RenewalHost(Protocol):
    """Where renewals run: a thread of their own, or the runner's loop in virtual time."""

    def start(self, renewals: Callable[[Claims], Coroutine[Any, Any, None]]) -> None:
        """Run the coroutine with a claims client that nothing else uses, until `aclose`."""

    async def aclose(self) -> None:
        """Stop it and wait for its end."""


class LoopRenewals:
    """Renewals on the runner's own loop, for virtual time and tests: no sign of life while the loop is blocked."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims
        self._task: asyncio.Task[None] | None = None

    def start(self, renewals: Callable[[Claims], Coroutine[Any, Any, None]]) -> None:
        """See `RenewalHost`."""
        self._task = asyncio.create_task(renewals(self._claims))

    async def aclose(self) -> None:
        """See `RenewalHost`."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


class SessionKeeper:
    """Holds the session of this runner's present life.

    On the runner's loop `on_lost(session)` is called once for each session that is lost, and `on_opened()` when the
    next one is open.
    """

    def __init__(
        self,
        claims: Claims,
        clock: Clock,
        options: RunnerOptions,
        observer: Observer,
        host: RenewalHost,
        peers: Peers | None,
        on_lost: Callable[[str], None],
        on_opened: Callable[[], None],
    ) -> None:
        self._claims = claims
        self._clock = clock
        self._options = options
        self._observer = observer
        self._host = host
        self._peers = peers
        self._on_lost = on_lost
        self._on_opened = on_opened
        self._session = ""
        self._held_until = 0.0  # written by the renewing thread, read here: a float changes as a whole
        self._loop_moved = clock.monotonic()
        self._opened = asyncio.Event()
        self._gone = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def session(self) -> str:
        """The session of the present life, or "" between two lives."""
        return self._session if self._opened.is_set() else ""

    @property
    def is_held(self) -> bool:
        """Whether the session is held now, by this runner's own clock."""
        return self._opened.is_set() and self._clock.monotonic() < self._held_until

    async def start(self) -> None:
        """Open the first session and begin to renew it. Raises UnavailableError where the store can't be reached."""
        self._loop = asyncio.get_running_loop()
        await self._open()
        self._tasks = [asyncio.create_task(self._keep()), asyncio.create_task(self._move())]
        self._host.start(self._renew)

    async def aclose(self) -> None:
        """Stop renewing, then remove the session, so that nobody waits for its end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._host.aclose()
        if self._session:
            with contextlib.suppress(TurnkeeperError):
                await self._claims.close_session(self._session)
        self._opened.clear()

    async def _open(self) -> None:
        session = uuid.uuid4().hex
        started = self._clock.monotonic()
        if self._peers is not None:
            self._peers.present(session)
        address = self._peers.address if self._peers is not None else ""
        await self._claims.open_session(session, self._options.runner, self._options.claim_ttl_seconds, address)
        self._held_until = lost_seconds(started, self._options.claim_ttl_seconds)
        self._session = session
        self._gone.clear()
        self._opened.set()

    async def _keep(self) -> None:
        """Notice the loss, by time or by word, tell of it, and begin a new life."""
        while True:
            remaining = self._held_until - self._clock.monotonic()
            if remaining > 0 and not self._gone.is_set():
                await set_within(self._gone, self._clock, remaining)
                continue
            lost = self._session
            self._opened.clear()
            _log.warning("session %s is lost; its runs end here and a new session is opened", lost)
            self._on_lost(lost)
            await self._reopen()
            self._on_opened()

    async def _reopen(self) -> None:
        pause, longest = REOPEN_SECONDS
        while True:
            try:
                await self._open()
            except UnavailableError as error:
                _log.warning("no new session yet: %s", error)
                await self._clock.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
                pause = min(2 * pause, longest)
            else:
                return

    async def _move(self) -> None:
        """Leave a sign for the renewing thread that this loop moves."""
        while True:
            self._loop_moved = self._clock.monotonic()
            await self._clock.sleep(self._options.claim_ttl_seconds / RENEWALS_PER_TTL)

    async def _renew(self, claims: Claims) -> None:
        """Renew whatever session is the present one, on the host's loop, until cancelled."""
        ttl = self._options.claim_ttl_seconds
        pause = ttl / RENEWALS_PER_TTL
        while True:
            await self._clock.sleep(pause)
            session, started = self._session, self._clock.monotonic()
            is_over = not self._opened.is_set() or started >= self._held_until
            is_stalled = started - self._loop_moved > self._options.loop_stall_ttls * ttl
            if is_over or is_stalled:
                pause = ttl / RETRY_PARTS
                continue
            try:
                answer = await claims.renew(session)
            except (TurnkeeperError, OSError) as error:
                _log.warning("session %s: not renewed: %s", session, error)
                self._observer.renewed("failed", self._clock.monotonic() - started)
                pause = ttl / RETRY_PARTS * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
                continue
            pause = ttl / RENEWALS_PER_TTL
            self._observer.renewed(type(answer).__name__, self._clock.monotonic() - started)
            if session != self._session:
                continue
            if isinstance(answer, SessionGone):
                self._tell_gone()
            else:
                self._held_until = lost_seconds(started, ttl)

    def _tell_gone(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._gone.set)

"""Which sessions exist, as far as this process has seen: one view for all, whatever the number of looks and threads.

Theory. Nobody compares clocks: a session has expired for this observer when it has *itself* seen the record unchanged
for the record's own duration. It is then declared dead by deleting it at that very version; if it was renewed
meanwhile, nothing happened. An observer that has just been away (a stall of its own, nothing heard for a while) can't
say that a record stood still, so it starts every count again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from turnkeeper.core.claim import SessionRecord, Sighting, expires_seconds, observe
from turnkeeper.errors import TurnkeeperError
from turnkeeper.ports import Claims, Clock

POLLS_PER_TTL = 30
"""How finely expiry is seen: a thirtieth of the ttl is added to a silent death, a second at the default."""

POLL_SECONDS_MIN = 0.05
"""Shortest poll. Arbitrary: for the short ttls of tests."""

STALL_POLLS = 4
"""After this many polls' time without one the observer counts as having been away."""

_log = logging.getLogger(__name__)


class Roster(Protocol):
    """Tells which sessions exist.

    Does not promise to be up to date: a session that is told may be gone, one that is missing may be new. Who takes a
    thread over reads afresh; who waits for a session's end has a timer behind it.
    """

    async def sessions(self) -> Sequence[SessionRecord]:
        """Return the sessions that exist. Raises UnavailableError where nothing was heard for too long."""

    async def changed(self, timeout_seconds: float) -> None:
        """Return after the time, or sooner where a session came or went."""


class PolledRoster:
    """Where nobody tells of what comes and goes, it is read."""

    def __init__(self, claims: Claims, clock: Clock) -> None:
        self._claims = claims
        self._clock = clock

    async def sessions(self) -> Sequence[SessionRecord]:
        """See `Roster`."""
        return await self._claims.sessions()

    async def changed(self, timeout_seconds: float) -> None:
        """See `Roster`."""
        await self._clock.sleep(timeout_seconds)


def _ignored(_records: Sequence[SessionRecord]) -> None:
    """Nobody wants to know."""


class Presence:
    """`on_gone(session)` is awaited once for each session that this process knew and has seen to be gone.

    on_seen: told after each poll what exists. roster: where that is known from; read from `claims` where None.
    """

    def __init__(
        self,
        claims: Claims,
        clock: Clock,
        claim_ttl_seconds: float,
        on_gone: Callable[[str], Awaitable[None]],
        on_seen: Callable[[Sequence[SessionRecord]], None] = _ignored,
        roster: Roster | None = None,
    ) -> None:
        self._claims = claims
        self._clock = clock
        self._roster = roster or PolledRoster(claims, clock)
        self._poll_seconds = max(claim_ttl_seconds / POLLS_PER_TTL, POLL_SECONDS_MIN)
        self._on_gone = on_gone
        self._on_seen = on_seen
        self._sightings: dict[str, Sighting] = {}
        self._gone: set[str] = set()  # known here to be gone, and told by the roster for a moment yet
        self._polled_seconds = clock.monotonic()
        self.failure = ""

    def exists(self, session: str) -> bool:
        """Whether the session was there at the last poll. True may be old; False may have missed a new one."""
        return session in self._sightings

    async def run(self) -> None:
        """Poll until cancelled; the owner's task."""
        while True:
            try:
                await self.poll()
            except TurnkeeperError as error:
                if self.failure != str(error):
                    _log.warning("sessions can't be read: %s", error)
                self.failure = str(error)
            await self._roster.changed(self._poll_seconds)

    async def poll(self) -> None:
        """See what exists, declare dead what has expired, and tell of what is gone."""
        told = {record.session: record for record in await self._roster.sessions()}
        self._gone &= told.keys()
        records = {session: record for session, record in told.items() if session not in self._gone}
        now = self._clock.monotonic()
        was_away = now - self._polled_seconds > STALL_POLLS * self._poll_seconds
        self._polled_seconds = now
        self.failure = ""
        gone = [session for session in self._sightings if session not in records]
        known = {} if was_away else self._sightings
        self._sightings = {session: observe(known.get(session), record, now) for session, record in records.items()}
        expired = [sighting for sighting in self._sightings.values() if now >= expires_seconds(sighting)]
        for sighting in expired:
            session = sighting.record.session
            match await self._is_declared_dead(sighting.record):
                case True:
                    self._forget(session)
                    gone.append(session)
                case False:  # what was told is old: the count starts again, so that this is not asked at each poll
                    self._sightings[session] = Sighting(record=sighting.record, since_seconds=now)
        self._on_seen([sighting.record for sighting in self._sightings.values()])
        for session in gone:
            await self._on_gone(session)

    async def noticed(self, session: str) -> None:
        """Take in that a session is gone, from whoever knows it sooner than the next poll."""
        if self._forget(session):
            await self._on_gone(session)

    def _forget(self, session: str) -> bool:
        """Take a session for gone, whatever the roster tells yet; False if it was not known."""
        self._gone.add(session)
        return self._sightings.pop(session, None) is not None

    async def _is_declared_dead(self, record: SessionRecord) -> bool | None:
        """Try it, and return None where that failed.

        A failure is left to the next poll, so that those that are seen to be gone in this one are told.
        """
        try:
            is_dead = await self._claims.declare_dead(record)
        except TurnkeeperError as error:
            self.failure = str(error)
            _log.warning("session %s has expired and can't be declared dead yet: %s", record.session, error)
            return None
        if is_dead:
            _log.warning("session %s has expired and is declared dead", record.session)
        return is_dead

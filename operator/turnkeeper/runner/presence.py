"""Which sessions exist, as far as this process has seen: one poll for all, whatever the number of looks and threads.

Theory. Nobody compares clocks: a session has expired for this observer when it has *itself* seen the record unchanged
for the record's own duration. It is then declared dead by deleting it at that very version; if it was renewed
meanwhile, nothing happened. An observer that has just been away (a stall of its own, a failed poll) can't say that a
record stood still, so it starts every count again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

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


def _ignored(_records: Sequence[SessionRecord]) -> None:
    """Nobody wants to know."""


class Presence:
    """`on_gone(session)` is awaited once for each session that this process knew and has seen to be gone.

    on_seen: told after each poll what exists.
    """

    def __init__(
        self,
        claims: Claims,
        clock: Clock,
        claim_ttl_seconds: float,
        on_gone: Callable[[str], Awaitable[None]],
        on_seen: Callable[[Sequence[SessionRecord]], None] = _ignored,
    ) -> None:
        self._claims = claims
        self._clock = clock
        self._poll_seconds = max(claim_ttl_seconds / POLLS_PER_TTL, POLL_SECONDS_MIN)
        self._on_gone = on_gone
        self._on_seen = on_seen
        self._sightings: dict[str, Sighting] = {}
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
                self.failure = str(error)
                _log.warning("sessions can't be read: %s", error)
            await self._clock.sleep(self._poll_seconds)

    async def poll(self) -> None:
        """Read afresh, declare dead what has expired, and tell of what is gone."""
        records = {record.session: record for record in await self._claims.sessions()}
        now = self._clock.monotonic()
        was_away = now - self._polled_seconds > STALL_POLLS * self._poll_seconds
        self._polled_seconds = now
        self.failure = ""
        gone = [session for session in self._sightings if session not in records]
        known = {} if was_away else self._sightings
        self._sightings = {session: observe(known.get(session), record, now) for session, record in records.items()}
        expired = [sighting for sighting in self._sightings.values() if now >= expires_seconds(sighting)]
        for sighting in expired:
            if await self._is_declared_dead(sighting.record):
                self._sightings.pop(sighting.record.session, None)
                gone.append(sighting.record.session)
        self._on_seen([sighting.record for sighting in self._sightings.values()])
        for session in gone:
            await self._on_gone(session)

    async def noticed(self, session: str) -> None:
        """Take in that a session is gone, from whoever knows it sooner than the next poll."""
        if self._sightings.pop(session, None) is not None:
            await self._on_gone(session)

    async def _is_declared_dead(self, record: SessionRecord) -> bool:
        """Try it; a failure is left to the next poll, so that those that are seen to be gone in this one are told."""
        try:
            is_dead = await self._claims.declare_dead(record)
        except TurnkeeperError as error:
            self.failure = str(error)
            _log.warning("session %s has expired and can't be declared dead yet: %s", record.session, error)
            return False
        if is_dead:
            _log.warning("session %s has expired and is declared dead", record.session)
        return is_dead

"""Connections to other runners' processes, and what is done when one is gone (spec action DeathNotice).

Theory. Everything about takeover is whether the session exists, so a notice is its deletion, at the version that a
fresh read shows: a process that is gone renews no more. If it lives after all, it has lost its claims and begins a new
life, and the journal's fence keeps out what it still writes. The timer stays behind: whoever is missed here lapses.

The first watcher in line acts at once, the others a little later, and find it done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from turnkeeper.core.claim import SessionRecord
from turnkeeper.core.noticing import watchers
from turnkeeper.errors import TurnkeeperError
from turnkeeper.ports import Claims, Clock, Observer, Peers

TURN_SECONDS = 0.05
"""How much later each next watcher acts. Arbitrary: some round trips to the claim store."""

TRIES_MAX = 5
"""How often a session is tried to be declared dead; then the timer has it."""

RETRY_SECONDS = 0.2
"""Between two tries. Arbitrary: a claim store's hiccup."""

_log = logging.getLogger(__name__)


class PeerWatch:
    """on_gone(session): awaited once for a session that was noticed to be gone, by this process or another."""

    def __init__(
        self,
        peers: Peers,
        claims: Claims,
        clock: Clock,
        observer: Observer,
        on_gone: Callable[[str], Awaitable[None]],
    ) -> None:
        self._peers = peers
        self._claims = claims
        self._clock = clock
        self._observer = observer
        self._on_gone = on_gone
        self._links: dict[str, asyncio.Task[None]] = {}
        self._seen: tuple[str, frozenset[str]] = ("", frozenset())

    def seen(self, own: str, records: Sequence[SessionRecord]) -> None:
        """Watch what is to be watched among the sessions that exist, and nothing else."""
        sessions = frozenset(record.session for record in records)
        if (own, sessions) == self._seen:
            return  # who watches whom costs a hash for each pair, and this is called at each poll
        self._seen = (own, sessions)
        wanted = {}
        for record in records:
            line = watchers(record.session, sessions)
            if own and own in line and record.address:
                wanted[record.session] = (record, line.index(own))
        for session in self._links.keys() - wanted.keys():
            self._links.pop(session).cancel()
        for session in wanted.keys() - self._links.keys():
            self._links[session] = asyncio.create_task(self._watch(*wanted[session]))

    async def _watch(self, record: SessionRecord, place: int) -> None:
        await self._peers.until_gone(record)
        await self._clock.sleep(place * TURN_SECONDS)
        result = "failed"
        for _ in range(TRIES_MAX):
            try:
                result = await self._declare_dead(record.session)
            except TurnkeeperError as error:
                _log.warning("session %s: its process is gone, and that can't be said yet: %s", record.session, error)
                result = "failed"
            if result in {"declared", "known"}:
                break
            await self._clock.sleep(RETRY_SECONDS)
        self._observer.noticed(result)
        if result != "failed":
            await self._on_gone(record.session)

    async def _declare_dead(self, session: str) -> str:
        record = await self._claims.session(session)
        if record is None:
            return "known"
        if not await self._claims.declare_dead(record):
            return "renewed"
        _log.warning("session %s of %s: its process is gone, and it is declared dead", session, record.runner)
        return "declared"

    async def aclose(self) -> None:
        """Let go of every connection."""
        links = list(self._links.values())
        self._links.clear()
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)

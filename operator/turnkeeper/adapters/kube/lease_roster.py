"""Which sessions exist, from one list and watch of a workspace's session Leases.

A session is renewed every third of its duration, one's own too, so a watch that tells nothing for half of it has lost
something and is begun anew with a list. Nothing is claimed by what stands here: `LeaseClaims` reads afresh.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Self

from turnkeeper.adapters.kube import lease_records as records
from turnkeeper.adapters.kube.answers import Object
from turnkeeper.adapters.kube.api import KubeApi
from turnkeeper.adapters.kube.lease_records import Place
from turnkeeper.adapters.kube.resources import LEASES
from turnkeeper.adapters.kube.watching import Followed, Follower, Patience
from turnkeeper.core.claim import SessionRecord
from turnkeeper.errors import UnavailableError

QUIET_PART = 0.5
"""Part of a claim_ttl that the watch may be quiet: longer than a third of it, in which each session is renewed, and
shorter than the time after which a session that renews no more is dead."""

PAUSE_PARTS = (1 / 300, 1 / 6)
"""First and longest pause after a failure, as parts of a claim_ttl: a takeover by the timer waits no longer for it."""


class LeaseRoster:
    """See `runner.presence.Roster`. Use as an async context manager: it follows for as long.

    api: a client of its own, so that refusals of claims do not hold up what is told of deaths; closed by its opener.
    """

    def __init__(self, api: KubeApi, place: Place, *, claim_ttl_seconds: float, deadline_seconds: float) -> None:
        first, longest = PAUSE_PARTS
        self._place = place
        self._deadline_seconds = deadline_seconds
        self._quiet_seconds = claim_ttl_seconds * QUIET_PART
        self._records: dict[str, SessionRecord] = {}  # by the Lease's name
        self._has_changed = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        self._follower = Follower(
            api,
            Followed(LEASES, place.namespace, records.selector(place, "session"), self._put, self._drop),
            Patience(
                quiet_seconds=self._quiet_seconds,
                pause_seconds=(claim_ttl_seconds * first, claim_ttl_seconds * longest),
            ),
        )

    async def __aenter__(self) -> Self:
        self._following = asyncio.create_task(self._follower.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    async def sessions(self) -> Sequence[SessionRecord]:
        """See `runner.presence.Roster`. What ended the following for good is raised here, so that it is not missed."""
        if self._following is not None and self._following.done():
            self._following.result()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._deadline_seconds):
                await self._follower.listed.wait()
        if self._is_old() or not self._follower.listed.is_set():
            why = self._follower.failure or "nothing was heard"
            raise UnavailableError(f"nothing is told of the sessions: {why}")
        return tuple(self._records.values())

    def _is_old(self) -> bool:
        """Whether too little was heard: a watch that was quiet for as long as it may be has the time of a list yet."""
        unheard_seconds = time.monotonic() - self._follower.heard_seconds
        return unheard_seconds > self._quiet_seconds * (1 if self._follower.failure else 2)

    async def changed(self, timeout_seconds: float) -> None:
        """See `runner.presence.Roster`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._has_changed.wait()
        self._has_changed.clear()

    def _put(self, lease: Object) -> None:
        """Take in a session. One that is being deleted, or that is not this workspace's any more, is none."""
        name = lease["metadata"]["name"]
        record = records.session_from(self._place, lease)
        if record is None:
            self._drop(lease)
            return
        if name not in self._records:
            self._has_changed.set()
        self._records[name] = record

    def _drop(self, lease: Object) -> None:
        if self._records.pop(lease["metadata"]["name"], None) is not None:
            self._has_changed.set()

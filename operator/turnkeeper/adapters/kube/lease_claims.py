"""Sessions and claims as Leases: one for each life of a runner, one for each running thread.

Theory. The API server has one thing to offer that decides anything: a write at the very version that was read. A claim
is created, or replaced at that version; a session is declared dead by deleting it at that version. So whoever lost a
race reads again and decides again, and whose answer was lost does the very same: what it reads then is either its own
doing, which is adopted (same session, same nonce), or somebody else's. Conflict with oneself is no loss.

Every read here goes through to etcd: an absence is believed only from there. Nothing here compares clocks.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from turnkeeper.adapters.kube import lease_records as records
from turnkeeper.adapters.kube.answers import Object
from turnkeeper.adapters.kube.api import KubeApi
from turnkeeper.adapters.kube.lease_records import Place
from turnkeeper.adapters.kube.resources import LEASES
from turnkeeper.core.claim import Busy, Claimed, SessionGone, SessionRecord
from turnkeeper.core.claim import claim as decide
from turnkeeper.core.values import Claim
from turnkeeper.errors import (
    KubeConflictError,
    KubeNotFoundError,
    KubeRefusedError,
    UnavailableError,
    UnknownOutcomeError,
)
from turnkeeper.ports import Clock

T = TypeVar("T")

TRIES_MAX = 8
"""How often a call is begun again after a lost race or answer. A race has one winner, so more than a few in a row is a
defect that must show; the deadline is mostly sooner."""

PAUSE_SECONDS = (0.02, 0.5)
"""First and longest pause between two tries, doubled each time, with jitter. Arbitrary: some round trips."""

HELD_MAX = 4096
"""Claims whose versions are remembered, so that their release needs no read. Arbitrary: more than a runner's turns."""


class LeaseClaims:
    """See `ports.Claims`. deadline_seconds: of each call, to be well under a third of the session's duration.

    api: closed by its opener. Its own deadline is for one request, and should leave room for a second.
    """

    def __init__(self, api: KubeApi, place: Place, clock: Clock, *, deadline_seconds: float) -> None:
        self._api = api
        self._place = place
        self._clock = clock
        self._deadline_seconds = deadline_seconds
        self._held: dict[str, Object] = {}  # by thread, each as it was written

    async def open_session(
        self, session: str, runner: str, duration_seconds: float, address: str = ""
    ) -> SessionRecord:
        """See `ports.Claims`."""
        lease = records.session_lease(
            self._place, session, runner, duration_seconds, self._clock.wall_ms(), address=address
        )

        async def open_or_adopt() -> SessionRecord | None:
            name = records.session_name(self._place, session)
            try:
                found = await self._create(lease) or await self._read(name)
            except UnknownOutcomeError:
                if (found := await self._read(name)) is None:
                    raise
            if found is None:
                return None
            record = records.session_from(self._place, found)
            if record is None or record.session != session:
                where = f"{self._place.namespace}/{name}"
                raise UnavailableError(f"session {session!a}: the Lease {where} is in its way; delete it")
            return record

        return await self._until_known(f"session {session!a}", open_or_adopt)

    async def renew(self, session: str) -> SessionRecord | SessionGone:
        """See `ports.Claims`."""

        async def renew() -> SessionRecord | SessionGone:
            patch = records.renewal_patch(self._place, session, secrets.token_hex(8), self._clock.wall_ms())
            name = records.session_name(self._place, session)
            try:
                lease = await self._api.patch(LEASES, self._place.namespace, name, patch)
            except KubeNotFoundError:
                return SessionGone()
            return records.session_from(self._place, lease) or SessionGone()

        return await self._until_known(f"session {session!a}", renew)

    async def close_session(self, session: str) -> None:
        """See `ports.Claims`."""

        async def close() -> bool:
            with contextlib.suppress(KubeNotFoundError):
                await self._api.delete(LEASES, self._place.namespace, records.session_name(self._place, session))
            return True

        await self._until_known(f"session {session!a}", close)

    async def sessions(self) -> Sequence[SessionRecord]:
        """See `ports.Claims`."""

        async def read() -> Sequence[SessionRecord]:
            found = await self._api.list(LEASES, self._place.namespace, records.selector(self._place, "session"))
            known = [records.session_from(self._place, lease) for lease in found.items]
            return [record for record in known if record is not None]

        return await self._until_known("the sessions", read)

    async def session(self, session: str) -> SessionRecord | None:
        """See `ports.Claims`."""

        async def read() -> tuple[SessionRecord | None]:
            return (await self._session(session),)

        (found,) = await self._until_known(f"session {session!a}", read)
        return found

    async def declare_dead(self, record: SessionRecord) -> bool:
        """See `ports.Claims`. Gone after a lost answer counts as one's own doing."""
        uid, version = records.observed(record)
        name = records.session_name(self._place, record.session)
        is_doubtful = False

        async def declare() -> bool:
            nonlocal is_doubtful
            try:
                await self._api.delete(LEASES, self._place.namespace, name, uid=uid, resource_version=version)
            except KubeNotFoundError:
                return is_doubtful
            except KubeConflictError:
                return False
            except UnknownOutcomeError:
                is_doubtful = True
                raise
            return True

        return await self._until_known(f"session {record.session!a}", declare)

    async def claim(self, thread_id: str, session: str, nonce: str, journal_token: int) -> Claimed | Busy | SessionGone:
        """See `ports.Claims`."""
        floor = journal_token

        async def claim() -> Claimed | Busy | SessionGone | None:
            nonlocal floor
            lease = await self._read(records.claim_name(self._place, thread_id))
            seen = records.claim_from(thread_id, lease) if lease is not None else None
            own = await self._session(session)
            holder = await self._session(seen.session) if seen and seen.session != session else None
            existing = frozenset(record.session for record in (own, holder) if record is not None)
            verdict = decide(seen, session=session, nonce=nonce, journal_token=floor, existing=existing)
            if not isinstance(verdict, Claimed) or own is None:
                return verdict
            if verdict.claim == seen and lease is not None:
                self._remember(thread_id, lease)
                return verdict
            put = await self._put(thread_id, verdict.claim, own.runner, lease)
            if put is None:
                return None
            self._remember(thread_id, put)
            if lease is not None and lease["metadata"].get("deletionTimestamp"):
                floor = verdict.claim.token  # what was being deleted is gone by that write: make a new one above it
                return None
            return verdict

        return await self._until_known(f"thread {thread_id!a}: its claim", claim)

    async def release(self, thread_id: str, claim: Claim) -> None:
        """See `ports.Claims`."""
        remembered = self._held.pop(thread_id, None)
        if remembered is not None and not _is(claim, records.claim_from(thread_id, remembered)):
            remembered = None

        async def release() -> bool | None:
            nonlocal remembered
            lease = remembered or await self._read(records.claim_name(self._place, thread_id))
            remembered = None
            if lease is None or not _is(claim, records.claim_from(thread_id, lease)):
                return True
            meta = lease["metadata"]
            try:
                await self._api.delete(
                    LEASES,
                    self._place.namespace,
                    meta["name"],
                    uid=meta["uid"],
                    resource_version=meta["resourceVersion"],
                )
            except KubeConflictError:
                return None
            except KubeNotFoundError:
                pass
            return True

        await self._until_known(f"thread {thread_id!a}: its claim", release)

    async def _read(self, name: str) -> Object | None:
        try:
            return await self._api.get(LEASES, self._place.namespace, name)
        except KubeNotFoundError:
            return None

    async def _session(self, session: str) -> SessionRecord | None:
        lease = await self._read(records.session_name(self._place, session)) if session else None
        return records.session_from(self._place, lease) if lease is not None else None

    async def _create(self, lease: Object) -> Object | None:
        """Return None where the name is taken."""
        try:
            return await self._api.create(LEASES, self._place.namespace, lease)
        except KubeConflictError:
            return None
        except KubeNotFoundError as error:
            raise UnavailableError(f"{error}. Is the namespace gone?") from error

    async def _put(self, thread_id: str, claim: Claim, runner: str, seen: Object | None) -> Object | None:
        """Put a claim where `seen` was, or nothing; None if something else stands there meanwhile."""
        now_ms = self._clock.wall_ms()
        lease = records.claim_lease(self._place, thread_id, claim, now_ms, runner=runner, seen=seen)
        if seen is None:
            return await self._create(lease)
        try:
            return await self._api.replace(LEASES, self._place.namespace, lease["metadata"]["name"], lease)
        except (KubeConflictError, KubeNotFoundError):
            return None

    def _remember(self, thread_id: str, lease: Object) -> None:
        while len(self._held) >= HELD_MAX:  # those of sessions that were lost are never released here
            del self._held[next(iter(self._held))]
        self._held[thread_id] = lease

    async def _until_known(self, what: str, attempt: Callable[[], Awaitable[T | None]]) -> T:
        """Repeat an attempt that lost a race (None) or an answer, until it is known what stands."""
        doubt: UnknownOutcomeError | None = None
        try:
            async with asyncio.timeout(self._deadline_seconds):
                for number in range(TRIES_MAX):
                    await self._pause_before(number)
                    try:
                        if (known := await attempt()) is not None:
                            return known
                    except UnavailableError as error:
                        doubt = error if isinstance(error, UnknownOutcomeError) else doubt
                        is_in_vain = isinstance(error, KubeRefusedError) or error.retry_after_seconds is not None
                        if not is_in_vain and number < TRIES_MAX - 1:
                            continue
                        if doubt in (None, error):
                            raise
                        raise doubt from error  # nothing is known of an earlier write either
        except TimeoutError as error:
            msg = f"{what}: not settled with the API server in {self._deadline_seconds:.1f} s"
            raise UnknownOutcomeError(f"{msg}; last: {doubt}" if doubt else msg) from error
        raise UnknownOutcomeError(f"{what}: it changed {TRIES_MAX} times while it was being written")

    async def _pause_before(self, number: int) -> None:
        shortest, longest = PAUSE_SECONDS
        if number:
            pause = min(shortest * 2 ** (number - 1), longest)
            await self._clock.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret


def _is(claim: Claim, seen: Claim) -> bool:
    return (seen.session, seen.token) == (claim.session, claim.token)

"""One controller at a time acts: whoever holds this Lease. It is a courtesy, not a guard.

Two that act at once for a moment do no harm: what they write is the same, and a sweep may be asked for twice. So the
gate only has to keep that rare. Nobody compares clocks: a Lease is over for whoever has *itself* seen it unchanged for
its whole duration. The holder gives up `RENEW_SECONDS` after the start of its last renewal that succeeded, well before
anybody takes over, and the process ends: a new one begins with a fresh view.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from datetime import UTC, datetime

from turnkeeper.adapters.kube.api import KubeApi
from turnkeeper.adapters.kube.resources import LEASES
from turnkeeper.controller.view import Object
from turnkeeper.errors import KubeConflictError, KubeNotFoundError, TurnkeeperError

LEASE_SECONDS = 60
RENEW_SECONDS = 40.0
RETRY_SECONDS = 15.0
"""A Lease outlives two renewals that failed; a standby waits a minute for a controller that died without a word, and no
time for one that ended in good order."""

STANDBY_SECONDS = 5.0
"""How often a standby looks. Arbitrary: what a rollout waits for; one small read."""

_log = logging.getLogger(__name__)


class Gate:
    """The Lease `name` in `namespace`, for one life of a controller called `identity`."""

    def __init__(self, api: KubeApi, namespace: str, name: str, identity: str) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._held_until = 0.0
        self._seen = ("", 0.0)  # the version, and since when it stands there

    @property
    def is_held(self) -> bool:
        """Whether this controller may act."""
        return time.monotonic() < self._held_until

    async def enter(self) -> None:
        """Return once the Lease is held."""
        while True:
            try:
                if await self._try_to_hold():
                    _log.info("this controller acts: it holds the Lease %s/%s", self._namespace, self._name)
                    return
            except TurnkeeperError as error:
                _log.warning("the Lease %s/%s can't be had yet: %s", self._namespace, self._name, error)
            await asyncio.sleep(STANDBY_SECONDS * random.uniform(0.75, 1.25))  # noqa: S311 - jitter, not a secret

    async def hold(self) -> None:
        """Renew until it is lost, and return then."""
        while self.is_held:
            pause = min(RETRY_SECONDS, max(0.0, self._held_until - time.monotonic()))
            await asyncio.sleep(pause * random.uniform(0.8, 1.0))  # noqa: S311 - jitter, not a secret
            try:
                if not await self._try_to_hold():
                    break
            except TurnkeeperError as error:
                _log.warning("the Lease %s/%s is not renewed: %s", self._namespace, self._name, error)
        self._held_until = 0.0
        _log.error("the Lease %s/%s is lost: this controller ends", self._namespace, self._name)

    async def leave(self) -> None:
        """Give the Lease up, so that a standby need not wait for its end."""
        if not self.is_held:
            return
        self._held_until = 0.0
        with contextlib.suppress(TurnkeeperError):
            lease = await self._api.get(LEASES, self._namespace, self._name)
            if lease.get("spec", {}).get("holderIdentity") == self._identity:
                lease["spec"]["holderIdentity"] = ""
                await self._api.replace(LEASES, self._namespace, self._name, lease)

    async def _try_to_hold(self) -> bool:
        """Take, or renew, the Lease at the version that was read; False where it is another's."""
        started = time.monotonic()
        try:
            lease = await self._api.get(LEASES, self._namespace, self._name)
        except KubeNotFoundError:
            lease = None
        if lease is not None and not self._is_free(lease, started):
            return False
        try:
            if lease is None:
                await self._api.create(LEASES, self._namespace, self._body({}))
            else:
                await self._api.replace(LEASES, self._namespace, self._name, {**lease, **self._body(lease)})
        except (KubeConflictError, KubeNotFoundError):
            return False
        self._held_until = started + RENEW_SECONDS
        return True

    def _is_free(self, lease: Object, now: float) -> bool:
        """Whether it is one's own, nobody's, or has been seen unchanged for as long as it lasts."""
        version, since = lease["metadata"]["resourceVersion"], now
        if version == self._seen[0]:
            since = self._seen[1]
        self._seen = (version, since)
        spec = lease.get("spec", {})
        seconds = min(max(spec.get("leaseDurationSeconds") or LEASE_SECONDS, 1), LEASE_SECONDS)
        return spec.get("holderIdentity") in {None, "", self._identity} or now - since >= seconds

    def _body(self, lease: Object) -> Object:
        spec = lease.get("spec", {})
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        is_own = spec.get("holderIdentity") == self._identity
        transitions = spec.get("leaseTransitions") or 0
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": lease.get("metadata") or {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": LEASE_SECONDS,
                "leaseTransitions": transitions if is_own else transitions + 1,
                "acquireTime": spec.get("acquireTime") if is_own else now,
                "renewTime": now,
            },
        }

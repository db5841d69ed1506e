"""Leases that nobody is behind any more: sessions of containers that stopped, and claims of sessions that are gone.

Both are removed at the very version that was read, so that what was renewed or taken over meanwhile stays. A wrong
removal costs a run its claim and nothing more: the journal's fence decides.
"""

from __future__ import annotations

import logging
from typing import Final

from turnkeeper.adapters.kube import lease_records as records
from turnkeeper.adapters.kube.api import KubeApi
from turnkeeper.adapters.kube.resources import LEASES, PODS
from turnkeeper.controller.metrics import ControllerMetrics
from turnkeeper.controller.pods import PodSeen, pod_seen
from turnkeeper.controller.view import Key, Object
from turnkeeper.errors import KubeConflictError, KubeNotFoundError

_LISTED: Final = f"{records.MANAGED_BY}=turnkeeper,{records.KIND}="

_log = logging.getLogger(__name__)


class LeaseCollector:
    """One for all Workspaces."""

    def __init__(self, api: KubeApi, metrics: ControllerMetrics) -> None:
        self._api = api
        self._metrics = metrics
        self._suspects: dict[str, str] = {}  # claims without a session at the last round: uid -> version

    async def end_sessions(self, key: Key, pod: PodSeen) -> None:
        """Declare dead the sessions of a pod whose container has stopped.

        1 its sessions are listed; 2 the pod is read, and no container runs in it, in the same life as was seen. So no
        session that was listed can be of a life that goes on.
        """
        namespace = key[0]
        listed = await self._api.list(
            LEASES, namespace, f"{_LISTED}session,{records.WORKSPACE_UID}={pod.workspace_uid}"
        )
        own = [lease for lease in listed.items if _is_owned_by(lease, pod.uid)]
        if not own or not await self._is_stopped(namespace, pod):
            return
        for lease in own:
            if await self._delete(lease):
                self._metrics.noticed()
                name = lease["metadata"]["name"]
                _log.info("pod %s/%s: its container has stopped, so its session %s is over", namespace, pod.name, name)

    async def collect_claims(self, namespace: str | None) -> None:
        """Remove claims whose session is gone: of threads that nobody asks for, since whoever does takes them over.

        Claims are listed first and sessions after, so a session that is missing is gone; what is found so in two rounds
        at the same version is removed.
        """
        claims = await self._api.list(LEASES, namespace, f"{_LISTED}claim")
        sessions = await self._api.list(LEASES, namespace, f"{_LISTED}session")
        existing = {(lease["metadata"]["namespace"], _note(lease, records.SESSION)) for lease in sessions.items}
        suspects: dict[str, str] = {}
        for lease in claims.items:
            metadata = lease["metadata"]
            holder = lease.get("spec", {}).get("holderIdentity") or ""
            if (metadata["namespace"], holder) in existing:
                continue
            if self._suspects.get(metadata["uid"]) != metadata["resourceVersion"]:
                suspects[metadata["uid"]] = metadata["resourceVersion"]
            elif await self._delete(lease):
                self._metrics.collected()
                thread = _note(lease, records.THREAD)
                _log.info("thread %a: the claim of a session that is gone is removed", thread)
        self._suspects = suspects

    async def _is_stopped(self, namespace: str, pod: PodSeen) -> bool:
        try:
            now = pod_seen(await self._api.get(PODS, namespace, pod.name))
        except KubeNotFoundError:
            return True
        return now.uid != pod.uid or (not now.is_running and now.life == pod.life)

    async def _delete(self, lease: Object) -> bool:
        metadata = lease["metadata"]
        try:
            await self._api.delete(
                LEASES,
                metadata["namespace"],
                metadata["name"],
                uid=metadata["uid"],
                resource_version=metadata["resourceVersion"],
            )
        except (KubeConflictError, KubeNotFoundError):
            return False
        return True


def _is_owned_by(lease: Object, uid: str) -> bool:
    return any(owner["uid"] == uid for owner in lease["metadata"].get("ownerReferences", ()))


def _note(lease: Object, name: str) -> str:
    return str(lease["metadata"].get("annotations", {}).get(name, ""))

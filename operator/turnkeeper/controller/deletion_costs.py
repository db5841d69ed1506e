"""Which runners go first when there are to be fewer: those with the fewest claims.

A Deployment that shrinks asks each pod's annotation what its deletion costs, and at no other time. It shrinks by the
controller's own hand alone, so the costs are counted and written just before that: they are exact, and a claim that
comes and goes writes nothing. Runners could keep their own pod's annotation, but a Role can't be narrowed to one's own
pod, and whoever may patch a pod may change what it runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any, Final

from turnkeeper.adapters.kube import lease_records as records
from turnkeeper.adapters.kube.api import KubeApi
from turnkeeper.adapters.kube.resources import LEASES, PODS
from turnkeeper.controller.manifests.names import UID_LABEL, Names
from turnkeeper.controller.view import Object
from turnkeeper.errors import KubeConflictError, KubeNotFoundError, TurnkeeperError

COST: Final = "controller.kubernetes.io/pod-deletion-cost"

AT_ONCE: Final = 8
"""Pods written at once. Arbitrary: a Workspace may have a thousand."""

DEADLINE_SECONDS: Final = 10.0
"""How long a Deployment waits for it before it shrinks by Kubernetes' own choice. Arbitrary: a person's patience."""

_log = logging.getLogger(__name__)


class DeletionCosts:
    """Counts and writes them."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    async def write(self, names: Names) -> None:
        """Write into each of a Workspace's pods how many claims it holds, where that is not there yet.

        Never raises for what the API server refuses: then some other runner goes, and its turns go on elsewhere.
        """
        where = f"Workspace {names.namespace}/{names.workspace}"
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                written = await self._write(names)
        except (TurnkeeperError, TimeoutError) as error:
            _log.warning("%s: it shrinks, and which runners are idle can't be told: %s", where, error)
        else:
            _log.info("%s: it shrinks; %d of its pods were told their number of claims", where, written)

    async def _write(self, names: Names) -> int:
        claims = await self._claims(names)
        pods = await self._api.list(PODS, names.namespace, f"{UID_LABEL}={names.uid}", is_lean=True)
        changed = [pod["metadata"] for pod in pods.items if _cost(pod) != claims[pod["metadata"]["uid"]]]
        places = asyncio.Semaphore(AT_ONCE)

        async def write(metadata: dict[str, Any]) -> None:
            cost = str(claims[metadata["uid"]])
            body = {"metadata": {"uid": metadata["uid"], "annotations": {COST: cost}}}
            async with places:
                try:
                    await self._api.patch(PODS, names.namespace, metadata["name"], body)
                except (KubeConflictError, KubeNotFoundError):
                    return  # it is gone, and another may have its name

        ends = await asyncio.gather(*(write(metadata) for metadata in changed), return_exceptions=True)
        for error in (end for end in ends if end is not None):
            raise error
        return len(changed)

    async def _claims(self, names: Names) -> Counter[str]:
        """Count the claims that each pod holds, by the pod's uid."""
        selector = f"{records.MANAGED_BY}=turnkeeper,{records.WORKSPACE_UID}={names.uid},{records.KIND}="
        sessions = await self._api.list(LEASES, names.namespace, f"{selector}session", is_lean=True)
        claims = await self._api.list(LEASES, names.namespace, f"{selector}claim", is_lean=True)
        pods = {
            _note(lease, records.SESSION): owner["uid"]
            for lease in sessions.items
            for owner in lease["metadata"].get("ownerReferences", ())
        }
        holders = (lease.get("spec", {}).get("holderIdentity") for lease in claims.items)
        return Counter(pods[holder] for holder in holders if holder in pods)


def _cost(pod: Object) -> int | None:
    """Return what stands in a pod: 0 where nothing does, which costs nothing to leave so."""
    noted = (pod["metadata"].get("annotations") or {}).get(COST, "0")
    try:
        return int(noted)
    except ValueError:
        return None


def _note(lease: Object, name: str) -> str:
    return str((lease["metadata"].get("annotations") or {}).get(name, ""))

"""Brings a Workspace's objects to what its spec says: compares first, and writes only what differs.

Level-based: whatever happened, and however often this is called, the same spec leads to the same objects. What the API
server refuses is told in the Workspace's conditions, and whatever was applied before goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from turnkeeper.adapters.kube.api import KubeApi
from turnkeeper.adapters.kube.resources import DEPLOYMENTS, Resource
from turnkeeper.controller.conditions import Problem
from turnkeeper.controller.deletion_costs import DeletionCosts
from turnkeeper.controller.manifests import Given, Names, Owned, owned_by
from turnkeeper.controller.manifests.difference import differs, overlay
from turnkeeper.controller.manifests.names import UID_LABEL
from turnkeeper.controller.metrics import ControllerMetrics
from turnkeeper.controller.status import FIELD_MANAGER
from turnkeeper.controller.tokens import Tokens, tokens_of
from turnkeeper.controller.view import View
from turnkeeper.errors import KubeNotFoundError, KubeRefusedError
from turnkeeper.settings.workspace import KIND, WorkspaceSpec

FORBIDDEN: Final = 403
UNPROCESSABLE: Final = 422
TERMINATING: Final = "is being terminated"
"""What the API server says of a namespace that takes nothing new any more."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What came of it. problem: what keeps the spec from being acted on in full. workload: its kind and name."""

    problem: Problem | None = None
    tokens: Tokens | None = None
    workload: tuple[Resource, str] | None = None


class Reconciler:
    """image: for runners whose Workspace names none."""

    def __init__(self, api: KubeApi, view: View, image: str, metrics: ControllerMetrics) -> None:
        self._api = api
        self._view = view
        self._image = image
        self._metrics = metrics
        self._costs = DeletionCosts(api)
        self._verified: dict[tuple[Resource, str, str], tuple[str, str]] = {}  # what was found right, at which version

    async def reconcile(self, names: Names, spec: WorkspaceSpec) -> Reconciled:
        """Bring a Workspace's objects to its spec. Raises UnavailableError where that can't be known now."""
        try:
            tokens = await tokens_of(self._api, names, spec)
        except KubeRefusedError as error:
            return Reconciled(_refused("its Secret with API tokens", error))
        if isinstance(tokens, Problem):
            return Reconciled(tokens)
        wanted = owned_by(names, spec, Given(self._image, tokens.mark))
        workload = wanted[-1].resource, wanted[-1].name
        for owned in wanted:
            try:
                problem = await self._ensure(names, owned)
            except KubeRefusedError as error:
                problem = _refused(f"its {owned.body['kind']} {owned.name}", error)
            if problem is not None:
                return Reconciled(problem, tokens, workload)
        return Reconciled(None, tokens, workload)

    def doubt(self) -> None:
        """Compare everything afresh the next time, whatever the watches said."""
        self._verified.clear()

    async def _ensure(self, names: Names, owned: Owned) -> Problem | None:
        at = (owned.resource, names.namespace, owned.name)
        seen = self._view.owned.get(at)
        actual = seen.take() if seen is not None else None
        if seen is not None and self._verified.get(at) == (owned.mark, seen.version):
            return None
        if actual is None:
            try:
                actual = await self._api.get(owned.resource, names.namespace, owned.name)
            except KubeNotFoundError:
                actual = None
        if actual is not None and (problem := _foreign(names, owned, actual)) is not None:
            return problem
        if actual is not None and _shrinks(owned, actual):
            await self._costs.write(names)
        if actual is None or differs(owned, actual):
            actual = await self._bring(names, owned, actual)
        self._verified[at] = (owned.mark, actual["metadata"]["resourceVersion"])
        return None

    async def _bring(self, names: Names, owned: Owned, actual: Mapping[str, Any] | None) -> dict[str, Any]:
        """Apply an object; what somebody put into its lists besides is taken out."""
        try:
            applied = await self._apply(names, owned)
        except KubeRefusedError as error:
            if actual is None or error.status != UNPROCESSABLE:
                raise
            # Two ports of one name, say: what was added clashes with what is ours.
            await self._overwrite(names, owned, actual)
            applied = await self._apply(names, owned)
        if actual is not None and differs(owned, applied):
            applied = await self._overwrite(names, owned, applied)
        if actual is None or actual["metadata"]["resourceVersion"] != applied["metadata"]["resourceVersion"]:
            self._tell(names, owned, is_new=actual is None)
        return applied

    async def _apply(self, names: Names, owned: Owned) -> dict[str, Any]:
        return await self._api.apply(
            owned.resource, names.namespace, owned.name, dict(owned.body), field_manager=FIELD_MANAGER
        )

    async def _overwrite(self, names: Names, owned: Owned, actual: Mapping[str, Any]) -> dict[str, Any]:
        """Merge an object over what is there: its lists as a whole, which applying merges item by item."""
        return await self._api.patch(owned.resource, names.namespace, owned.name, overlay(owned, actual))

    def _tell(self, names: Names, owned: Owned, *, is_new: bool) -> None:
        self._metrics.applied(owned.resource.plural)
        verb = "made" if is_new else "brought to what its spec says"
        kind = owned.body["kind"]
        _log.info("Workspace %s/%s: its %s %s is %s", names.namespace, names.workspace, kind, owned.name, verb)


def _shrinks(owned: Owned, actual: Mapping[str, Any]) -> bool:
    """Whether a Deployment is to choose among its pods which go: not where all do."""
    if owned.resource is not DEPLOYMENTS:
        return False
    return 0 < int(owned.body["spec"]["replicas"]) < int(actual["spec"].get("replicas", 1))


def _foreign(names: Names, owned: Owned, actual: Mapping[str, Any]) -> Problem | None:
    """Return what is wrong with an object of the right name that is not this Workspace's: it is never touched."""
    metadata = actual["metadata"]
    owners = metadata.get("ownerReferences", ())
    if any(owner["uid"] == names.uid for owner in owners):
        return None
    if metadata.get("labels", {}).get(UID_LABEL) == names.uid:
        return None
    kind = owned.body["kind"]
    if any(owner["kind"] == KIND and owner["name"] == names.workspace for owner in owners):
        message = f"The {kind} {owned.name} is an earlier Workspace's of this name, and is still being removed."
        return Problem("NameTaken", message)
    message = (
        f"The {kind} {owned.name} is there and not this Workspace's. Delete it, or give the Workspace another name."
    )
    return Problem("NameTaken", message)


def _refused(what: str, error: KubeRefusedError) -> Problem:
    if error.status == FORBIDDEN and TERMINATING in str(error):
        return Problem("NamespaceTerminating", "The namespace is being deleted, and this Workspace with it.")
    return Problem("Refused", f"The API server refuses {what}: {error}")

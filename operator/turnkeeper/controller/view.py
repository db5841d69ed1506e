"""What the controller has seen of the cluster, as its watches told: Workspaces, their pods, versions of their objects.

Nothing is concluded from an absence here: before something is made or said to be gone, it is read.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from turnkeeper.adapters.kube.resources import DEPLOYMENTS, STATEFUL_SETS, Resource
from turnkeeper.controller.manifests.names import UID_LABEL, WORKSPACE_LABEL
from turnkeeper.controller.pods import PodSeen, pod_seen

Key: TypeAlias = tuple[str, str]
"""Namespace and name of a Workspace."""

Object: TypeAlias = dict[str, Any]

WORKLOADS: Final = frozenset({DEPLOYMENTS, STATEFUL_SETS})


@dataclass(slots=True)
class Seen:
    """An owned object's version, and of a workload its status.

    text: all of it, until it was compared once. As text, since thousands come at once as a controller starts.
    """

    version: str
    text: bytes | None
    status: Mapping[str, Any]

    def take(self) -> Object | None:
        """Return all of it, if it was not taken before: from now on its version is enough."""
        text, self.text = self.text, None
        return json.loads(text) if text is not None else None


class Listener(Protocol):
    """Who is told of what the view takes in."""

    def changed(self, key: Key) -> None:
        """Something of a Workspace changed."""

    def became_ready(self, key: Key) -> None:
        """A runner of a Workspace became ready."""

    def died(self, key: Key, pod: PodSeen) -> None:
        """A runner's pod is gone, or its container stopped or was started anew."""


class View:
    """Takes in what the watches tell, and tells its listener what is new in it."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.workspaces: dict[Key, Object] = {}
        self.owned: dict[tuple[Resource, str, str], Seen] = {}
        self._pods: defaultdict[str, dict[str, PodSeen]] = defaultdict(dict)

    def pods(self, workspace_uid: str) -> list[PodSeen]:
        """Return a Workspace's pods, by name."""
        return sorted(self._pods.get(workspace_uid, {}).values(), key=lambda pod: pod.name)

    def put_workspace(self, workspace: Object) -> None:
        """Take in a Workspace; an older version than is known changes nothing."""
        key, version = _key(workspace), version_of(workspace)
        known = self.workspaces.get(key)
        if known is not None and version <= version_of(known):
            return
        workspace["metadata"].pop("managedFields", None)
        self.workspaces[key] = workspace
        if known is None or _essence(known) != _essence(workspace):
            self._listener.changed(key)

    def drop_workspace(self, key: Key) -> None:
        """Take in that a Workspace is gone."""
        if (gone := self.workspaces.pop(key, None)) is not None:
            self._pods.pop(gone["metadata"]["uid"], None)
            self._listener.changed(key)

    def keep_workspaces(self, keys: Iterable[Key], version: str) -> None:
        """Take in that there were no others than these at a version."""
        for key in self.workspaces.keys() - set(keys):
            if version_of(self.workspaces[key]) <= int(version):
                self.drop_workspace(key)

    def put_pod(self, pod: Object) -> None:
        """Take in a pod."""
        seen, key = pod_seen(pod), _owner_key(pod)
        pods = self._pods[seen.workspace_uid]
        before = pods.get(seen.name)
        pods[seen.name] = seen
        if before == seen:
            return
        if before is not None and before.is_running and (not seen.is_running or seen.life != before.life):
            self._listener.died(key, seen)
        if seen.is_ready and not (before is not None and before.is_ready):
            self._listener.became_ready(key)
        self._listener.changed(key)

    def drop_pod(self, pod: Object) -> None:
        """Take in that a pod is gone."""
        uid, key = pod["metadata"]["labels"][UID_LABEL], _owner_key(pod)
        if (gone := self._pods.get(uid, {}).pop(pod["metadata"]["name"], None)) is not None:
            self._listener.died(key, gone)
            self._listener.changed(key)

    def put_owned(self, resource: Resource, owned: Object) -> None:
        """Take in an owned object."""
        metadata = owned["metadata"]
        at = (resource, metadata["namespace"], metadata["name"])
        before = self.owned.get(at)
        if before is not None and before.version == metadata["resourceVersion"]:
            return
        metadata.pop("managedFields", None)
        self.owned[at] = Seen(
            metadata["resourceVersion"],
            json.dumps(owned).encode(),
            owned.get("status", {}) if resource in WORKLOADS else {},
        )
        self._listener.changed(_owner_key(owned))

    def drop_owned(self, resource: Resource, owned: Object) -> None:
        """Take in that an owned object is gone."""
        metadata = owned["metadata"]
        if self.owned.pop((resource, metadata["namespace"], metadata["name"]), None) is not None:
            self._listener.changed(_owner_key(owned))


def version_of(thing: Mapping[str, Any]) -> int:
    """Return an object's resourceVersion: a number that rises with every write (KEP-5504)."""
    return int(thing["metadata"]["resourceVersion"])


def _key(thing: Mapping[str, Any]) -> Key:
    return thing["metadata"]["namespace"], thing["metadata"]["name"]


def _essence(workspace: Mapping[str, Any]) -> tuple[object, ...]:
    """What a look depends on: the echo of a status that the controller wrote itself is no news."""
    metadata = workspace["metadata"]
    return metadata["uid"], metadata["generation"], metadata.get("deletionTimestamp"), workspace.get("status", {})


def _owner_key(owned: Mapping[str, Any]) -> Key:
    metadata = owned["metadata"]
    return metadata["namespace"], metadata.get("labels", {}).get(WORKSPACE_LABEL, "")

"""What a Workspace's objects are called, and how they are found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from turnkeeper.settings.workspace import GROUP, KIND, VERSION

WORKSPACE_LABEL: Final = f"{GROUP}/workspace"
UID_LABEL: Final = f"{GROUP}/workspace-uid"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
COMPONENT: Final = "runner"
MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "turnkeeper", "app.kubernetes.io/name": "turnkeeper"}
OWNED_SELECTOR: Final = f"app.kubernetes.io/managed-by=turnkeeper,{UID_LABEL}"
"""Finds all objects of all Workspaces."""

TOKENS_KEY: Final = "tokens"


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one Workspace's objects. `uid` tells it from one made again under the same name."""

    namespace: str
    workspace: str
    uid: str

    @classmethod
    def of(cls, workspace: Mapping[str, Any]) -> Self:
        """Return the names for a Workspace as the API server gave it."""
        metadata = workspace["metadata"]
        return cls(metadata["namespace"], metadata["name"], metadata["uid"])

    @property
    def service(self) -> str:
        """Of the Service: the Workspace's own, since people type it."""
        return self.workspace

    @property
    def runner(self) -> str:
        """Of everything about the runners: workload, account, role, budget, policy."""
        return f"{self.workspace}-runner"

    @property
    def tokens(self) -> str:
        """Of the Secret that is made where none is given."""
        return f"{self.workspace}-tokens"

    @property
    def selector(self) -> dict[str, str]:
        """The labels that this Workspace's runner pods have and no others. Immutable in workloads: never change it."""
        return {COMPONENT_LABEL: COMPONENT, UID_LABEL: self.uid}

    @property
    def labels(self) -> dict[str, str]:
        """The labels of all its objects."""
        return {**MANAGED_BY, WORKSPACE_LABEL: self.workspace, **self.selector}

    @property
    def owner(self) -> dict[str, Any]:
        """The reference by which the cluster deletes all this with the Workspace, controller or not."""
        return {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            "name": self.workspace,
            "uid": self.uid,
            "controller": True,
        }

    def metadata(self, name: str) -> dict[str, Any]:
        """Return an owned object's metadata."""
        return {
            "name": name,
            "namespace": self.namespace,
            "labels": self.labels,
            "ownerReferences": [self.owner],
        }

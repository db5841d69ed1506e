"""What keeps a Workspace's runners there: a Deployment, or for a journal in SQLite a StatefulSet with its volume."""

from __future__ import annotations

from typing import Any

from turnkeeper.controller.manifests.names import Names
from turnkeeper.settings.workspace import SqliteSpec, WorkspaceSpec


def deployment(names: Names, spec: WorkspaceSpec, template: dict[str, Any]) -> dict[str, Any]:
    """Return the Deployment: a new runner is ready before an old one goes."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": names.metadata(names.runner),
        "spec": {
            "replicas": _replicas(spec),
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": names.selector},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": template,
        },
    }


def stateful_set(names: Names, spec: WorkspaceSpec, sqlite: SqliteSpec, template: dict[str, Any]) -> dict[str, Any]:
    """Return the StatefulSet: never two runners on one file.

    Parallel, since in the other mode a pod that never became ready keeps the one that would mend it from coming.
    """
    volume = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": str(sqlite.size)}},
        **({"storageClassName": sqlite.storage_class_name} if sqlite.storage_class_name else {}),
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "turnkeeper-journal"},
        "spec": volume,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": names.metadata(names.runner),
        "spec": {
            "replicas": _replicas(spec),
            "revisionHistoryLimit": 2,
            "serviceName": names.service,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": names.selector},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": sqlite.when_deleted, "whenScaled": "Retain"},
            "template": template,
            "volumeClaimTemplates": [claim],
        },
    }


def _replicas(spec: WorkspaceSpec) -> int:
    return 0 if spec.suspend else spec.runner.replicas

"""Workspaces as the API server gives them, for tests of what is made of them."""

from __future__ import annotations

from typing import Any

from turnkeeper.controller.manifests import Given, Names, Owned, owned_by
from turnkeeper.settings.workspace import WorkspaceSpec

UID = "8a3c5b1e-0000-4000-8000-000000000001"
NAMES = Names("people", "first", UID)
POSTGRES = {"postgres": {"urlSecretRef": {"name": "database", "key": "url"}}}

RICH: dict[str, Any] = {
    "journal": POSTGRES,
    "handler": {
        "chat": {"baseUrl": "http://models/v1", "model": "m", "apiKeySecretRef": {"name": "models", "key": "k"}}
    },
    "runner": {
        "replicas": 3,
        "image": "my/agent:7",
        "imagePullPolicy": "Always",
        "env": [
            {"name": "PLAIN", "value": "one"},
            {"name": "HIDDEN", "valueFrom": {"secretKeyRef": {"name": "more", "key": "k"}}},
        ],
        "resources": {"limits": {"memory": "1Gi", "cpu": 2}},
        "podTemplate": {
            "labels": {"team": "blue"},
            "annotations": {"note": "mine"},
            "nodeSelector": {"disk": "fast"},
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
            "priorityClassName": "high",
            "runtimeClassName": "gvisor",
            "imagePullSecrets": [{"name": "registry"}],
            "volumes": [
                {"name": "model", "persistentVolumeClaim": {"claimName": "model"}},
                {"name": "x", "emptyDir": {}},
            ],
            "volumeMounts": [{"name": "model", "mountPath": "/srv/model", "readOnly": True}],
        },
    },
}


def spec(**changes: Any) -> WorkspaceSpec:  # noqa: ANN401 - any part of a spec
    """A small spec with changes."""
    return WorkspaceSpec.model_validate({"journal": {"sqlite": {}}, "handler": {"echo": {}}, **changes})


def objects(of: WorkspaceSpec, *, tokens_mark: str = "0") -> dict[str, Owned]:
    """A Workspace's objects by kind."""
    made = owned_by(NAMES, of, Given("turnkeeper:1", tokens_mark))
    return {owned.body["kind"]: owned for owned in made}


def pod_of(of: WorkspaceSpec) -> dict[str, Any]:
    """The spec of a Workspace's pods."""
    made = objects(of)
    workload = made.get("Deployment") or made["StatefulSet"]
    pod: dict[str, Any] = workload.body["spec"]["template"]["spec"]
    return pod

"""A runner's pod: what runs in it, what it is told, what it may do and how it is probed and stopped."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from turnkeeper.controller.manifests.names import Names
from turnkeeper.settings import Settings
from turnkeeper.settings.pod_variables import (
    API_PORT,
    NAMESPACE,
    PEER_PORT,
    POD_ADDRESS,
    POD_NAME,
    POD_UID,
    PROBE_PORT,
    SETTINGS_FILE,
    WORKSPACE_NAME,
)
from turnkeeper.settings.stopping import stop_seconds
from turnkeeper.settings.workspace import WorkspaceSpec
from turnkeeper.settings.workspace_parts import Part, SecretKey
from turnkeeper.settings.workspace_runner import OWN_FOLDER, Volume

SETTINGS_ANNOTATION: Final = "turnkeeper.dev/settings"
"""What a runner is told, as a part of its pod: a pod of an older revision keeps what it was started with."""

TOKENS_ANNOTATION: Final = "turnkeeper.dev/tokens"
"""Changes with the tokens, so that runners start anew with the new ones."""

PROBE_SECONDS: Final = 10
BLOCKED_TTLS: Final = 2
"""A handler that holds the interpreter for so many ttls costs its claims, not its process."""

TOKEN_SECONDS: Final = 3600
"""How long the API server's token is good for; the kubelet renews it well before."""

GROUP_ID: Final = 65532
"""The group that a volume is given to: the image's own."""

ACCOUNT_FOLDER: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
SCRATCH: Final = "/scratch"


def pod_template(names: Names, spec: WorkspaceSpec, image: str, tokens: SecretKey, tokens_mark: str) -> dict[str, Any]:
    """Return the template of a Workspace's pods. tokens_mark: something that changes with the tokens."""
    added = spec.runner.pod_template
    told = json.dumps(spec.settings(names.uid), sort_keys=True, ensure_ascii=False)
    annotations = {**added.annotations, SETTINGS_ANNOTATION: told, TOKENS_ANNOTATION: tokens_mark}
    return {
        "metadata": {"labels": {**added.labels, **names.labels}, "annotations": annotations},
        "spec": {
            **_given(
                nodeSelector=added.node_selector,
                tolerations=[_plain(toleration) for toleration in added.tolerations],
                priorityClassName=added.priority_class_name,
                runtimeClassName=added.runtime_class_name,
                imagePullSecrets=[_plain(secret) for secret in added.image_pull_secrets],
                topologySpreadConstraints=_spread(names, spec),
            ),
            "serviceAccountName": names.runner,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": grace_seconds(spec),
            "securityContext": {
                "runAsNonRoot": True,
                "fsGroup": GROUP_ID,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [_container(names, spec, image, tokens)],
            "volumes": [*_own_volumes(), *(_volume(volume) for volume in added.volumes)],
        },
    }


def grace_seconds(spec: WorkspaceSpec) -> int:
    """Return how long the kubelet waits between the pod's deletion and its KILL: all that a runner's end may take."""
    return stop_seconds(Settings(**spec.settings("x")))


def _container(names: Names, spec: WorkspaceSpec, image: str, tokens: SecretKey) -> dict[str, Any]:
    runner = spec.runner
    return {
        "name": "runner",
        "image": image,
        **_given(imagePullPolicy=runner.image_pull_policy),
        "command": ["turnkeeper", "runner"],
        "env": [*_variables(names, spec, tokens), *(_plain(variable) for variable in runner.env)],
        "ports": [
            {"name": "http", "containerPort": API_PORT, "protocol": "TCP"},
            {"name": "probes", "containerPort": PROBE_PORT, "protocol": "TCP"},
            {"name": "peers", "containerPort": PEER_PORT, "protocol": "TCP"},
        ],
        **_probes(spec),
        "resources": _plain(runner.resources),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [*_own_mounts(spec), *(_plain(mount) for mount in runner.pod_template.volume_mounts)],
    }


def _variables(names: Names, spec: WorkspaceSpec, tokens: SecretKey) -> list[dict[str, Any]]:
    """Return what is secret or only this pod knows; all else is in the settings' file."""
    secrets = {"TURNKEEPER_AUTH__TOKENS": tokens}
    if spec.journal.postgres:
        secrets["TURNKEEPER_JOURNAL__POSTGRES__URL"] = spec.journal.postgres.url_secret_ref
    if spec.handler.chat and spec.handler.chat.api_key_secret_ref:
        secrets["TURNKEEPER_HANDLER__CHAT__API_KEY"] = spec.handler.chat.api_key_secret_ref
    fields = {
        POD_NAME: "metadata.name",
        POD_UID: "metadata.uid",
        NAMESPACE: "metadata.namespace",
        POD_ADDRESS: "status.podIP",
    }
    return [
        *({"name": name, "valueFrom": {"secretKeyRef": _plain(secret)}} for name, secret in secrets.items()),
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
        {"name": WORKSPACE_NAME, "value": names.workspace},
        {"name": "TURNKEEPER_CONFIG", "value": SETTINGS_FILE},
        {"name": "TMPDIR", "value": SCRATCH},
        {"name": "HOME", "value": SCRATCH},
    ]


def _probes(spec: WorkspaceSpec) -> dict[str, Any]:
    """Return the probes, all on the port that a thread of its own answers: a handler may block the loop for a while."""
    blocked = math.ceil(BLOCKED_TTLS * spec.claim_ttl_seconds / PROBE_SECONDS) + 1
    live = {"httpGet": {"path": "/livez", "port": "probes"}}
    ready = {"httpGet": {"path": "/readyz", "port": "probes"}}
    return {
        "startupProbe": {**live, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 120},
        "livenessProbe": {**live, "periodSeconds": PROBE_SECONDS, "timeoutSeconds": 5, "failureThreshold": blocked},
        "readinessProbe": {**ready, "periodSeconds": 2, "timeoutSeconds": 2, "failureThreshold": 1},
    }


def _own_volumes() -> list[dict[str, Any]]:
    account: list[dict[str, Any]] = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [_field("namespace", "metadata.namespace")]}},
    ]
    file = SETTINGS_FILE.rpartition("/")[2]
    settings = [_field(file, f"metadata.annotations['{SETTINGS_ANNOTATION}']")]
    return [
        {"name": "turnkeeper-account", "projected": {"sources": account}},
        {"name": "turnkeeper-settings", "downwardAPI": {"items": settings}},
        {"name": "turnkeeper-scratch", "emptyDir": {}},
    ]


def _field(path: str, field_path: str) -> dict[str, Any]:
    return {"path": path, "fieldRef": {"fieldPath": field_path}}


def _own_mounts(spec: WorkspaceSpec) -> list[dict[str, Any]]:
    journal = [{"name": "turnkeeper-journal", "mountPath": OWN_FOLDER}] if spec.journal.sqlite else []
    return [
        {"name": "turnkeeper-account", "mountPath": ACCOUNT_FOLDER, "readOnly": True},
        {"name": "turnkeeper-settings", "mountPath": SETTINGS_FILE.rpartition("/")[0], "readOnly": True},
        {"name": "turnkeeper-scratch", "mountPath": SCRATCH},
        *journal,
    ]


def _volume(volume: Volume) -> dict[str, Any]:
    """Return a volume; an empty folder without a limit must still be said."""
    return {"emptyDir": {}, **_plain(volume)} if volume.empty_dir else _plain(volume)


def _spread(names: Names, spec: WorkspaceSpec) -> list[dict[str, Any]]:
    """Return the wish that runners be on different nodes, where there may be several."""
    if spec.journal.sqlite:
        return []
    return [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": names.selector},
        }
    ]


def _plain(part: Part) -> dict[str, Any]:
    return part.model_dump(mode="json", by_alias=True, exclude_none=True)


def _given(**values: object) -> Mapping[str, Any]:
    return {name: value for name, value in values.items() if value}

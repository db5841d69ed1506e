"""What runners need around them: an address, an account with its rights, and bounds on who may end or reach them."""

from __future__ import annotations

from typing import Any, Final

from turnkeeper.controller.manifests.names import Names

RUNNER_RIGHTS: Final = (
    # Sessions and claims are Leases. Names are hashes, so the right can't be narrowed to some of them.
    (
        "coordination.k8s.io",
        "leases",
        ("get", "list", "watch", "create", "update", "patch", "delete"),
    ),
)
"""All that a runner may do with the API server, in its own namespace."""

RBAC: Final = "rbac.authorization.k8s.io"


def service(names: Names) -> dict[str, Any]:
    """Return the address of a Workspace's API: any runner takes any call."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": names.metadata(names.service),
        "spec": {
            "selector": names.selector,
            "ports": [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}],
        },
    }


def service_account(names: Names) -> dict[str, Any]:
    """Return who the runners are."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": names.metadata(names.runner),
        "automountServiceAccountToken": False,
    }


def role(names: Names) -> dict[str, Any]:
    """Return what the runners may do."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "Role",
        "metadata": names.metadata(names.runner),
        "rules": [
            {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
            for group, resource, verbs in RUNNER_RIGHTS
        ],
    }


def role_binding(names: Names) -> dict[str, Any]:
    """Return what gives the runners their role."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": names.metadata(names.runner),
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": names.runner},
        "subjects": [{"kind": "ServiceAccount", "name": names.runner, "namespace": names.namespace}],
    }


def disruption_budget(names: Names) -> dict[str, Any]:
    """Return the bound on evictions: one runner at a time, and a drain of the last one is not held up."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": names.metadata(names.runner),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": names.selector}},
    }


def network_policy(names: Names) -> dict[str, Any]:
    """Return what may come in: calls of the API, which ask for a token; probes, which tell nothing of threads; peers.

    What goes out is not bounded: only the handler knows where its turns lead.
    """
    ports = [{"port": "http", "protocol": "TCP"}, {"port": "probes", "protocol": "TCP"}]
    own = {"from": [{"podSelector": {"matchLabels": names.selector}}], "ports": [{"port": "peers", "protocol": "TCP"}]}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": names.metadata(names.runner),
        "spec": {
            "podSelector": {"matchLabels": names.selector},
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": ports}, own],
        },
    }

"""All that a Workspace owns, in the order in which it is made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from turnkeeper.adapters.kube.resources import (
    DEPLOYMENTS,
    NETWORK_POLICIES,
    POD_DISRUPTION_BUDGETS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from turnkeeper.controller.manifests import surroundings
from turnkeeper.controller.manifests.names import TOKENS_KEY, Names
from turnkeeper.controller.manifests.pod import pod_template
from turnkeeper.controller.manifests.workload import deployment, stateful_set
from turnkeeper.settings.workspace import WorkspaceSpec
from turnkeeper.settings.workspace_parts import SecretKey

APPLIED_ANNOTATION: Final = "turnkeeper.dev/applied"
"""The hash of what was applied: a field that is asked for no more shows as a change, too."""

OWNED_RESOURCES: Final = (
    SERVICE_ACCOUNTS,
    ROLES,
    ROLE_BINDINGS,
    NETWORK_POLICIES,
    POD_DISRUPTION_BUDGETS,
    SERVICES,
    DEPLOYMENTS,
    STATEFUL_SETS,
)


@dataclass(frozen=True, slots=True)
class Given:
    """What the objects depend on besides the Workspace. tokens_mark: something that changes with the tokens."""

    image: str
    tokens_mark: str = ""


@dataclass(frozen=True, slots=True)
class Owned:
    """An object as it should be."""

    resource: Resource
    body: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.body["metadata"]["name"])

    @property
    def mark(self) -> str:
        """The hash of the whole of it."""
        return str(self.body["metadata"]["annotations"][APPLIED_ANNOTATION])


def tokens_secret(names: Names, spec: WorkspaceSpec) -> SecretKey:
    """Return where a Workspace's tokens are: where it says, or in the Secret that is made for it."""
    return spec.auth.tokens_secret_ref or SecretKey(name=names.tokens, key=TOKENS_KEY)


def owned_by(names: Names, spec: WorkspaceSpec, given: Given) -> tuple[Owned, ...]:
    """Return a Workspace's objects but for its Secret. The workload is the last: all it needs is there before it."""
    image = spec.runner.image or given.image
    template = pod_template(names, spec, image, tokens_secret(names, spec), given.tokens_mark)
    sqlite = spec.journal.sqlite
    workload = (
        (STATEFUL_SETS, stateful_set(names, spec, sqlite, template))
        if sqlite
        else (DEPLOYMENTS, deployment(names, spec, template))
    )
    return tuple(
        Owned(resource, _marked(body))
        for resource, body in (
            (SERVICE_ACCOUNTS, surroundings.service_account(names)),
            (ROLES, surroundings.role(names)),
            (ROLE_BINDINGS, surroundings.role_binding(names)),
            (NETWORK_POLICIES, surroundings.network_policy(names)),
            (POD_DISRUPTION_BUDGETS, surroundings.disruption_budget(names)),
            (SERVICES, surroundings.service(names)),
            workload,
        )
    )


def _marked(body: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(body, sort_keys=True)
    mark = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {**body, "metadata": {**body["metadata"], "annotations": {APPLIED_ANNOTATION: mark}}}

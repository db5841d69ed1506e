"""A namespace of a real API server: Workspaces in it, controllers for it, and pods that are told of by hand.

There is no kubelet here, so a pod's status is what a test says it is; whoever answers at its address is real.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.soak.waiting import until
from turnkeeper.adapters.kube.api import KubeApi
from turnkeeper.adapters.kube.resources import EVENTS, PODS, SECRETS, SERVICE_ACCOUNTS, WORKSPACES, Resource
from turnkeeper.controller.kopf_events import follow_workspaces
from turnkeeper.controller.manifests import Names
from turnkeeper.controller.manifests.names import UID_LABEL
from turnkeeper.controller.manifests.owned import OWNED_RESOURCES
from turnkeeper.controller.metrics import ControllerMetrics
from turnkeeper.controller.runner_calls import RunnerCalls
from turnkeeper.controller.service import Controller, ControllerOptions
from turnkeeper.controller.status import FIELD_MANAGER
from turnkeeper.errors import KubeConflictError, KubeNotFoundError, UnavailableError
from turnkeeper.settings.workspace import GROUP, KIND, VERSION
from turnkeeper.settings.workspace_crd import NAME, workspace_crd

DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)

Object = dict[str, Any]


async def install_definition(api: KubeApi) -> None:
    """Apply the definition of Workspaces, and return when the API server serves them."""
    await api.apply(DEFINITIONS, None, NAME, workspace_crd(), field_manager="tests")

    async def serves() -> bool:
        try:
            await api.list(WORKSPACES, "default")
        except UnavailableError:
            return False
        return True

    await until(serves, "Workspaces are served")


@dataclass(frozen=True, slots=True)
class Cluster:
    """See the module."""

    api: KubeApi
    namespace: str

    async def apply(self, name: str = "first", **spec: Any) -> Object:  # noqa: ANN401 - any part of a spec
        """Make a Workspace, or give one another spec, as kubectl would, and return it."""
        whole = {"journal": {"sqlite": {}}, "handler": {"echo": {}}, **spec}
        metadata = {"name": name, "namespace": self.namespace}
        body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, "metadata": metadata, "spec": whole}
        while (there := await self.get(WORKSPACES, name)) is not None:
            with contextlib.suppress(KubeConflictError):  # the controller wrote its status meanwhile
                return await self.api.replace(WORKSPACES, self.namespace, name, {**there, "spec": whole})
        return await self.api.create(WORKSPACES, self.namespace, body)

    async def workspace(self, name: str = "first") -> Object:
        """Return a Workspace as it is."""
        return await self.api.get(WORKSPACES, self.namespace, name)

    async def condition(self, kind: str, name: str = "first") -> Object:
        """Return a condition as it is; an empty one before it is told."""
        status = (await self.workspace(name)).get("status", {})
        return next((each for each in status.get("conditions", ()) if each["type"] == kind), {})

    async def until_told(self, kind: str, reason: str, name: str = "first") -> Object:
        """Return a condition once it has that reason."""

        async def look() -> Object | None:
            found = await self.condition(kind, name)
            return found if found.get("reason") == reason else None

        return expect(await until(look, f"{kind} of {name} is {reason}", seconds=15))

    async def get(self, resource: Resource, name: str) -> Object | None:
        """Return an object, or None where it is not there."""
        try:
            return await self.api.get(resource, self.namespace, name)
        except KubeNotFoundError:
            return None

    async def until_there(self, resource: Resource, name: str) -> Object:
        """Return an object once it is there."""

        async def look() -> Object | None:
            return await self.get(resource, name)

        return expect(await until(look, f"{resource} {name} is there", seconds=15))

    async def written(self) -> dict[str, str]:
        """Return all that a controller may write here, as it is, but for what others write into the same objects."""
        found = {}
        for resource in (*OWNED_RESOURCES, SECRETS, WORKSPACES, EVENTS):
            for item in (await self.api.list(resource, self.namespace)).items:
                metadata = item["metadata"]
                own = [each for each in metadata.pop("managedFields", ()) if each["manager"] == FIELD_MANAGER]
                del metadata["resourceVersion"]
                if resource is not WORKSPACES:
                    item.pop("status", None)
                if resource is not EVENTS or item["involvedObject"]["kind"] == KIND:
                    found[f"{resource} {metadata['name']}"] = json.dumps([item, own], sort_keys=True)
        return found

    async def make_pod(self, workspace: Mapping[str, Any], name: str, address: str, *, is_ready: bool = True) -> Object:
        """Make a runner's pod and say that it runs at an address."""
        names = Names.of(workspace)
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": self.namespace, "labels": names.labels},
            "spec": {
                "containers": [{"name": "runner", "image": "x"}],
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 0,
            },
        }
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        with contextlib.suppress(KubeConflictError):  # no controller of the cluster's makes it here
            await self.api.create(SERVICE_ACCOUNTS, self.namespace, account)
        await self.api.create(PODS, self.namespace, body)
        return await self.say_of_pod(name, {"running": {}}, address=address, is_ready=is_ready)

    async def say_of_pod(
        self, name: str, state: Mapping[str, Any], *, address: str = "", is_ready: bool = False, restarts: int = 0
    ) -> Object:
        """Say how a pod's container is, as a kubelet does."""
        container = {
            "name": "runner",
            "image": "x",
            "imageID": "",
            "ready": is_ready,
            "restartCount": restarts,
            "state": dict(state),
        }
        status = {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True" if is_ready else "False"}],
            "containerStatuses": [container],
            **({"podIP": address, "podIPs": [{"ip": address}]} if address else {}),
        }
        return await self.api.patch(PODS, self.namespace, name, {"status": status}, subresource="status")

    async def remove_pods(self, uid: str) -> None:
        """Delete a Workspace's pods at once."""
        for pod in (await self.api.list(PODS, self.namespace, f"{UID_LABEL}={uid}")).items:
            await self.api.delete(PODS, self.namespace, pod["metadata"]["name"])

    @contextlib.asynccontextmanager
    async def controlled(self, calls: RunnerCalls | None = None) -> AsyncIterator[Controller]:
        """Run a controller for this namespace, with kopf's watch, for the time of a block."""
        options = ControllerOptions(identity="tests", image="turnkeeper:1", namespaces=(self.namespace,))
        controller = Controller(self.api, options, ControllerMetrics(), calls)
        tasks = [
            asyncio.create_task(controller.run()),
            asyncio.create_task(follow_workspaces(options.namespaces, controller.workspace_event)),
        ]
        try:
            yield controller
            assert not any(task.done() for task in tasks), tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def expect(found: Object | None) -> Object:
    """Return what must be there."""
    assert found is not None
    return found

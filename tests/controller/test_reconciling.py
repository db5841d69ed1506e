"""A controller against a real API server: what it makes, puts back, leaves alone and says."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.controller.cluster import Cluster, Object, expect
from tests.controller.workspaces import POSTGRES
from tests.soak.waiting import pause, until
from turnkeeper.adapters.kube.resources import (
    DEPLOYMENTS,
    EVENTS,
    NETWORK_POLICIES,
    POD_DISRUPTION_BUDGETS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    WORKSPACES,
    Resource,
)
from turnkeeper.controller.manifests import Names

# kopf ends its loop before its last connections are closed: the warning comes with whatever test runs then.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

QUIET_SECONDS = 3.0
"""How long nothing must be written: some of the shortest intervals there are."""

FAST: dict[str, Any] = {"journal": POSTGRES, "recover": {"intervalSeconds": 1}}


async def test_a_workspace_gets_its_objects_and_then_nothing_is_written(cluster: Cluster) -> None:
    """Not by sweeps, nor by another controller that starts: what is right is left alone."""
    async with cluster.controlled():
        await cluster.apply(**FAST)
        await cluster.until_there(DEPLOYMENTS, "first-runner")
        await cluster.until_told("Ready", "RunnersStarting")
        for resource in (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, NETWORK_POLICIES, POD_DISRUPTION_BUDGETS):
            expect(await cluster.get(resource, "first-runner"))
        expect(await cluster.get(SERVICES, "first"))
        before = await cluster.written()
        await pause(QUIET_SECONDS)
        assert await cluster.written() == before
    async with cluster.controlled():
        await pause(QUIET_SECONDS)
        assert await cluster.written() == before


async def test_tokens_are_made_once(cluster: Cluster) -> None:
    """Long and random, in a Secret that goes with the Workspace; a look changes nothing in it."""
    async with cluster.controlled():
        workspace = await cluster.apply(**FAST)
        secret = await cluster.until_there(SECRETS, "first-tokens")
    token = base64.b64decode(secret["data"]["tokens"]).decode()
    assert len(token) == 64
    assert secret["metadata"]["ownerReferences"][0]["uid"] == workspace["metadata"]["uid"]
    async with cluster.controlled():
        await cluster.until_told("Ready", "RunnersStarting")
    assert expect(await cluster.get(SECRETS, "first-tokens"))["data"] == secret["data"]


DRIFTS: list[tuple[str, Resource, str, Object | None]] = [
    ("a Service deleted", SERVICES, "first", None),
    ("a Role deleted", ROLES, "first-runner", None),
    ("another port", SERVICES, "first", {"spec": {"ports": [{"name": "http", "port": 99}]}}),
    ("one port more", SERVICES, "first", {"spec": {"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 80}]}}),
    ("another selector", SERVICES, "first", {"spec": {"selector": {"app.kubernetes.io/component": "x"}}}),
    ("one label more to select by", SERVICES, "first", {"spec": {"selector": {"more": "x"}}}),
    (
        "a bound on others",
        POD_DISRUPTION_BUDGETS,
        "first-runner",
        {"spec": {"selector": {"matchLabels": {"more": "x"}}}},
    ),
    (
        "more rights",
        ROLES,
        "first-runner",
        {"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]},
    ),
    ("labels gone", SERVICE_ACCOUNTS, "first-runner", {"metadata": {"labels": None}}),
    ("its owner gone", DEPLOYMENTS, "first-runner", {"metadata": {"ownerReferences": None}}),
    ("another scale", DEPLOYMENTS, "first-runner", {"spec": {"replicas": 7}}),
    ("no bound", POD_DISRUPTION_BUDGETS, "first-runner", {"spec": {"maxUnavailable": 3}}),
    ("an open policy", NETWORK_POLICIES, "first-runner", {"spec": {"ingress": [{}]}}),
    ("a forged mark", DEPLOYMENTS, "first-runner", {"metadata": {"annotations": {"turnkeeper.dev/applied": "x"}}}),
    (
        "a guest in the pod",
        DEPLOYMENTS,
        "first-runner",
        {"spec": {"template": {"spec": {"containers": [{"name": "guest", "image": "x"}]}}}},
    ),
]


@pytest.mark.parametrize(("case", "resource", "name", "patch"), DRIFTS, ids=[case for case, *_ in DRIFTS])
async def test_what_somebody_changed_is_put_back(
    cluster: Cluster, case: str, resource: Resource, name: str, patch: Object | None
) -> None:
    """Within seconds, as it was."""

    def essence(found: Object) -> Object:
        metadata = {part: found["metadata"].get(part) for part in ("labels", "annotations", "ownerReferences")}
        rest = {part: value for part, value in found.items() if part in {"spec", "rules", "roleRef", "subjects"}}
        rest.get("spec", {}).pop("clusterIP", None)
        rest.get("spec", {}).pop("clusterIPs", None)
        return {"metadata": metadata, **rest}

    async with cluster.controlled():
        await cluster.apply(**FAST)
        await cluster.until_told("Ready", "RunnersStarting")
        before = essence(expect(await cluster.get(resource, name)))
        if patch is None:
            await cluster.api.delete(resource, cluster.namespace, name)
        else:
            changed = await cluster.api.patch(resource, cluster.namespace, name, patch)
            assert essence(changed) != before, "the patch changed nothing"

        async def is_back() -> bool:
            found = await cluster.get(resource, name)
            return found is not None and essence(found) == before

        await until(is_back, f"{case} is put back", seconds=10)


async def test_a_stranger_s_object_is_never_touched(cluster: Cluster) -> None:
    """It is told, and once it is out of the way the Workspace goes on by itself."""
    body: Object = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "first", "namespace": cluster.namespace},
        "spec": {"ports": [{"port": 5432}]},
    }
    there = await cluster.api.create(SERVICES, cluster.namespace, body)
    async with cluster.controlled() as controller:
        await cluster.apply(**FAST)
        told = await cluster.until_told("Stalled", "NameTaken")
        assert told["message"].startswith("The Service first is there and not this Workspace's. Delete it")
        assert await cluster.get(SERVICES, "first") == there
        assert await cluster.get(DEPLOYMENTS, "first-runner") is None
        await cluster.api.delete(SERVICES, cluster.namespace, "first")
        controller.changed((cluster.namespace, "first"))  # it looks again every half minute; the test does not wait
        await cluster.until_told("Stalled", "AsAsked")


async def test_a_workspace_made_again_waits_for_the_earlier_one_s_objects(cluster: Cluster) -> None:
    """They are another's, although their names are right: only the cluster's collector takes them away."""
    async with cluster.controlled() as controller:
        await cluster.apply(**FAST)
        old = await cluster.until_there(DEPLOYMENTS, "first-runner")
        await cluster.api.delete(WORKSPACES, cluster.namespace, "first")
        new = await cluster.apply(**FAST)
        told = await cluster.until_told("Stalled", "NameTaken")
        assert "an earlier Workspace's of this name" in told["message"]
        for resource in (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, NETWORK_POLICIES, POD_DISRUPTION_BUDGETS, DEPLOYMENTS):
            await cluster.api.delete(resource, cluster.namespace, "first-runner")
        await cluster.api.delete(SERVICES, cluster.namespace, "first")
        controller.changed((cluster.namespace, "first"))
        made = await cluster.until_there(DEPLOYMENTS, "first-runner")
        assert made["metadata"]["uid"] != old["metadata"]["uid"]
        assert made["metadata"]["ownerReferences"][0]["uid"] == new["metadata"]["uid"]


async def test_a_bad_edit_leaves_the_last_good_spec_running_and_says_so(cluster: Cluster) -> None:
    """Here its tokens' Secret is not there; when it comes, the edit is acted on."""
    async with cluster.controlled() as controller:
        await cluster.apply(**FAST)
        await cluster.until_told("Stalled", "AsAsked")
        before = expect(await cluster.get(DEPLOYMENTS, "first-runner"))["spec"]
        await cluster.apply(**FAST, auth={"tokensSecretRef": {"name": "mine", "key": "t"}}, runner={"replicas": 2})
        told = await cluster.until_told("Stalled", "TokensMissing")
        assert "The Secret mine, which spec.auth.tokensSecretRef names, is not there. Make it" in told["message"]
        assert "Runners go on under the spec of generation 1" in told["message"]
        assert expect(await cluster.get(DEPLOYMENTS, "first-runner"))["spec"] == before
        secret: Object = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "mine"},
            "stringData": {"t": "short"},
        }
        await cluster.api.create(SECRETS, cluster.namespace, secret)
        controller.changed((cluster.namespace, "first"))
        await cluster.until_told("Stalled", "TokensUnfit")
        await cluster.api.patch(SECRETS, cluster.namespace, "mine", {"stringData": {"t": "0123456789abcdef"}})
        controller.changed((cluster.namespace, "first"))
        await cluster.until_told("Stalled", "AsAsked")
        after = expect(await cluster.get(DEPLOYMENTS, "first-runner"))["spec"]
        assert after["replicas"] == 2


async def test_suspend_stops_the_runners_and_keeps_the_rest(cluster: Cluster) -> None:
    """And off again, they come back."""
    async with cluster.controlled():
        await cluster.apply(**FAST, runner={"replicas": 3})
        await cluster.until_told("Ready", "RunnersStarting")
        await cluster.apply(**FAST, runner={"replicas": 3}, suspend=True)
        await cluster.until_told("Ready", "Suspended")
        assert expect(await cluster.get(DEPLOYMENTS, "first-runner"))["spec"]["replicas"] == 0
        expect(await cluster.get(SERVICES, "first"))
        await cluster.apply(**FAST, runner={"replicas": 3})
        await cluster.until_told("Ready", "RunnersStarting")
        assert expect(await cluster.get(DEPLOYMENTS, "first-runner"))["spec"]["replicas"] == 3


async def test_a_bad_workspace_does_not_hold_up_good_ones(cluster: Cluster) -> None:
    """Each is looked at by itself."""
    for number in range(5):
        await cluster.apply(f"bad-{number}", **FAST, auth={"tokensSecretRef": {"name": "none", "key": "t"}})
    async with cluster.controlled():
        await cluster.apply("good", **FAST)
        await cluster.until_told("Stalled", "AsAsked", "good")
        await cluster.until_told("Stalled", "TokensMissing", "bad-4")


async def test_a_pod_that_can_not_start_is_told_with_its_reason(cluster: Cluster) -> None:
    """In the condition, and once in an Event that `kubectl describe` shows."""
    async with cluster.controlled():
        workspace = await cluster.apply(**FAST)
        await cluster.until_told("Ready", "RunnersStarting")
        await cluster.make_pod(workspace, "first-runner-x", "", is_ready=False)
        waiting = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "my/agent"'}}
        await cluster.say_of_pod("first-runner-x", waiting)
        told = await cluster.until_told("Ready", "RunnerCannotStart")
        assert told["message"] == 'first-runner-x: ImagePullBackOff: Back-off pulling image "my/agent".'

        async def posted() -> list[Object]:
            found = (await cluster.api.list(EVENTS, cluster.namespace)).items
            return [
                each
                for each in found
                if each["involvedObject"]["kind"] == "Workspace" and each["reason"] == "RunnerCannotStart"
            ]

        events = await until(posted, "an Event is posted", seconds=10)
        assert events[0]["type"] == "Warning"
        assert events[0]["involvedObject"]["uid"] == Names.of(workspace).uid


async def test_a_status_that_somebody_forged_is_put_back(cluster: Cluster) -> None:
    """People and alerts believe it."""
    async with cluster.controlled():
        await cluster.apply(**FAST)
        await cluster.until_told("Ready", "RunnersStarting")
        conditions = expect(await cluster.get(WORKSPACES, "first"))["status"]["conditions"]
        for each in conditions:
            each["status"] = "True"
        body = {"status": {"conditions": conditions, "readyReplicas": 5}}
        await cluster.api.patch(WORKSPACES, cluster.namespace, "first", body, subresource="status")

        async def is_back() -> bool:
            status = (await cluster.workspace())["status"]
            told = {each["type"]: each["status"] for each in status["conditions"]}
            return bool(told["Ready"] == "False" and told["Stalled"] == "False" and status["readyReplicas"] == 0)

        await until(is_back, "the status is put back", seconds=10)

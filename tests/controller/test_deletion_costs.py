"""Before a Workspace's Deployment shrinks, each pod says how many claims it holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controller.cluster import Cluster, Object, expect
from tests.controller.workspaces import POSTGRES
from tests.kube.fault_proxy import Hang, Refuse, Trouble, fault_proxy, kubeconfig_for
from tests.soak.waiting import until
from turnkeeper.adapters.kube.api import open_kube_api
from turnkeeper.adapters.kube.lease_claims import LeaseClaims
from turnkeeper.adapters.kube.lease_records import Owner, Place
from turnkeeper.adapters.kube.resources import DEPLOYMENTS, PODS
from turnkeeper.adapters.machine_clock import MachineClock
from turnkeeper.controller import deletion_costs
from turnkeeper.controller.deletion_costs import COST
from turnkeeper.controller.manifests import Names

# kopf ends its loop before its last connections are closed: the warning comes with whatever test runs then.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


async def held_by(cluster: Cluster, workspace: Object, pod: Object, *threads: str) -> None:
    """Open a session of a pod, and claim threads for it."""
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    place = Place(
        namespace=cluster.namespace,
        workspace="first",
        uid=Names.of(workspace).uid,
        pod=Owner(api_version="v1", kind="Pod", name=name, uid=uid),
    )
    claims = LeaseClaims(cluster.api, place, MachineClock(), deadline_seconds=20.0)
    await claims.open_session(f"of {name}", name, 600.0)
    for thread in threads:
        await claims.claim(thread, f"of {name}", "once", 0)


async def costs(cluster: Cluster) -> dict[str, str | None]:
    """What each pod says."""
    pods = (await cluster.api.list(PODS, cluster.namespace)).items
    return {pod["metadata"]["name"]: pod["metadata"].get("annotations", {}).get(COST) for pod in pods}


async def until_replicas(cluster: Cluster, count: int) -> None:
    """Wait until the Deployment asks for so many."""

    async def is_so() -> bool:
        return bool(expect(await cluster.get(DEPLOYMENTS, "first-runner"))["spec"]["replicas"] == count)

    await until(is_so, f"there are to be {count} runners")


async def test_the_idle_go_first_when_there_are_to_be_fewer(cluster: Cluster) -> None:
    """Nothing is written while they are many; each pod's number is there before the Deployment asks for fewer."""
    async with cluster.controlled():
        workspace = await cluster.apply(journal=POSTGRES, runner={"replicas": 3})
        await cluster.until_there(DEPLOYMENTS, "first-runner")
        pods = {name: await cluster.make_pod(workspace, name, "") for name in ("busy", "idle", "some", "sessionless")}
        await held_by(cluster, workspace, pods["busy"], "a", "b", "c")
        await held_by(cluster, workspace, pods["some"], "d")
        await held_by(cluster, workspace, pods["idle"])
        await cluster.api.patch(
            PODS, cluster.namespace, "idle", {"metadata": {"annotations": {COST: "7"}}}
        )  # it held some when there were fewer before
        await cluster.apply(journal=POSTGRES, runner={"replicas": 4})
        await until_replicas(cluster, 4)
        assert await costs(cluster) == {"busy": None, "idle": "7", "some": None, "sessionless": None}
        await cluster.apply(journal=POSTGRES, runner={"replicas": 1})
        await until_replicas(cluster, 1)
        assert await costs(cluster) == {"busy": "3", "idle": "0", "some": "1", "sessionless": None}


@pytest.mark.parametrize("trouble", [Refuse(403), Refuse(500), Hang()], ids=repr)
async def test_a_deployment_shrinks_although_the_costs_cannot_be_written(
    cluster: Cluster, kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Trouble
) -> None:
    """Some runner goes, and its turns go on elsewhere: that is better than to stay too many."""
    monkeypatch.setattr(deletion_costs, "DEADLINE_SECONDS", 2.0)
    async with fault_proxy(kubeconfig) as proxy:
        proxied = await open_kube_api(deadline_seconds=20.0, kubeconfig=kubeconfig_for(proxy.url, tmp_path))
        async with Cluster(proxied, cluster.namespace).controlled():
            workspace = await cluster.apply(journal=POSTGRES, runner={"replicas": 3})
            await cluster.until_there(DEPLOYMENTS, "first-runner")
            await held_by(cluster, workspace, await cluster.make_pod(workspace, "busy", ""), "a")
            proxy.trouble(trouble, "PATCH", "/pods/", times=1_000)
            await cluster.apply(journal=POSTGRES, runner={"replicas": 1})
            await until_replicas(cluster, 1)
            assert proxy.met
            assert await costs(cluster) == {"busy": None}
        await proxied.aclose()


async def test_where_all_are_to_go_nothing_is_counted(cluster: Cluster) -> None:
    """There is nothing to choose."""
    async with cluster.controlled():
        workspace = await cluster.apply(journal=POSTGRES, runner={"replicas": 2})
        await cluster.until_there(DEPLOYMENTS, "first-runner")
        await held_by(cluster, workspace, await cluster.make_pod(workspace, "busy", ""), "a")
        await cluster.apply(journal=POSTGRES, runner={"replicas": 2}, suspend=True)
        await until_replicas(cluster, 0)
        assert await costs(cluster) == {"busy": None}

"""A Lease goes when what owns it goes, by the cluster's own collector: no process of ours has to be alive for it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.control_plane import control_plane
from tests.conftest import GIVEN_CLUSTER
from tests.contract.play import expect
from tests.soak.waiting import until
from turnkeeper.adapters.kube import lease_records as records
from turnkeeper.adapters.kube.api import open_kube_api
from turnkeeper.adapters.kube.lease_claims import LeaseClaims
from turnkeeper.adapters.kube.lease_records import Owner, Place
from turnkeeper.adapters.kube.resources import LEASES, NAMESPACES, PODS, SERVICE_ACCOUNTS
from turnkeeper.adapters.machine_clock import MachineClock
from turnkeeper.core.claim import Claimed, SessionGone
from turnkeeper.errors import KubeNotFoundError


@pytest.fixture(scope="module")
def collecting() -> Iterator[Path]:
    """The kubeconfig of a cluster whose controllers run."""
    if GIVEN_CLUSTER != "control-plane":
        yield Path(GIVEN_CLUSTER)
        return
    with control_plane(controllers=True) as plane:
        yield plane.kubeconfig


@pytest.mark.timeout(300)
async def test_leases_are_collected_with_their_owners(collecting: Path) -> None:
    """A deleted pod takes its session along and another's not; a claim goes with its Workspace's end."""
    api = await open_kube_api(deadline_seconds=20.0, kubeconfig=collecting)
    namespace = f"turnkeeper-test-{uuid.uuid4().hex[:12]}"
    await api.create(NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})

    async def is_ready() -> bool:
        try:
            return bool(await api.get(SERVICE_ACCOUNTS, namespace, "default"))
        except KubeNotFoundError:
            return False

    await until(is_ready, "the namespace's account")
    owners = []
    for name in ("runner-0", "runner-1"):
        spec = {"containers": [{"name": "runner", "image": "none"}], "schedulerName": "nobody"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        made = await api.create(PODS, namespace, pod)
        owners.append(Owner(api_version="v1", kind="Pod", name=name, uid=made["metadata"]["uid"]))
    zero, one = (
        LeaseClaims(
            api,
            Place(namespace=namespace, workspace="w", uid="u", workspace_owner=owners[0], pod=owner),  # any will do
            MachineClock(),
            deadline_seconds=30.0,
        )
        for owner in owners
    )
    await zero.open_session("zero", "runner-0", 30.0)
    await one.open_session("one", "runner-1", 30.0)
    expect(await one.claim("t", "one", "n", 0), Claimed)
    await api.delete(PODS, namespace, "runner-0")

    async def is_gone() -> bool:
        return await zero.renew("zero") == SessionGone()

    await until(is_gone, "the session of a pod that was deleted")
    assert [record.session for record in await one.sessions()] == ["one"]

    async def is_freed() -> bool:
        found = await api.list(LEASES, namespace, f"{records.KIND}=claim")
        return not found.items

    await until(is_freed, "the claim of a Workspace that was deleted")
    await api.delete(NAMESPACES, None, namespace)
    await api.aclose()

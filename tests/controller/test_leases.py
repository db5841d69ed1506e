"""What the controller does with Leases that nobody is behind any more, and that it leaves all others alone."""

from __future__ import annotations

import pytest

from tests.controller.cluster import Cluster, Object
from tests.controller.workspaces import POSTGRES
from tests.soak.waiting import pause, until
from turnkeeper.adapters.kube.lease_claims import LeaseClaims
from turnkeeper.adapters.kube.lease_records import Owner, Place
from turnkeeper.adapters.kube.resources import LEASES
from turnkeeper.adapters.machine_clock import MachineClock
from turnkeeper.controller.leases import LeaseCollector
from turnkeeper.controller.manifests import Names
from turnkeeper.controller.metrics import ControllerMetrics
from turnkeeper.core.claim import Claimed

# kopf ends its loop before its last connections are closed: the warning comes with whatever test runs then.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def claims_of(cluster: Cluster, workspace: Object, pod: Object | None = None) -> LeaseClaims:
    """Sessions and claims as the runner in a pod makes them."""
    names = Names.of(workspace)
    owner = (
        Owner(api_version="v1", kind="Pod", name=pod["metadata"]["name"], uid=pod["metadata"]["uid"]) if pod else None
    )
    place = Place(namespace=cluster.namespace, workspace=names.workspace, uid=names.uid, pod=owner)
    return LeaseClaims(cluster.api, place, MachineClock(), deadline_seconds=10.0)


async def sessions(claims: LeaseClaims) -> set[str]:
    """Which there are."""
    return {record.session for record in await claims.sessions()}


async def test_a_container_that_stopped_ends_its_session(cluster: Cluster) -> None:
    """At once, and not a ttl later; its neighbour's session stays."""
    async with cluster.controlled():
        workspace = await cluster.apply(journal=POSTGRES)
        dying, living = [await cluster.make_pod(workspace, name, "") for name in ("dying", "living")]
        one, other = claims_of(cluster, workspace, dying), claims_of(cluster, workspace, living)
        await one.open_session("one", "dying", 600.0)
        await other.open_session("other", "living", 600.0)
        await cluster.until_told("Ready", "RunnersReady")
        await cluster.say_of_pod("dying", {"terminated": {"exitCode": 137, "reason": "Error"}})

        async def is_over() -> bool:
            return await sessions(one) == {"other"}

        await until(is_over, "the session is over", seconds=5)


async def test_a_container_that_was_started_anew_keeps_its_new_session(cluster: Cluster) -> None:
    """Whatever the controller saw before: the next life's session is its own."""
    async with cluster.controlled():
        workspace = await cluster.apply(journal=POSTGRES)
        pod = await cluster.make_pod(workspace, "a", "")
        claims = claims_of(cluster, workspace, pod)
        await cluster.until_told("Ready", "RunnersReady")
        await claims.open_session("next", "a", 600.0)
        await cluster.say_of_pod("a", {"running": {}}, is_ready=True, restarts=1)
        await pause(2.0)
        assert await sessions(claims) == {"next"}


async def test_a_claim_whose_session_is_gone_is_removed_in_the_second_round(cluster: Cluster) -> None:
    """A round alone may have caught it in the middle of something; one of a session that is there is left alone."""
    workspace = await cluster.apply(journal=POSTGRES)
    claims = claims_of(cluster, workspace)
    for session in ("gone", "there"):
        await claims.open_session(session, session, 600.0)
        assert isinstance(await claims.claim(f"of-{session}", session, "n", 0), Claimed)
    await claims.close_session("gone")
    collector = LeaseCollector(cluster.api, ControllerMetrics())
    await collector.collect_claims(cluster.namespace)
    assert len(await leases(cluster, "claim")) == 2
    await collector.collect_claims(cluster.namespace)
    [left] = await leases(cluster, "claim")
    assert left["spec"]["holderIdentity"] == "there"


async def test_a_claim_that_was_taken_over_between_two_rounds_stays(cluster: Cluster) -> None:
    """It is another's by then, at another version."""
    workspace = await cluster.apply(journal=POSTGRES)
    claims = claims_of(cluster, workspace)
    for session in ("gone", "there"):
        await claims.open_session(session, session, 600.0)
    await claims.claim("t", "gone", "n", 0)
    await claims.close_session("gone")
    collector = LeaseCollector(cluster.api, ControllerMetrics())
    await collector.collect_claims(cluster.namespace)
    taken = await claims.claim("t", "there", "m", 0)
    assert isinstance(taken, Claimed)
    await claims.close_session("there")
    await collector.collect_claims(cluster.namespace)
    assert len(await leases(cluster, "claim")) == 1


async def leases(cluster: Cluster, kind: str) -> list[Object]:
    """The Leases of a kind."""
    return list((await cluster.api.list(LEASES, cluster.namespace, f"turnkeeper.dev/lease={kind}")).items)

"""The Lease behind which one controller acts at a time."""

from __future__ import annotations

import asyncio

import pytest

from tests.controller.cluster import Cluster, Object
from tests.soak.waiting import pause
from turnkeeper.adapters.kube.resources import LEASES
from turnkeeper.controller import gate as gates
from turnkeeper.controller.gate import Gate

NAME = "controller"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twentieth of the times, in their proportion."""
    for name in ("RENEW_SECONDS", "RETRY_SECONDS", "STANDBY_SECONDS"):
        monkeypatch.setattr(gates, name, getattr(gates, name) / 20)
    monkeypatch.setattr(gates, "LEASE_SECONDS", 3)


def gate(cluster: Cluster, identity: str) -> Gate:
    """The gate of one life of a controller."""
    return Gate(cluster.api, cluster.namespace, NAME, identity)


async def lease(cluster: Cluster) -> Object:
    """The Lease as it is."""
    return await cluster.api.get(LEASES, cluster.namespace, NAME)


async def test_the_second_waits_until_the_first_leaves(cluster: Cluster) -> None:
    """As long as the first renews; then it enters within a look."""
    first, second = gate(cluster, "one"), gate(cluster, "two")
    await first.enter()
    holding = asyncio.create_task(first.hold())
    entering = asyncio.create_task(second.enter())
    await pause(6.0)
    assert first.is_held
    assert not entering.done()
    assert (await lease(cluster))["spec"]["leaseTransitions"] == 1
    holding.cancel()
    await first.leave()
    async with asyncio.timeout(20):
        await entering
    assert [each.is_held for each in (first, second)] == [False, True]
    assert (await lease(cluster))["spec"]["holderIdentity"] == "two"
    assert (await lease(cluster))["spec"]["leaseTransitions"] == 2


async def test_one_that_died_is_followed_after_its_lease_and_not_sooner(cluster: Cluster) -> None:
    """Nobody's clock is read: the Lease must be seen unchanged for as long as it lasts."""
    await gate(cluster, "dead").enter()
    now = asyncio.get_running_loop().time()
    second = gate(cluster, "two")
    async with asyncio.timeout(30):
        await second.enter()
    assert asyncio.get_running_loop().time() - now >= gates.LEASE_SECONDS


async def test_who_loses_the_lease_stops(cluster: Cluster) -> None:
    """Taken by another, `hold` returns, and nothing of the other's is given up on leaving."""
    first = gate(cluster, "one")
    await first.enter()
    body = await lease(cluster)
    body["spec"]["holderIdentity"] = "thief"
    await cluster.api.replace(LEASES, cluster.namespace, NAME, body)
    async with asyncio.timeout(20):
        await first.hold()
    assert not first.is_held
    await first.leave()
    assert (await lease(cluster))["spec"]["holderIdentity"] == "thief"


async def test_two_that_come_at_once_are_one(cluster: Cluster) -> None:
    """The API server takes one write at a version."""
    entering = [asyncio.create_task(gate(cluster, name).enter()) for name in ("one", "two", "three")]
    done, waiting = await asyncio.wait(entering, timeout=1.0)
    assert len(done) == 1
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_lease_edited_to_nonsense_is_held_again(cluster: Cluster) -> None:
    """No holder, no duration, no times: whoever comes takes it."""
    first = gate(cluster, "one")
    await first.enter()
    body = await lease(cluster)
    body["spec"] = {"holderIdentity": "", "leaseTransitions": 0}
    await cluster.api.replace(LEASES, cluster.namespace, NAME, body)
    async with asyncio.timeout(20):
        await gate(cluster, "two").enter()

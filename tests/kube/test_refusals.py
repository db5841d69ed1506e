"""What the API server refuses, and a server that is slow, overloaded or silent: each told as what it is."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contract.stores import LeaseStore
from tests.kube.conftest import CALL_SECONDS, REQUEST_SECONDS
from tests.kube.fault_proxy import FaultProxy, Hang, Refuse, kubeconfig_for
from tests.soak.waiting import until_true
from turnkeeper.adapters.kube import lease_records as records
from turnkeeper.adapters.kube.api import KubeApi, open_kube_api
from turnkeeper.adapters.kube.lease_claims import LeaseClaims
from turnkeeper.adapters.kube.resources import LEASES, Resource
from turnkeeper.adapters.machine_clock import MachineClock
from turnkeeper.core.claim import Claimed, SessionRecord
from turnkeeper.errors import (
    KubeConflictError,
    KubeNotFoundError,
    KubeRefusedError,
    UnavailableError,
    UnknownOutcomeError,
)

BUSY = Refuse(429, {"Retry-After": "1"}, "too many requests, please try again later")


@pytest.fixture
async def held(troubled: LeaseClaims) -> LeaseClaims:
    """The session one, opened while there was no trouble."""
    await troubled.open_session("one", "runner-1", 30.0)
    return troubled


async def test_429_is_obeyed_and_the_call_sent_again(proxy: FaultProxy, held: LeaseClaims) -> None:
    """Between the refusal and the next try nothing is sent for as long as the server asked, by any call."""
    proxy.trouble(BUSY, "PATCH")
    renewed, _ = await asyncio.gather(held.renew("one"), _after_first(proxy, held))
    assert isinstance(renewed, SessionRecord)
    first, second = proxy.sent("PATCH")
    assert second.at_seconds - first.at_seconds >= 1.0
    assert not [request for request in proxy.requests if first.at_seconds < request.at_seconds < first.at_seconds + 1.0]


async def _after_first(proxy: FaultProxy, claims: LeaseClaims) -> None:
    """Ask for the sessions once the first renewal was refused."""
    await until_true(lambda: proxy.met, "the first renewal is refused")
    await claims.sessions()


async def test_429_for_longer_than_a_deadline_is_told_with_its_time(proxy: FaultProxy, held: LeaseClaims) -> None:
    """The caller hears at once how long to wait, and until then calls fail without being sent."""
    proxy.trouble(Refuse(429, {"Retry-After": "9"}), "PATCH")
    began = time.monotonic()
    for _ in range(3):
        with pytest.raises(UnavailableError, match=r"\(429\)") as raised:
            await held.renew("one")
        assert not isinstance(raised.value, UnknownOutcomeError)
        assert 7 < (raised.value.retry_after_seconds or 0) < 11
    assert time.monotonic() - began < REQUEST_SECONDS
    assert len(proxy.sent("PATCH")) == 1


async def test_429_without_an_end_is_told_within_the_deadline(proxy: FaultProxy, held: LeaseClaims) -> None:
    """It is tried for as long as there is time, without haste, and then told as unavailable: nothing was done."""
    proxy.trouble(Refuse(429, {"Retry-After": "0"}), "PATCH", times=1000)
    with pytest.raises(UnavailableError, match=r"\(429\)") as raised:
        await held.renew("one")
    assert not isinstance(raised.value, UnknownOutcomeError)
    assert 2 <= len(proxy.sent("PATCH")) <= CALL_SECONDS / 0.1


async def test_a_server_that_fails_for_a_moment_is_asked_again(proxy: FaultProxy, held: LeaseClaims) -> None:
    """A moment of 500s costs no renewal, no claim and no list."""
    for method in ("GET", "PATCH", "POST"):
        proxy.trouble(Refuse(500), method, times=2)
    assert isinstance(await held.renew("one"), SessionRecord)
    assert isinstance(await held.claim("t", "one", "n", 0), Claimed)
    proxy.trouble(Refuse(503, body="no backend"), "GET", times=2)
    assert [record.session for record in await held.sessions()] == ["one"]


async def test_a_silent_server_costs_one_deadline_and_its_connections(proxy: FaultProxy, held: LeaseClaims) -> None:
    """After a call without an answer nothing is sent on the old connections again: they are likely as dead."""
    await asyncio.gather(*(held.sessions() for _ in range(5)))
    old = {request.connection for request in proxy.requests}
    proxy.trouble(Hang(), "PATCH")
    began = time.monotonic()
    assert isinstance(await held.renew("one"), SessionRecord)
    assert REQUEST_SECONDS <= time.monotonic() - began < CALL_SECONDS
    await asyncio.gather(*(held.sessions() for _ in range(5)))
    first, second = proxy.sent("PATCH")
    assert second.connection not in old
    later = {request.connection for request in proxy.requests if request.at_seconds > first.at_seconds}
    assert not later & old


async def test_a_server_that_never_answers_is_told_within_the_deadline(proxy: FaultProxy, held: LeaseClaims) -> None:
    """Each call ends by itself, and says that its outcome is unknown."""
    proxy.trouble(Hang(), "PATCH", times=1000)
    began = time.monotonic()
    with pytest.raises(UnknownOutcomeError, match=r"session 'one': not settled"):
        await held.renew("one")
    assert time.monotonic() - began < CALL_SECONDS + 2


async def test_a_server_that_is_not_there_has_done_nothing(tmp_path: Path) -> None:
    """A connection that is refused is told as unavailable, for a write too."""
    api = await open_kube_api(kubeconfig=kubeconfig_for("http://127.0.0.1:1", tmp_path))
    with pytest.raises(UnavailableError, match="can't be reached") as raised:
        await api.delete(LEASES, "default", "nothing")
    assert not isinstance(raised.value, UnknownOutcomeError)
    await api.aclose()


async def test_404_that_is_not_about_the_object_kills_no_session(proxy: FaultProxy, held: LeaseClaims) -> None:
    """A balancer's page, or an API server that is not all there yet, says nothing about a session."""
    proxy.trouble(Refuse(404, body="404 page not found"), "PATCH", times=1000)
    with pytest.raises(UnavailableError, match="no such part of the API"):
        await held.renew("one")
    proxy.clear()
    assert isinstance(await held.renew("one"), SessionRecord)


async def test_401_and_a_page_that_is_no_json_are_told(proxy: FaultProxy, held: LeaseClaims) -> None:
    """A client that is not known is told so at once; a proxy's page is not taken for an answer."""
    proxy.trouble(Refuse(401, body="Unauthorized"), "PATCH")
    with pytest.raises(KubeRefusedError, match=r"does not know this client \(401\)") as raised:
        await held.renew("one")
    assert raised.value.status == 401
    proxy.trouble(Refuse(200, body="<html>please log in</html>"), "GET", times=1000)
    with pytest.raises(UnavailableError, match="no JSON object"):
        await held.sessions()


async def test_a_field_that_the_server_does_not_accept_is_named(api: KubeApi, store: LeaseStore) -> None:
    """422: nothing was recorded, and the text has the server's own words."""
    lease = records.session_lease(store.place(), "s", "r", 30.0, 0)
    lease["spec"]["leaseDurationSeconds"] = 0
    with pytest.raises(KubeRefusedError, match=r"create leases.*leaseDurationSeconds.*greater than 0") as raised:
        await api.create(LEASES, store.namespace, lease)
    assert raised.value.status == 422


async def test_what_exists_already_what_changed_and_what_is_not_there(api: KubeApi, store: LeaseStore) -> None:
    """409 of both kinds and 404, as the server itself says them."""
    lease = records.session_lease(store.place(), "s", "r", 30.0, 0)
    name = lease["metadata"]["name"]
    made = await api.create(LEASES, store.namespace, lease)
    with pytest.raises(KubeConflictError, match=name) as raised:
        await api.create(LEASES, store.namespace, lease)
    assert raised.value.stands == "AlreadyExists"
    await api.patch(LEASES, store.namespace, name, {"metadata": {"annotations": {"a": "b"}}})
    with pytest.raises(KubeConflictError) as raised:
        await api.replace(LEASES, store.namespace, name, made)
    assert raised.value.stands == "Conflict"
    with pytest.raises(KubeConflictError):
        await api.delete(LEASES, store.namespace, name, uid="another")
    with pytest.raises(KubeConflictError):
        await api.delete(LEASES, store.namespace, name, resource_version=made["metadata"]["resourceVersion"])
    await api.delete(LEASES, store.namespace, name)
    for action in (api.get, api.delete):
        with pytest.raises(KubeNotFoundError, match=name):
            await action(LEASES, store.namespace, name)
    nowhere = replace(store.place(), namespace="turnkeeper-nowhere")
    with pytest.raises(KubeNotFoundError, match="namespaces"):
        await api.create(LEASES, nowhere.namespace, records.session_lease(nowhere, "s", "r", 30.0, 0))
    with pytest.raises(UnavailableError, match="Is the namespace gone"):
        await LeaseClaims(api, nowhere, MachineClock(), deadline_seconds=CALL_SECONDS).open_session("s", "r", 30.0)
    with pytest.raises(UnavailableError, match="definition installed"):
        await api.list(Resource("nowhere.example", "v1", "things"), store.namespace)

"""Lists, watches and applied objects, as a real API server has them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.contract.stores import LeaseStore
from tests.kube.fault_proxy import FaultProxy, Hang, Mute, Refuse, Reset
from turnkeeper.adapters.kube import api as kube_api
from turnkeeper.adapters.kube import lease_records as records
from turnkeeper.adapters.kube.api import KubeApi, open_kube_api
from turnkeeper.adapters.kube.resources import LEASES
from turnkeeper.adapters.prometheus import PrometheusObserver
from turnkeeper.core.values import Claim
from turnkeeper.errors import KubeGoneError, KubeNotFoundError, UnavailableError

GONE = Refuse(410, body='{"kind": "Status", "reason": "Expired", "message": "The provided continue is too old"}')


async def make_sessions(api: KubeApi, store: LeaseStore, *names: str) -> None:
    """Open sessions."""
    for name in names:
        await api.create(LEASES, store.namespace, records.session_lease(store.place(), name, "r", 30.0, 0))


def names_in(items: tuple[dict[str, Any], ...]) -> list[str]:
    """Return the sessions that are listed, in order of id."""
    return sorted(item["metadata"]["annotations"][records.SESSION] for item in items)


async def test_a_list_has_all_its_pages_and_only_what_it_selects(
    api: KubeApi, proxy: FaultProxy, troubled_api: KubeApi, store: LeaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many pages it takes, and although one was too old by the time it was asked for."""
    monkeypatch.setattr(kube_api, "PAGE_OBJECTS", 2)
    await make_sessions(api, store, "a", "b", "c", "d", "e")
    lease = records.claim_lease(store.place(), "t", Claim(session="s", token=1, nonce="n"), 0, runner="r", seen=None)
    await api.create(LEASES, store.namespace, lease)
    proxy.trouble(GONE, "GET", "continue=")
    found = await troubled_api.list(LEASES, store.namespace, records.selector(store.place(), "session"))
    assert names_in(found.items) == ["a", "b", "c", "d", "e"]
    assert len(proxy.sent("GET", "limit=2")) == 2 + 3  # the first page and the one that was too old; then all three
    everywhere = await api.list(LEASES, None, records.selector(store.place(), "session"))
    here = tuple(item for item in everywhere.items if item["metadata"]["namespace"] == store.namespace)
    assert names_in(here) == ["a", "b", "c", "d", "e"]


async def test_a_list_whose_pages_are_always_too_old_ends(
    api: KubeApi, proxy: FaultProxy, troubled_api: KubeApi, store: LeaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told as unavailable, not repeated for ever."""
    monkeypatch.setattr(kube_api, "PAGE_OBJECTS", 1)
    await make_sessions(api, store, "a", "b")
    proxy.trouble(GONE, "GET", "continue=", times=1000)
    with pytest.raises(UnavailableError, match="too old"):
        await troubled_api.list(LEASES, store.namespace)


async def test_a_watch_tells_of_what_happens_after_a_list(api: KubeApi, store: LeaseStore) -> None:
    """What was made, changed and deleted since, in that order; and from where it was left it goes on."""
    await make_sessions(api, store, "before")
    start = (await api.list(LEASES, store.namespace)).resource_version
    await make_sessions(api, store, "a")
    name = records.session_name(store.place(), "a")
    patch = records.renewal_patch(store.place(), "a", "1", 0)
    changed = await api.patch(LEASES, store.namespace, name, patch)
    await api.delete(LEASES, store.namespace, name)
    assert await events(api, store, start, 3) == ["ADDED", "MODIFIED", "DELETED"]
    assert await events(api, store, changed["metadata"]["resourceVersion"], 1) == ["DELETED"]


async def events(api: KubeApi, store: LeaseStore, version: str, count: int, quiet_seconds: float = 60.0) -> list[str]:
    """Return the first events from a version on."""
    found: list[str] = []
    watching = api.watch(LEASES, store.namespace, version, quiet_seconds=quiet_seconds)
    async with asyncio.timeout(30), aclosing(watching) as watch:
        async for kind, item in watch:
            assert item["kind"] == "Lease"
            if kind != "BOOKMARK":
                found.append(kind)
            if len(found) == count:
                break
    return found


async def test_a_watch_ends_in_time_and_without_an_error(
    api: KubeApi, store: LeaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server was asked to end it, so that a watch that is silent for longer is known to be dead."""
    monkeypatch.setattr(kube_api, "WATCH_SECONDS", 1)
    start = (await api.list(LEASES, store.namespace)).resource_version
    async with asyncio.timeout(30):
        assert [kind async for kind, _ in api.watch(LEASES, store.namespace, start) if kind != "BOOKMARK"] == []


EXPIRED = '{"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 1 (9)"}'


@pytest.mark.parametrize(
    "told", [Refuse(410, body=EXPIRED), Refuse(200, body=f'{{"type": "ERROR", "object": {EXPIRED}}}')]
)
async def test_a_watch_from_what_is_not_kept_any_more_is_told_as_gone(
    proxy: FaultProxy, troubled_api: KubeApi, store: LeaseStore, told: Refuse
) -> None:
    """As an answer or as an event, its caller has to list afresh."""
    proxy.trouble(told, "GET", "watch=true")
    with pytest.raises(KubeGoneError, match=r"too old.*list afresh"):
        await events(troubled_api, store, "1", 1)


async def test_a_watch_that_breaks_or_talks_nonsense_is_told_as_unavailable(
    proxy: FaultProxy, troubled_api: KubeApi, store: LeaseStore
) -> None:
    """Its caller tries again from where it was."""
    for trouble in (Reset(), Refuse(200, body="{}"), Refuse(200, body="<html>"), Refuse(500), Refuse(429)):
        proxy.trouble(trouble, "GET", "watch=true")
        with pytest.raises(UnavailableError, match="watch leases"):
            await events(troubled_api, store, "1", 1)


async def test_a_watch_whose_server_went_silent_is_told(
    proxy: FaultProxy, troubled_api: KubeApi, store: LeaseStore
) -> None:
    """Neither before its first line nor after it does anybody wait for ever."""
    start = (await troubled_api.list(LEASES, store.namespace)).resource_version
    proxy.trouble(Hang(), "GET", "watch=true")
    with pytest.raises(UnavailableError, match="silent"):
        await events(troubled_api, store, start, 1)
    proxy.trouble(Mute(), "GET", "watch=true")
    with pytest.raises(UnavailableError, match="silent"):
        await events(troubled_api, store, start, 1, quiet_seconds=1.0)


async def test_what_is_applied_is_true_afterwards_and_again_changes_nothing(api: KubeApi, store: LeaseStore) -> None:
    """Server-side apply takes fields over from another's hand, and writes nothing when nothing differs."""
    name = "applied"
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {"holderIdentity": "me"},
    }
    made = await api.apply(LEASES, store.namespace, name, body, field_manager="turnkeeper-test")
    again = await api.apply(LEASES, store.namespace, name, body, field_manager="turnkeeper-test")
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    await api.patch(LEASES, store.namespace, name, {"spec": {"holderIdentity": "another"}})
    mended = await api.apply(LEASES, store.namespace, name, body, field_manager="turnkeeper-test")
    assert mended["spec"]["holderIdentity"] == "me"


async def test_each_call_is_counted_with_its_verdict(kubeconfig: Path, store: LeaseStore) -> None:
    """Metrics see what was asked and how it ended: a right that is missing shows, and so does a server in trouble."""
    observer = PrometheusObserver()
    api = await open_kube_api(kubeconfig=kubeconfig, on_called=observer.kube_called)
    await make_sessions(api, store, "a", "b")
    with suppress(KubeNotFoundError):
        await api.get(LEASES, store.namespace, "nothing")
    await api.aclose()
    counts = [line for line in observer.render().decode().splitlines() if "kube_call_seconds_count" in line]
    assert sorted(counts) == [
        'turnkeeper_kube_call_seconds_count{verb="create",verdict="Done"} 2.0',
        'turnkeeper_kube_call_seconds_count{verb="get",verdict="KubeNotFoundError"} 1.0',
    ]

"""A hand edits the Leases with kubectl, in mid-turn (S11): nothing freezes, and no token comes back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.play import expect
from tests.contract.stores import LeaseStore
from turnkeeper.adapters.kube import lease_records as records
from turnkeeper.adapters.kube.api import KubeApi
from turnkeeper.adapters.kube.lease_claims import LeaseClaims
from turnkeeper.adapters.kube.lease_records import Owner, Place
from turnkeeper.adapters.kube.resources import LEASES
from turnkeeper.adapters.machine_clock import MachineClock
from turnkeeper.core.claim import Busy, Claimed, SessionGone, SessionRecord
from turnkeeper.core.values import Claim
from turnkeeper.ports import Claims


class FrozenClock(MachineClock):
    """A wall clock that stands at a whole second; the rest goes on."""

    def wall_ms(self) -> int:
        """Return that second."""
        return 1_767_225_600_000


@pytest.fixture
async def claims(store: LeaseStore) -> Claims:
    """The sessions one and two are open."""
    made = await store.claims()
    await made.open_session("one", "runner-1", 30.0)
    await made.open_session("two", "runner-2", 30.0)
    return made


async def edit(api: KubeApi, store: LeaseStore, name: str, patch: dict[str, Any]) -> None:
    """Do what kubectl edit does."""
    await api.patch(LEASES, store.namespace, name, patch)


NOTES = [records.SESSION, records.RUNNER, records.DURATION, records.RENEWAL]

SESSION_EDITS: list[dict[str, Any]] = [
    {"spec": {"holderIdentity": "somebody"}},
    {"spec": {"holderIdentity": None}},
    {"spec": {"holderIdentity": "x" * 5000}},
    {"spec": {"leaseDurationSeconds": None}},
    {"spec": {"leaseDurationSeconds": 2147483647}},
    {"spec": {"renewTime": None}},
    {"spec": {"renewTime": "2099-01-01T00:00:00.000000Z"}},
    {"spec": None},
    {"metadata": {"annotations": dict.fromkeys(NOTES)}},
    {"metadata": {"labels": None}},
]


@pytest.mark.parametrize("patch", SESSION_EDITS, ids=repr)
async def test_an_edited_session_lives_on_at_its_next_renewal(
    api: KubeApi, store: LeaseStore, claims: Claims, patch: dict[str, Any]
) -> None:
    """It is listed, is renewed, has a duration that an observer can count to, and can be declared dead."""
    await edit(api, store, records.session_name(store.place(), "one"), patch)
    renewed = expect(await claims.renew("one"), SessionRecord)
    (record,) = [record for record in await claims.sessions() if record.session == "one"]
    assert record == renewed
    assert record.duration_seconds == 30.0
    assert isinstance(await claims.claim("t", "one", "n", 0), Claimed)
    assert await claims.declare_dead(record)
    assert await claims.renew("one") == SessionGone()


async def test_a_clock_that_stands_still_renews_all_the_same(store: LeaseStore) -> None:
    """At microsecond nought, and although the time that is written is the one that stands there."""
    claims = LeaseClaims(await store.api(), store.place(), FrozenClock(), deadline_seconds=10.0)
    versions = {(await claims.open_session("s", "r", 30.0)).version}
    for _ in range(3):
        versions.add(expect(await claims.renew("s"), SessionRecord).version)
    assert len(versions) == 4


CLAIM_EDITS: list[tuple[dict[str, Any], str]] = [
    ({"spec": {"holderIdentity": "two"}}, "two"),
    ({"spec": {"holderIdentity": ""}}, ""),
    ({"spec": {"holderIdentity": None}}, ""),
    ({"spec": {"holderIdentity": "x" * 5000}}, ""),
    ({"spec": {"leaseTransitions": 0}}, "one"),
    ({"spec": {"leaseTransitions": 2147483647}}, "one"),
    ({"spec": None}, ""),
    ({"metadata": {"annotations": {records.THREAD: "another thread"}}}, ""),
    ({"metadata": {"annotations": {records.TOKEN: "9" * 40}}}, "one"),
    ({"metadata": {"annotations": None}}, ""),
    ({"metadata": {"labels": None}}, "one"),
]


@pytest.mark.parametrize(("patch", "holder"), CLAIM_EDITS, ids=repr)
async def test_an_edited_claim_is_whose_it_says_and_freezes_nothing(
    api: KubeApi, store: LeaseStore, claims: Claims, patch: dict[str, Any], holder: str
) -> None:
    """Who it names as holder keeps others off while it lives; nobody else does; the token is above the journal's."""
    await claims.claim("t", "one", "n", 6)
    await edit(api, store, records.claim_name(store.place(), "t"), patch)
    await claims.open_session("three", "runner-3", 30.0)
    verdict = await claims.claim("t", "three", "m", 7)
    if holder:
        assert verdict == Busy(holder)
        await claims.close_session(holder)
        verdict = await claims.claim("t", "three", "m", 7)
    taken = expect(verdict, Claimed).claim
    assert (taken.session, taken.token > 7) == ("three", True)
    assert taken.token < 2**53
    await claims.release("t", taken)
    assert await store.claim_of("t") is None


async def test_a_claim_that_something_keeps_from_being_deleted_holds_nobody_off(
    api: KubeApi, store: LeaseStore, claims: Claims
) -> None:
    """A finalizer of somebody else's keeps it there after its deletion: the next claimant ends that."""
    await claims.claim("t", "one", "n", 6)
    name = records.claim_name(store.place(), "t")
    await edit(api, store, name, {"metadata": {"finalizers": ["example.com/kept"]}})
    await api.delete(LEASES, store.namespace, name)
    taken = expect(await claims.claim("t", "two", "m", 0), Claimed).claim
    assert taken.token > 7
    assert await store.claim_of("t") == taken
    assert await claims.claim("t", "one", "n", 7) == Busy("two")


async def test_a_session_that_something_keeps_from_being_deleted_is_gone(
    api: KubeApi, store: LeaseStore, claims: Claims
) -> None:
    """Deleted is gone, whether the object still stands there or not."""
    name = records.session_name(store.place(), "one")
    await edit(api, store, name, {"metadata": {"finalizers": ["example.com/kept"]}})
    await api.delete(LEASES, store.namespace, name)
    assert [record.session for record in await claims.sessions()] == ["two"]
    assert await claims.renew("one") == SessionGone()
    assert await claims.claim("t", "one", "n", 0) == SessionGone()


async def test_leases_show_who_runs_what_and_whose_they_are(api: KubeApi, store: LeaseStore) -> None:
    """A session names its runner and is its pod's; a claim names its session and token and is the Workspace's."""
    pod = Owner(api_version="v1", kind="Pod", name="runner-0", uid="uid-of-pod")
    workspace = Owner(api_version="turnkeeper.dev/v1alpha1", kind="Workspace", name="desk", uid="uid-of-desk")
    place = Place(namespace=store.namespace, workspace="desk", uid="uid-of-desk", workspace_owner=workspace, pod=pod)
    claims = LeaseClaims(api, place, MachineClock(), deadline_seconds=10.0)
    await claims.open_session("one", "runner-0", 30.0)
    await claims.claim("alice/1", "one", "n", 41)
    session = await api.get(LEASES, store.namespace, records.session_name(place, "one"))
    claim = await api.get(LEASES, store.namespace, records.claim_name(place, "alice/1"))
    assert (session["spec"]["holderIdentity"], session["spec"]["leaseDurationSeconds"]) == ("runner-0", 30)
    assert (claim["spec"]["holderIdentity"], claim["spec"]["leaseTransitions"]) == ("one", 42)
    assert claim["metadata"]["annotations"][records.THREAD] == "alice/1"
    assert claim["metadata"]["annotations"][records.RUNNER] == "runner-0"
    owners = [lease["metadata"]["ownerReferences"] for lease in (session, claim)]
    assert [[(owner["kind"], owner["uid"]) for owner in each] for each in owners] == [
        [("Pod", "uid-of-pod")],
        [("Workspace", "uid-of-desk")],
    ]
    listed = await api.list(LEASES, store.namespace, records.selector(place, "claim"))
    assert [records.claim_from("alice/1", lease) for lease in listed.items] == [
        Claim(session="one", token=42, nonce="n")
    ]


async def test_a_claim_that_was_raised_elsewhere_is_released_as_it_stands(store: LeaseStore, claims: Claims) -> None:
    """What a client remembers of its claim is not what stands there: it reads, and removes what it was asked to."""
    held = expect(await claims.claim("t", "one", "n", 4), Claimed).claim
    elsewhere = await store.claims()
    raised = expect(await elsewhere.claim("t", "one", "n", 8), Claimed).claim
    await claims.release("t", held)
    assert await store.claim_of("t") == raised
    expect(await claims.claim("u", "one", "n", 4), Claimed)
    raised = expect(await elsewhere.claim("u", "one", "n", 8), Claimed).claim
    await claims.release("u", raised)
    assert await store.claim_of("u") is None

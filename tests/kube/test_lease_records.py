"""Sessions and claims as Lease objects, without a cluster."""

from __future__ import annotations

import re
from typing import Any

import pytest

from turnkeeper.adapters.kube import lease_records as records
from turnkeeper.adapters.kube.lease_records import Owner, Place
from turnkeeper.core.claim import SessionRecord
from turnkeeper.core.values import Claim

PLACE = Place(namespace="n", workspace="desk", uid="1234")
STORED = {"uid": "u-1", "resourceVersion": "77"}


def stored(lease: dict[str, Any], **meta: str) -> dict[str, Any]:
    """Return a Lease as the server would show it."""
    return {**lease, "metadata": {**lease["metadata"], **STORED, **meta}}


@pytest.mark.parametrize("wall_ms", [0, 1, 999, 1_000, 1_767_225_599_999, 1_767_225_600_000])
def test_a_time_has_exactly_six_digits_and_a_z(wall_ms: int) -> None:
    """A time without a fraction has its six noughts: the API server refuses any other form."""
    text = records.micro_time(wall_ms)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", text)
    assert text.endswith(f".{wall_ms % 1000:03d}000Z")


@pytest.mark.parametrize("duration", [0.05, 0.4, 12.5, 30.0, 600.0])
def test_a_session_is_read_as_it_was_written(duration: float) -> None:
    """The field holds whole seconds; the record holds what was meant."""
    lease = stored(records.session_lease(PLACE, "s", "runner-1", duration, 5))
    assert lease["spec"]["leaseDurationSeconds"] >= max(1, duration)
    assert records.session_from(PLACE, lease) == SessionRecord(
        session="s", runner="runner-1", version="u-1/77", duration_seconds=duration
    )


@pytest.mark.parametrize("token", [0, 1, 2**31 - 1, 2**31, 10**12, 2**53])
def test_a_claim_is_read_as_it_was_written(token: int) -> None:
    """A token that is too great for the field is kept all the same."""
    claim = Claim(session="s", token=token, nonce="n")
    lease = stored(records.claim_lease(PLACE, "a/b", claim, 5, runner="r", seen=None))
    assert 0 <= lease["spec"]["leaseTransitions"] <= 2**31 - 1
    assert records.claim_from("a/b", lease) == claim


def test_a_claim_replaces_only_what_was_read() -> None:
    """The version and uid that were seen go with the write, and nothing else of what stood there."""
    old = stored(records.claim_lease(PLACE, "t", Claim(session="s", token=1, nonce="n"), 5, runner="r", seen=None))
    new = records.claim_lease(PLACE, "t", Claim(session="z", token=2, nonce="m"), 6, runner="q", seen=old)
    assert {key: new["metadata"][key] for key in STORED} == STORED
    assert records.claim_from("t", new) == Claim(session="z", token=2, nonce="m")


def test_names_are_of_one_workspace_and_one_id() -> None:
    """Ids that look alike, and workspaces made again under an old name, have Leases of their own."""
    again = Place(namespace="n", workspace="desk", uid="5678")
    ids = ["a", "A", "a ", "é", "e\u0301", "a/b", "x" * 512]
    names = {records.claim_name(place, thread) for place in (PLACE, again) for thread in ids}
    names |= {records.session_name(place, "a") for place in (PLACE, again)}
    assert len(names) == 2 * len(ids) + 2
    assert all(re.fullmatch(r"[a-z][a-z0-9-]{1,62}", name) for name in names)


def test_owners_take_their_leases_along() -> None:
    """A session is the pod's, a claim the Workspace's; without such an object a Lease has no owner."""
    pod = Owner(api_version="v1", kind="Pod", name="runner-0", uid="p")
    workspace = Owner(api_version="turnkeeper.dev/v1alpha1", kind="Workspace", name="desk", uid="1234")
    place = Place(namespace="n", workspace="desk", uid="1234", workspace_owner=workspace, pod=pod)
    session = records.session_lease(place, "s", "runner-0", 30.0, 5)
    claim = records.claim_lease(place, "t", Claim(session="s", token=1, nonce="n"), 5, runner="r", seen=None)
    assert session["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "runner-0", "uid": "p"}
    ]
    assert [owner["kind"] for owner in claim["metadata"]["ownerReferences"]] == ["Workspace"]
    assert "ownerReferences" not in records.session_lease(PLACE, "s", "r", 30.0, 5)["metadata"]


@pytest.mark.parametrize("field", [None, 0, -1, "often", 2**31 - 1])
@pytest.mark.parametrize("noted", [None, "", "nan", "inf", "-3", "0", "12.5"])
def test_a_duration_that_can_not_be_is_not_believed(noted: str | None, field: object) -> None:
    """What a hand wrote there yields a number of seconds that an observer can count to."""
    lease = stored(records.session_lease(PLACE, "s", "r", 30.0, 5))
    lease["spec"]["leaseDurationSeconds"] = field
    lease["metadata"]["annotations"] |= {records.DURATION: noted}
    record = records.session_from(PLACE, lease)
    assert record is not None
    expected = 12.5 if noted == "12.5" else float(2**31 - 1) if field == 2**31 - 1 else records.DURATION_SECONDS
    assert record.duration_seconds == expected


@pytest.mark.parametrize("noted", [None, "", "-1", "9" * 30, "seven", str(2**53 + 1)])
@pytest.mark.parametrize(("field", "token"), [(None, 0), (-4, 0), (6, 6), ("6", 0)])
def test_a_token_that_can_not_be_is_not_counted(noted: str | None, field: object, token: int) -> None:
    """A hand's number must not become the next token: the journal's column would end below it."""
    lease = stored(records.claim_lease(PLACE, "t", Claim(session="s", token=5, nonce="n"), 5, runner="r", seen=None))
    lease["spec"]["leaseTransitions"] = field
    lease["metadata"]["annotations"] |= {records.TOKEN: noted}
    assert records.claim_from("t", lease) == Claim(session="s", token=token, nonce="n")


def test_a_lease_that_is_being_deleted_holds_nothing() -> None:
    """Something may keep it for a while; its session is gone, its claim is nobody's, and its token still counts."""
    session = stored(records.session_lease(PLACE, "s", "r", 30.0, 5), deletionTimestamp="2026-01-01T00:00:00Z")
    claimed = records.claim_lease(PLACE, "t", Claim(session="s", token=5, nonce="n"), 5, runner="r", seen=None)
    assert records.session_from(PLACE, session) is None
    assert records.claim_from("t", stored(claimed, deletionTimestamp="2026-01-01T00:00:00Z")) == Claim(
        session="", token=5, nonce=""
    )


def test_a_lease_of_another_thread_or_session_is_not_taken_for_ones_own() -> None:
    """The id that stands in it is what counts, not the name under which it was found."""
    claimed = stored(records.claim_lease(PLACE, "t", Claim(session="s", token=5, nonce="n"), 5, runner="r", seen=None))
    assert records.claim_from("u", claimed) == Claim(session="", token=5, nonce="")
    session = stored(records.session_lease(PLACE, "s", "r", 30.0, 5))
    session["metadata"]["annotations"][records.SESSION] = "z"
    assert records.session_from(PLACE, session) is None
    other = Place(namespace="n", workspace="desk", uid="5678")
    assert records.session_from(other, stored(records.session_lease(PLACE, "s", "r", 30.0, 5))) is None

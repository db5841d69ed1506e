"""A write whose answer was lost: what is one's own is adopted, what is another's is left alone. Nothing is doubled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.contract.stores import LeaseStore
from tests.kube.fault_proxy import FaultProxy, Hang, Lose, Refuse, Reset, Trouble
from turnkeeper.adapters.kube import lease_records as records
from turnkeeper.adapters.kube.api import KubeApi
from turnkeeper.adapters.kube.lease_claims import LeaseClaims
from turnkeeper.adapters.kube.resources import LEASES
from turnkeeper.core.claim import Busy, Claimed, SessionGone, SessionRecord
from turnkeeper.core.values import Claim
from turnkeeper.errors import UnavailableError, UnknownOutcomeError
from turnkeeper.ports import Claims

LOST: list[Trouble] = [Lose(), Hang(done=True), Reset(), Refuse(500), Refuse(504, body="no gateway")]
"""Of some the server did the write and of some it did not; who asked can't tell which."""

BRIEF: list[Trouble] = [trouble for trouble in LOST if not isinstance(trouble, Hang)]


@pytest.fixture
async def other(store: LeaseStore) -> Claims:
    """Another process, whose way is clear; the sessions one and two are open."""
    made = await store.claims()
    await made.open_session("one", "runner-1", 30.0)
    await made.open_session("two", "runner-2", 30.0)
    return made


@pytest.mark.parametrize("trouble", LOST, ids=repr)
async def test_a_claim_whose_answer_was_lost_is_adopted(
    store: LeaseStore, proxy: FaultProxy, troubled: LeaseClaims, other: Claims, trouble: Trouble
) -> None:
    """The claim is there once, with the token that a first try has."""
    proxy.trouble(trouble, "POST")
    assert await troubled.claim("t", "one", "n", 4) == Claimed(Claim(session="one", token=5, nonce="n"))
    assert proxy.met == 1
    assert await store.claim_of("t") == Claim(session="one", token=5, nonce="n")
    assert await other.claim("t", "two", "m", 4) == Busy("one")


@pytest.mark.parametrize("trouble", LOST, ids=repr)
async def test_a_takeover_whose_answer_was_lost_has_one_token(
    store: LeaseStore, proxy: FaultProxy, troubled: LeaseClaims, other: Claims, trouble: Trouble
) -> None:
    """The claimant that meets itself in the conflict takes that for its own doing, not for a rival's."""
    await other.claim("t", "two", "m", 6)
    await other.close_session("two")
    proxy.trouble(trouble, "PUT")
    assert await troubled.claim("t", "one", "n", 0) == Claimed(Claim(session="one", token=8, nonce="n"))
    assert proxy.met == 1
    assert await store.claim_of("t") == Claim(session="one", token=8, nonce="n")


async def test_a_claim_that_was_lost_to_another_is_told_as_busy(
    proxy: FaultProxy, troubled: LeaseClaims, other: Claims
) -> None:
    """The request never reached the server, and another came first: no second claim is made of it."""

    async def another_comes() -> None:
        await other.claim("t", "two", "m", 0)

    proxy.trouble(Lose(another_comes), "GET", "tk-claim")
    assert await troubled.claim("t", "one", "n", 0) == Busy("two")


@pytest.mark.parametrize("trouble", LOST, ids=repr)
async def test_a_release_whose_answer_was_lost_frees_the_thread(
    store: LeaseStore, proxy: FaultProxy, troubled: LeaseClaims, other: Claims, trouble: Trouble
) -> None:
    """The thread is free in the end, and asking again harms nobody."""
    held = (await other.claim("t", "one", "n", 0)).claim  # type: ignore[union-attr]  # nobody else is there
    proxy.trouble(trouble, "DELETE")
    await troubled.release("t", held)
    assert proxy.met == 1
    assert await store.claim_of("t") is None


async def test_a_release_that_is_repeated_never_removes_anothers_claim(
    store: LeaseStore, proxy: FaultProxy, troubled: LeaseClaims, other: Claims
) -> None:
    """The answer was lost, and before it is asked again the next holder has claimed the thread."""
    held = (await other.claim("t", "one", "n", 0)).claim  # type: ignore[union-attr]  # nobody else is there

    async def another_comes() -> None:
        assert isinstance(await other.claim("t", "two", "m", 1), Claimed)

    proxy.trouble(Lose(another_comes), "DELETE")
    await troubled.release("t", held)
    assert await store.claim_of("t") == Claim(session="two", token=2, nonce="m")


@pytest.mark.parametrize("trouble", LOST, ids=repr)
async def test_a_session_whose_opening_was_lost_is_opened_once(
    proxy: FaultProxy, troubled: LeaseClaims, other: Claims, trouble: Trouble
) -> None:
    """It is there as it was meant."""
    proxy.trouble(trouble, "POST")
    record = await troubled.open_session("three", "runner-3", 12.5)
    assert proxy.met == 1
    assert record == SessionRecord(session="three", runner="runner-3", version=record.version, duration_seconds=12.5)
    assert {known.session for known in await other.sessions()} == {"one", "two", "three"}


@pytest.mark.parametrize("trouble", LOST, ids=repr)
async def test_a_renewal_whose_answer_was_lost_is_a_renewal(
    proxy: FaultProxy, troubled: LeaseClaims, other: Claims, trouble: Trouble
) -> None:
    """An observer sees a new version, and so does the holder."""
    before = {record.session: record.version for record in await other.sessions()}
    proxy.trouble(trouble, "PATCH")
    renewed = await troubled.renew("one")
    assert proxy.met == 1
    after = {record.session: record.version for record in await other.sessions()}
    assert isinstance(renewed, SessionRecord)
    assert renewed.version == after["one"] != before["one"]
    assert after["two"] == before["two"]


async def test_a_session_that_died_while_its_renewal_was_lost_stays_gone(
    proxy: FaultProxy, troubled: LeaseClaims, other: Claims
) -> None:
    """The next try does not revive it."""

    async def declared_dead() -> None:
        (record,) = [record for record in await other.sessions() if record.session == "one"]
        assert await other.declare_dead(record)

    proxy.trouble(Lose(declared_dead), "PATCH")
    assert await troubled.renew("one") == SessionGone()


@pytest.mark.parametrize("trouble", LOST, ids=repr)
async def test_a_death_whose_answer_was_lost_is_ones_own_doing(
    proxy: FaultProxy, troubled: LeaseClaims, other: Claims, trouble: Trouble
) -> None:
    """Whether the first try did it or the second: it was this observer that did."""
    (record,) = [record for record in await other.sessions() if record.session == "one"]
    proxy.trouble(trouble, "DELETE")
    assert await troubled.declare_dead(record)
    assert proxy.met == 1
    assert await other.renew("one") == SessionGone()


async def test_a_death_that_was_not_heard_spares_a_session_that_is_renewed(
    proxy: FaultProxy, troubled: LeaseClaims, other: Claims
) -> None:
    """The request never reached the server; the session was renewed; the second try finds another version."""
    (record,) = [record for record in await other.sessions() if record.session == "one"]
    proxy.trouble(Reset(lambda: other.renew("one")), "DELETE")
    assert not await troubled.declare_dead(record)
    assert isinstance(await other.renew("one"), SessionRecord)


@pytest.mark.usefixtures("other")
@pytest.mark.parametrize("trouble", BRIEF, ids=repr)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_write_that_is_never_answered_is_told_as_unknown(
    store: LeaseStore, proxy: FaultProxy, troubled: LeaseClaims, troubled_api: KubeApi, method: str, trouble: Trouble
) -> None:
    """It may have been done, and nobody is told that it was not."""
    proxy.trouble(trouble, method, times=1000)
    name = records.session_name(store.place(), "two")
    lease = await troubled_api.get(LEASES, store.namespace, name)
    writes: dict[str, Callable[[], Awaitable[object]]] = {
        "POST": lambda: troubled.open_session("four", "r", 30.0),
        "PUT": lambda: troubled_api.replace(LEASES, store.namespace, name, lease),
        "PATCH": lambda: troubled.renew("two"),
        "DELETE": lambda: troubled.close_session("two"),
    }
    if method == "POST" and isinstance(trouble, Lose):  # what the server did do is read, and adopted
        assert (await troubled.open_session("four", "r", 30.0)).session == "four"
        return
    with pytest.raises(UnknownOutcomeError, match=r"may or may not|API server failed"):
        await writes[method]()


async def test_a_read_that_is_never_answered_is_told_as_unavailable(
    proxy: FaultProxy, troubled: LeaseClaims, troubled_api: KubeApi, store: LeaseStore
) -> None:
    """Nothing can have been recorded, and the text says what could not be read."""
    proxy.trouble(Reset(), "GET", times=1000)
    with pytest.raises(UnavailableError, match=r"list leases\.coordination\.k8s\.io in namespace") as raised:
        await troubled_api.list(LEASES, store.namespace)
    assert not isinstance(raised.value, UnknownOutcomeError)
    with pytest.raises(UnavailableError):
        await troubled.sessions()

"""What is told of sessions by a watch, on an API server that the watch reaches badly: nothing that ended is missed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from tests.contract.stores import LeaseStore
from tests.kube.fault_proxy import FaultProxy, Hang, Mute, Refuse, Reset, Trouble
from tests.soak.waiting import pause, until, until_true
from turnkeeper.adapters.kube import lease_records as records
from turnkeeper.adapters.kube.api import KubeApi
from turnkeeper.adapters.kube.lease_roster import QUIET_PART, LeaseRoster
from turnkeeper.adapters.kube.resources import LEASES
from turnkeeper.adapters.kube.watching import Followed, Follower, Patience
from turnkeeper.adapters.machine_clock import MachineClock
from turnkeeper.errors import UnavailableError
from turnkeeper.runner.presence import Presence

TTL_SECONDS = 6.0
QUIET_SECONDS = TTL_SECONDS * QUIET_PART

EXPIRED = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 1 (9)"}
GONE = Refuse(410, body=json.dumps(EXPIRED))
GONE_LATER = Refuse(200, body=json.dumps({"type": "ERROR", "object": EXPIRED}))

LISTED, WATCHED = "limit=", "watch=true"


@pytest.fixture
async def roster(troubled_api: KubeApi, store: LeaseStore) -> AsyncIterator[LeaseRoster]:
    """What an observer behind the proxy is told."""
    made = LeaseRoster(troubled_api, store.place(), claim_ttl_seconds=TTL_SECONDS, deadline_seconds=TTL_SECONDS)
    async with made:
        yield made


async def told(roster: LeaseRoster) -> set[str]:
    """The sessions that exist, as the observer was told."""
    with suppress(UnavailableError):
        return {record.session for record in await roster.sessions()}
    return set()


async def until_told(roster: LeaseRoster, *sessions: str) -> None:
    """Wait until just these are told."""

    async def is_told() -> bool:
        return await told(roster) == set(sessions)

    await until(is_told, f"the sessions {sessions} and no others are told")


async def test_what_comes_and_goes_is_told_without_a_read_for_it(
    roster: LeaseRoster, store: LeaseStore, proxy: FaultProxy
) -> None:
    """One list and one watch, however often it is asked; a renewal has a new version and wakes nobody."""
    claims = await store.claims()
    await claims.open_session("one", "runner", TTL_SECONDS, "10.0.0.1:7000")
    await until_told(roster, "one")
    (before,) = await roster.sessions()
    assert before == await claims.session("one")
    await claims.open_session("two", "runner", TTL_SECONDS)
    await until_told(roster, "one", "two")
    await roster.changed(0.0)
    await claims.renew("one")

    async def is_newer() -> bool:
        return before not in await roster.sessions()

    await until(is_newer, "the renewal is told")
    assert not roster._has_changed.is_set()
    assert await claims.declare_dead((await roster.sessions())[0])
    await roster.changed(30.0)
    await until_told(roster, "two")
    assert (len(proxy.sent("GET", LISTED)), len(proxy.sent("GET", WATCHED))) == (1, 1)


async def test_a_session_that_a_hand_hides_or_marks_is_told_as_the_claims_see_it(
    roster: LeaseRoster, store: LeaseStore
) -> None:
    """Another workspace's is none; one whose id a hand took away is none until it is renewed."""
    claims, others = await store.claims(), await store.claims("another")
    await claims.open_session("one", "runner", TTL_SECONDS)
    await others.open_session("other", "runner", TTL_SECONDS)
    await until_told(roster, "one")
    api, name = await store.api(), records.session_name(store.place(), "one")
    await api.patch(LEASES, store.namespace, name, {"metadata": {"annotations": {records.SESSION: None}}})
    await until_told(roster)
    await claims.renew("one")
    await until_told(roster, "one")


async def test_a_watch_that_ended_for_good_is_not_missed(
    roster: LeaseRoster, store: LeaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nobody thought of is raised to whoever asks, whose loop ends by it, which the probe of liveness sees."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    await until_told(roster)
    monkeypatch.setattr(records, "session_from", fail)
    with suppress(ZeroDivisionError):  # the store's own answer is read by the same function
        await (await store.claims()).open_session("one", "runner", TTL_SECONDS)
    await until_true(lambda: roster._following is not None and roster._following.done(), "the following has ended")
    with pytest.raises(ZeroDivisionError):
        await roster.sessions()


TROUBLES: list[Trouble] = [
    GONE,
    GONE_LATER,
    Refuse(200),
    Refuse(401),
    Refuse(403),
    Refuse(429, {"Retry-After": "1"}),
    Refuse(500),
    Reset(),
    Hang(),
    Mute(),
]


@pytest.mark.slow
@pytest.mark.parametrize("trouble", TROUBLES, ids=repr)
async def test_no_end_is_missed_while_the_watch_fails(
    roster: LeaseRoster, store: LeaseStore, proxy: FaultProxy, trouble: Trouble
) -> None:
    """Whatever the watch meets: what ended is told by lists, of which there are few; then by the watch again."""
    claims = await store.claims()
    proxy.trouble(trouble, "GET", WATCHED, times=100_000)
    await claims.open_session("early", "runner", TTL_SECONDS)
    await until_told(roster, "early")
    await claims.open_session("late", "runner", TTL_SECONDS)
    await until_told(roster, "early", "late")
    await claims.close_session("early")
    await until_told(roster, "late")
    began, lists = MachineClock().monotonic(), len(proxy.sent("GET", LISTED))
    await pause(TTL_SECONDS)
    seconds = MachineClock().monotonic() - began
    assert proxy.met
    assert len(proxy.sent("GET", LISTED)) - lists <= 4 + seconds / (TTL_SECONDS / 12)  # half of the longest pause
    proxy.clear()
    await until_watched(proxy)
    await claims.close_session("late")
    await until_told(roster)


async def until_watched(proxy: FaultProxy) -> None:
    """Wait until a watch was let through, which is the case once one has lasted."""
    clock = MachineClock()

    async def is_watched() -> bool:
        return clock.monotonic() - proxy.sent("GET")[-1].at_seconds > TTL_SECONDS / 4

    await until(is_watched, "the watch lasts")


@pytest.mark.slow
async def test_a_watch_that_lies_still_is_given_up_for_a_list(
    roster: LeaseRoster, store: LeaseStore, proxy: FaultProxy
) -> None:
    """The socket says nothing and the server says nothing: an end meanwhile is told within half a ttl or so."""
    claims = await store.claims()
    proxy.trouble(Mute(), "GET", WATCHED)
    await claims.open_session("one", "runner", TTL_SECONDS)
    await until_told(roster, "one")
    await claims.close_session("one")
    began = MachineClock().monotonic()
    await until_told(roster)
    assert MachineClock().monotonic() - began < QUIET_SECONDS + TTL_SECONDS / 2
    assert proxy.met == 1


async def test_all_is_listed_once_in_a_while_whatever_the_watch_says(
    troubled_api: KubeApi, store: LeaseStore, proxy: FaultProxy
) -> None:
    """A watch that should have told of an end, and whose silence is nothing strange, hides it no longer."""
    claims, there = await store.claims(), set[str]()
    followed = Followed(
        LEASES,
        store.namespace,
        records.selector(store.place(), "session"),
        lambda lease: there.add(lease["metadata"]["name"]),
        lambda lease: there.discard(lease["metadata"]["name"]),
    )
    proxy.trouble(Mute(), "GET", WATCHED, times=100_000)
    following = asyncio.create_task(Follower(troubled_api, followed, Patience(relist_seconds=1.0)).run())
    await claims.open_session("one", "runner", TTL_SECONDS)
    await until_true(lambda: there == {records.session_name(store.place(), "one")}, "it is told")
    await claims.close_session("one")
    await until_true(lambda: not there, "it is told as gone")
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


@pytest.mark.slow
async def test_an_observer_that_hears_nothing_says_so_and_counts_anew(
    roster: LeaseRoster, store: LeaseStore, proxy: FaultProxy
) -> None:
    """Nobody is declared dead from a view that is old: after the outage a whole ttl is watched first."""
    claims, gone = await store.claims(), list[str]()

    async def note(session: str) -> None:
        gone.append(session)

    await claims.open_session("one", "runner", TTL_SECONDS)
    presence = Presence(claims, MachineClock(), TTL_SECONDS, note, roster=roster)
    await until_told(roster, "one")
    await presence.poll()
    proxy.trouble(Refuse(500), "GET", "", times=100_000)
    proxy.cut_watches()

    async def is_deaf() -> bool:
        with suppress(UnavailableError):
            await presence.poll()
            return False
        return True

    await until(is_deaf, "it says that it hears nothing")
    with pytest.raises(UnavailableError, match="500"):
        await roster.sessions()
    await pause(TTL_SECONDS)
    proxy.clear()
    await until_told(roster, "one")
    heard = MachineClock().monotonic()

    async def is_gone() -> bool:
        with suppress(UnavailableError):
            await presence.poll()
        return gone == ["one"]

    await until(is_gone, "it is declared dead")
    assert MachineClock().monotonic() - heard > TTL_SECONDS * 0.9
    assert await claims.session("one") is None

"""A runner's session and its observer, in real time, on an API server that renewals reach badly (S04).

The holder keeps its session through what is shorter than its duration, and has stopped by then through what is longer;
the observer, whose way is clear, declares it dead no sooner than that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.contract.stores import LeaseStore
from tests.kube.fault_proxy import Delay, FaultProxy, Hang, Refuse, Trouble, kubeconfig_for
from tests.soak.waiting import pause, until_true
from turnkeeper.adapters.kube.api import open_kube_api
from turnkeeper.adapters.kube.lease_claims import LeaseClaims
from turnkeeper.adapters.machine_clock import MachineClock
from turnkeeper.adapters.prometheus import PrometheusObserver
from turnkeeper.ports import Claims
from turnkeeper.runner.options import RunnerOptions
from turnkeeper.runner.presence import Presence
from turnkeeper.runner.renewal_thread import RenewalThread
from turnkeeper.runner.session import SessionKeeper

pytestmark = pytest.mark.slow

TTL_SECONDS = 9.0
"""Long enough that a third is above every hiccup of a busy machine."""

CALL_SECONDS = TTL_SECONDS / 6
REQUEST_SECONDS = CALL_SECONDS / 2

CLOCK = MachineClock()


@dataclass
class Pair:
    """A holder behind the proxy, and an observer beside it; what each has told of, with the time of this process."""

    proxy: FaultProxy
    keeper: SessionKeeper
    presence: Presence
    lost: dict[str, float] = field(default_factory=dict)
    gone: dict[str, float] = field(default_factory=dict)

    async def renewed(self) -> None:
        """Return when the next renewal has been let through."""
        count = len(self.proxy.sent("PATCH"))
        await until_true(lambda: len(self.proxy.sent("PATCH")) > count, "a renewal")
        await pause(TTL_SECONDS / 30)  # for its answer

    async def watch(self, seconds: float) -> None:
        """Let the observer poll for so long, as it does in a runner."""
        ends = CLOCK.monotonic() + seconds
        while CLOCK.monotonic() < ends:
            await self.presence.poll()
            await pause(TTL_SECONDS / 30)


@pytest.fixture
async def pair(store: LeaseStore, proxy: FaultProxy, tmp_path: Path) -> AsyncIterator[Pair]:
    """A holder and an observer that has seen it."""
    file = kubeconfig_for(proxy.url, tmp_path)

    async def connect() -> tuple[Claims, Callable[[], Awaitable[None]]]:
        api = await open_kube_api(deadline_seconds=REQUEST_SECONDS, kubeconfig=file)
        return LeaseClaims(api, store.place(), CLOCK, deadline_seconds=CALL_SECONDS), api.aclose

    lost: dict[str, float] = {}
    gone: dict[str, float] = {}

    async def on_gone(session: str) -> None:
        gone[session] = CLOCK.monotonic()

    def on_lost(session: str) -> None:
        lost[session] = CLOCK.monotonic()

    claims, close = await connect()
    keeper = SessionKeeper(
        claims=claims,
        clock=CLOCK,
        options=RunnerOptions(runner="runner-1", claim_ttl_seconds=TTL_SECONDS),
        observer=PrometheusObserver(),
        host=RenewalThread(connect),
        peers=None,
        on_lost=on_lost,
        on_opened=lambda: None,
    )
    presence = Presence(await store.claims(), CLOCK, TTL_SECONDS, on_gone)
    await keeper.start()
    await presence.poll()
    yield Pair(proxy, keeper, presence, lost, gone)
    await keeper.aclose()
    await close()


SHORT: list[tuple[Trouble, int, float]] = [
    (Hang(), 1, 0.5),  # the open connection alone is dead, without a word
    (Refuse(429, {"Retry-After": "2"}), 1000, 0.6),
    (Refuse(500), 1000, 0.5),
    (Delay(REQUEST_SECONDS * 0.6), 1000, 2.0),
]
"""Trouble, how many renewals meet it, and for how many ttls."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("trouble", "times", "ttls"), SHORT, ids=repr)
async def test_trouble_that_is_shorter_than_a_session_costs_nothing(
    pair: Pair, trouble: Trouble, times: int, ttls: float
) -> None:
    """Nobody takes over, and the session is the one it was."""
    session = pair.keeper.session
    await pair.renewed()
    pair.proxy.trouble(trouble, "PATCH", times=times)
    await pair.watch(ttls * TTL_SECONDS)
    pair.proxy.clear()
    await pair.watch(1.5 * TTL_SECONDS)
    assert pair.proxy.met
    assert (pair.lost, pair.gone) == ({}, {})
    assert pair.keeper.session == session
    assert pair.keeper.is_held


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "trouble", [Refuse(429, {"Retry-After": "2"}), Refuse(500), Refuse(403), Hang(), Delay(TTL_SECONDS)], ids=repr
)
async def test_trouble_that_is_longer_than_a_session_ends_it_once(pair: Pair, trouble: Trouble) -> None:
    """The holder has stopped before anybody may say that it is dead; a new session comes when the trouble is over."""
    session = pair.keeper.session
    await pair.renewed()
    renewal = pair.proxy.sent("PATCH")[-1].at_seconds
    for method in ("PATCH", "POST"):
        pair.proxy.trouble(trouble, method, times=100_000)
    await pair.watch(2.0 * TTL_SECONDS)
    assert session in pair.lost
    assert session in pair.gone
    assert pair.lost[session] <= renewal + TTL_SECONDS * 4 / 3  # a third for a machine that is busy
    assert pair.lost[session] <= pair.gone[session]
    assert len(pair.proxy.sent("PATCH")) + len(pair.proxy.sent("POST")) < 400  # tried, and not in a hot loop
    pair.proxy.clear()
    await until_true(lambda: pair.keeper.session, "a new session")
    assert pair.keeper.session != session
    await pair.watch(TTL_SECONDS)
    assert set(pair.gone) == {session}

"""Deaths that a peer notices, and notices that are wrong."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict

import pytest

from tests.runner.world import TTL, World, echo
from turnkeeper.core.claim import SessionRecord
from turnkeeper.core.values import Json
from turnkeeper.core.words import Outcome
from turnkeeper.errors import UnavailableError
from turnkeeper.ports import Turn

pytestmark = pytest.mark.looptime


class ToldPeers:
    """Peers that notice what the test says."""

    address = "somewhere"

    def __init__(self) -> None:
        self._gone: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def present(self, session: str) -> None:
        """Every session of a test is heard of by the store."""

    async def until_gone(self, record: SessionRecord) -> None:
        """Return once the test said so."""
        await self._gone[record.session].wait()

    def say_gone(self, session: str) -> None:
        """Let whoever watches the session notice."""
        self._gone[session].set()


async def forever(turn: Turn) -> None:
    """Never end by itself."""
    del turn
    await asyncio.Event().wait()


async def test_a_noticed_death_is_taken_over_long_before_its_ttl(world: World) -> None:
    """Both what it ran and what waited behind it; and of two that notice, one declares it dead."""
    peers = ToldPeers()
    holder = await world.start(forever, peers=peers)
    others = [await world.start(echo, peers=peers, sweep_interval_seconds=None) for _ in range(2)]
    await world.send(holder, "t", "first")
    await world.send(others[0], "t", "second")
    await asyncio.sleep(2 * TTL / 30)  # each has seen each by then
    session = holder.runner._keeper.session
    await holder.kill()
    peers.say_gone(session)
    assert await world.idle("t") < 1.0
    assert world.outcomes("t")[:2] == [Outcome.ABANDONED, Outcome.COMPLETED]
    await asyncio.sleep(1.0)
    assert others[0].observer.notices + others[1].observer.notices == Counter(declared=1, known=1)


async def test_a_wrong_notice_costs_a_run_its_claim_and_nothing_else(world: World) -> None:
    """The holder lives: it begins a new life, and each message is consumed once all the same."""
    peers = ToldPeers()
    first = True

    async def slow_once(turn: Turn) -> Json:
        nonlocal first
        if first:
            first = False
            await asyncio.Event().wait()
        return [message.content for message in turn.prompts]

    holder = await world.start(slow_once, peers=peers)
    await world.start(echo, peers=peers)
    await world.send(holder, "t", "hello")
    await asyncio.sleep(2 * TTL / 30)
    old = holder.runner._keeper.session
    peers.say_gone(old)
    assert await world.idle("t") < TTL
    assert world.answers("t") == [["hello"]]
    await world.until(lambda: holder.runner._keeper.session not in ("", old))
    await world.send(holder, "u", "again")
    await world.idle("u")
    assert world.answers("u") == [["again"]]


@pytest.mark.parametrize("failures", [2, 1_000])
async def test_a_notice_that_cannot_be_written_is_tried_again_and_then_left_to_the_timer(
    world: World, failures: int
) -> None:
    """The claim store is away for a while, or for long: nothing is stranded."""
    peers = ToldPeers()
    holder = await world.start(forever, peers=peers)
    other = await world.start(echo, peers=peers)
    await world.send(holder, "t", "hello")
    await asyncio.sleep(2 * TTL / 30)
    session = holder.runner._keeper.session
    declare, left = other.claims.declare_dead, failures

    async def failing(record: SessionRecord) -> bool:
        nonlocal left
        left -= 1
        if left >= 0 and asyncio.get_running_loop().time() < began + TTL / 2:
            raise UnavailableError("the claim store is away")
        return await declare(record)

    other.claims.declare_dead = failing  # type: ignore[method-assign] # the store, seen from this process
    began = asyncio.get_running_loop().time()
    await holder.kill()
    peers.say_gone(session)
    elapsed = await world.idle("t")
    assert elapsed < 2.0 if failures == 2 else TTL / 2 < elapsed <= TTL + 2.0
    assert world.outcomes("t") == [Outcome.ABANDONED, Outcome.COMPLETED]


async def test_who_is_not_there_any_more_is_watched_no_longer(world: World) -> None:
    """A session that ended in good order leaves no connection behind."""
    peers = ToldPeers()
    leaving = await world.start(echo, peers=peers)
    staying = await world.start(echo, peers=peers)
    await asyncio.sleep(2 * TTL / 30)
    watch = staying.runner._peer_watch
    assert watch is not None
    assert list(watch._links) == [leaving.runner._keeper.session]
    await leaving.runner.aclose()
    await asyncio.sleep(2 * TTL / 30)
    assert not list(watch._links)

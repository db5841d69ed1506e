"""What a runner makes of being told which sessions exist, where the telling is late or wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.runner.test_takeover import forever
from tests.runner.world import TTL, LoopClock, World, echo
from turnkeeper.adapters.memory import MemoryClaims
from turnkeeper.core.claim import SessionRecord
from turnkeeper.errors import UnavailableError
from turnkeeper.runner.presence import Presence

pytestmark = pytest.mark.looptime


class ToldRoster:
    """Tells what the test says, when it says it."""

    def __init__(self) -> None:
        self.told: list[SessionRecord] = []
        self.is_deaf = False
        self.has_changed = asyncio.Event()

    async def sessions(self) -> Sequence[SessionRecord]:
        if self.is_deaf:
            raise UnavailableError("nothing was heard")
        return list(self.told)

    async def changed(self, timeout_seconds: float) -> None:
        waiting = asyncio.ensure_future(self.has_changed.wait())
        await asyncio.wait((waiting,), timeout=timeout_seconds)
        waiting.cancel()
        self.has_changed.clear()


class Watcher:
    """A presence on a roster, what it told, and how often it tried to declare somebody dead."""

    def __init__(self, world: World) -> None:
        self.claims = MemoryClaims("w", world.store)
        self.roster = ToldRoster()
        self.gone: list[str] = []
        self.declared = 0
        declare = self.claims.declare_dead

        async def counted(record: SessionRecord) -> bool:
            self.declared += 1
            return await declare(record)

        async def note(session: str) -> None:
            self.gone.append(session)

        self.claims.declare_dead = counted  # type: ignore[method-assign] # the store's own, counted
        self.presence = Presence(self.claims, LoopClock(), TTL, note, roster=self.roster)


async def test_an_end_that_is_told_counts_at_once_and_not_at_the_next_poll(world: World) -> None:
    """And nobody is declared dead for it."""
    watcher = Watcher(world)
    watcher.roster.told = [await watcher.claims.open_session("s", "somebody", TTL)]
    watching = asyncio.create_task(watcher.presence.run())
    await asyncio.sleep(TTL / 30 * 2.5)
    watcher.roster.told = []
    watcher.roster.has_changed.set()
    await asyncio.sleep(0.001)
    watching.cancel()
    assert (watcher.gone, watcher.declared) == (["s"], 0)


@pytest.mark.parametrize("is_noticed", [False, True])
async def test_gone_is_gone_although_the_roster_tells_of_it_for_a_while_yet(world: World, *, is_noticed: bool) -> None:
    """Whether it lapsed here or a peer noticed: it is told once, and does not exist from then on."""
    watcher = Watcher(world)
    record = await watcher.claims.open_session("s", "somebody", TTL)
    watcher.roster.told = [record]
    watching = asyncio.create_task(watcher.presence.run())
    await asyncio.sleep(1.0)
    if is_noticed:
        await watcher.claims.declare_dead(record)
        await watcher.presence.noticed("s")
    await world.until(lambda: watcher.gone == ["s"])
    assert not watcher.presence.exists("s")
    await asyncio.sleep(2 * TTL)
    assert not watcher.presence.exists("s")
    assert (watcher.gone, watcher.declared) == (["s"], 1)
    watcher.roster.told = []
    await asyncio.sleep(TTL / 10)
    assert watcher.presence._gone == set()
    watching.cancel()


async def test_a_roster_that_lags_costs_one_try_in_a_ttl(world: World) -> None:
    """What it tells looks dead and was renewed: the deletion does nothing, and is not tried at each poll."""
    watcher = Watcher(world)
    watcher.roster.told = [await watcher.claims.open_session("s", "somebody", TTL)]
    await watcher.claims.renew("s")
    watching = asyncio.create_task(watcher.presence.run())
    await asyncio.sleep(4.5 * TTL)
    watching.cancel()
    assert watcher.gone == []
    assert 3 <= watcher.declared <= 4


async def test_who_heard_nothing_for_a_while_counts_anew(world: World) -> None:
    """An unchanged record proves nothing while nothing was heard."""
    watcher = Watcher(world)
    watcher.roster.told = [await watcher.claims.open_session("s", "somebody", TTL)]
    watching = asyncio.create_task(watcher.presence.run())
    await asyncio.sleep(TTL / 2)
    watcher.roster.is_deaf = True
    await asyncio.sleep(TTL)
    assert watcher.presence.failure == "nothing was heard"
    assert watcher.presence.exists("s")
    watcher.roster.is_deaf = False
    await asyncio.sleep(0.9 * TTL)
    assert watcher.gone == []
    await world.until(lambda: watcher.gone == ["s"], seconds=0.2 * TTL)
    watching.cancel()


async def test_neither_a_sweep_nor_a_refused_message_asks_the_claims_of_a_live_holders_thread(world: World) -> None:
    """The rows name a session that was seen to exist: nothing is read or tried, however many there are."""
    holder = await world.start(forever)
    other = await world.start(echo, sweep_interval_seconds=None)
    for number in range(5):
        await world.send(holder, f"t{number}", "hello")
    await asyncio.sleep(TTL / 10)
    asked: list[str] = []
    for name in ("sessions", "session", "claim", "release"):

        async def refuse(*_: object, name: str = name) -> None:
            asked.append(name)
            raise UnavailableError("not to be asked")

        setattr(other.claims, name, refuse)
    other.runner._presence._roster = ToldRoster()
    other.runner._presence._roster.told = list(world.store.sessions.values())
    recovered = await other.runner.recover()
    for number in range(5):
        assert (await world.send(other, f"t{number}", "more")).outcome == "steered"
    assert (recovered.held, recovered.complete, asked) == (5, True, [])
    assert len(other.runner._looks) == 5


async def test_a_sweep_reads_afresh_what_it_has_not_seen(world: World) -> None:
    """A holder that is too new to have been told of keeps its thread; one that is gone loses it."""
    holder, gone = await world.start(forever), await world.start(forever)
    other = await world.start(echo, sweep_interval_seconds=None)
    await world.send(holder, "held", "hello")
    await world.send(gone, "left", "hello")
    session = gone.runner._keeper.session
    await gone.kill()
    del world.store.sessions[session]
    other.runner._presence._sightings.clear()
    recovered = await other.runner.recover()
    assert (recovered.held, len(recovered.started)) == (1, 1)
    assert world.store.threads["held"].thread.session == holder.runner._keeper.session

"""Turns that kill their runner: charged to themselves, run apart when in doubt, parked, and resolved by a person."""

from __future__ import annotations

import asyncio

import pytest

from tests.runner.world import Process, World, echo
from turnkeeper.core.parking import ParkedAction
from turnkeeper.core.words import Fate, Kind
from turnkeeper.errors import NotFoundError, StandsOtherwiseError
from turnkeeper.ports import Turn

pytestmark = pytest.mark.looptime


class Ward:
    """Starts a new process whenever one has died of its poison, and counts the deaths."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.deaths = 0
        self.died = asyncio.Event()

    async def script(self, turn: Turn) -> object:
        """Die of a message that says so; end slowly otherwise, so that neighbours are there at the death."""
        if turn.prompts[0].content == "poison":
            self.died.set()
            await asyncio.Event().wait()
        await asyncio.sleep(5)
        return "fine"

    async def run(self, process: Process) -> None:
        while True:
            await self.died.wait()
            self.died.clear()
            self.deaths += 1
            await process.kill()
            process = await self.world.start(self.script)  # type: ignore[arg-type] # the answer is JSON


async def test_a_poisonous_turn_is_parked_after_max_attempts_and_its_neighbours_are_not_charged(world: World) -> None:
    """Three deaths in all; what was sent after the poison runs, and so do its neighbours, on their first charge."""
    ward = Ward(world)
    process = await world.start(ward.script)  # type: ignore[arg-type] # the answer is JSON
    for number in range(4):
        await world.send(process, f"n{number}", "harmless")
    watching = asyncio.create_task(ward.run(process))
    await world.send(process, "p", "poison")
    await world.until(lambda: world.store.threads["p"].thread.parked == 1, seconds=3000)
    await world.send(world.processes[-1], "p", "after")
    for thread_id in ("p", "n0", "n1", "n2", "n3"):
        await world.idle(thread_id)
    watching.cancel()
    assert ward.deaths == 3
    assert world.answers("p") == ["fine"]
    for number in range(4):
        assert world.answers(f"n{number}") == ["fine"]
    message = world.store.threads["p"].messages["m0"]
    assert message.fate is Fate.PARKED
    assert "died" in message.reason


async def test_a_poison_alone_is_charged_each_time_and_its_gaps_grow(world: World) -> None:
    """The second attempt starts at once, the third after a gap: no hot loop."""
    ward = Ward(world)
    process = await world.start(ward.script, max_attempts=4)  # type: ignore[arg-type] # the answer is JSON
    watching = asyncio.create_task(ward.run(process))
    await world.send(process, "p", "poison")
    await world.until(lambda: world.store.threads["p"].thread.parked == 1, seconds=3000)
    watching.cancel()
    assert len(world.entries("p", Kind.RUN_STARTED)) == ward.deaths == 3


async def test_a_parked_turn_can_be_tried_again_or_dropped_once(world: World) -> None:
    """Retry runs the same prompts from the first attempt; a second decision is told what stands."""
    ward = Ward(world)
    process = await world.start(ward.script)  # type: ignore[arg-type] # the answer is JSON
    watching = asyncio.create_task(ward.run(process))
    await world.send(process, "p", "poison")
    await world.until(lambda: world.store.threads["p"].thread.parked == 1, seconds=3000)
    watching.cancel()
    alive = world.processes[-1]
    alive.handler.script = echo
    seq = world.entries("p", Kind.TURN_PARKED)[0].seq
    await alive.runner.resolve_parked("p", seq, ParkedAction.RETRY)
    await world.idle("p")
    assert world.answers("p") == [["poison"]]
    assert world.store.threads["p"].messages["m0"].fate is Fate.STARTED
    with pytest.raises(StandsOtherwiseError, match="retry"):
        await alive.runner.resolve_parked("p", seq, ParkedAction.DROP)
    with pytest.raises(NotFoundError):
        await alive.runner.resolve_parked("p", 999, ParkedAction.DROP)

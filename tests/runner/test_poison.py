"""Turns that kill their runner: charged to themselves, run apart when in doubt, parked, and resolved by a person."""

from __future__ import annotations

import asyncio

import pytest

from tests.runner.world import TTL, Process, World, echo
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


async def test_suspects_keep_nobody_waiting_for_long_where_turns_are_long(world: World) -> None:
    """Two deaths in a row under turns of an hour: those that were at both are run again, and newcomers are too."""

    async def script(turn: Turn) -> object:
        await asyncio.sleep(3600 if turn.prompts[0].content == "long" else 1)
        return "fine"

    def have_begun(attempts: int) -> bool:
        return all(len(world.entries(thread_id, Kind.RUN_STARTED)) == attempts for thread_id in "abc")

    processes = [await world.start(script) for _ in range(3)]  # type: ignore[arg-type] # the answer is JSON
    for thread_id in "abc":
        await world.send(processes[0], thread_id, "long")
    await world.until(lambda: have_begun(1))
    for process in processes[1:]:  # all three go on in one runner
        process.runner._taker.is_taking = process is processes[1]
    await processes[0].kill()
    await world.until(lambda: have_begun(2), seconds=2 * TTL)
    processes[2].runner._taker.is_taking = True
    await world.send(processes[2], "neighbour", "long")
    await processes[1].kill()
    await world.until(lambda: have_begun(3), seconds=5 * TTL)
    for number in range(10):
        await world.send(processes[2], f"new{number}", "short")
        await world.until(lambda number=number: world.answers(f"new{number}") == ["fine"], seconds=2 * TTL)  # type: ignore[misc] # bound at once


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

"""A claim of a session that is gone does not stay behind once its thread owes nothing."""

import asyncio

import pytest

from tests.scenarios.harness import World, send
from tests.soak.waiting import until
from turnkeeper.core.values import Json
from turnkeeper.core.words import Kind
from turnkeeper.ports import Turn

pytestmark = pytest.mark.timeout(60)


async def for_ever(turn: Turn) -> Json:
    """Last until the process is gone."""
    await asyncio.Event().wait()
    return turn.attempt


async def _until_no_claim(world: World) -> None:
    async def is_free() -> bool:
        return not await world.claimed()

    await until(is_free, "no claim stands", seconds=5)


async def test_no_claim_is_left_when_the_dead_ones_turn_is_parked(world: World) -> None:
    """1. A holder dies of its turn, for the last time. 2. Its taker parks the turn, and nothing else is owed."""
    first = await world.start(for_ever, max_attempts=1)
    await send(first, "thread", "go")
    await world.until_kind("thread", Kind.RUN_STARTED)
    await first.kill()
    await world.start(for_ever, max_attempts=1)
    await world.until_kind("thread", Kind.TURN_PARKED)
    await _until_no_claim(world)


async def test_no_claim_is_left_when_the_dead_ones_turn_was_stopped(world: World) -> None:
    """1. A holder dies. 2. Somebody stops its turn. 3. Its taker ends the run, and nothing else is owed."""
    first, second = await world.start(for_ever), await world.start(for_ever, sweep_interval_seconds=None)
    await send(first, "thread", "go")
    (begun,) = await world.until_kind("thread", Kind.RUN_STARTED)
    await first.kill(noticed=False)
    await second.runner.stop(begun.run_id)
    await world.until_kind("thread", Kind.RUN_ENDED)
    await _until_no_claim(world)

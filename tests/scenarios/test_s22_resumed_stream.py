"""S22: resuming a stream from wherever it was cut. What HTTP makes of an unfit position is in `tests/api`."""

import asyncio
import random

import pytest

from tests.scenarios.harness import Life, World, send
from turnkeeper.core.values import Entry, Json
from turnkeeper.core.words import Kind
from turnkeeper.ports import Turn

pytestmark = pytest.mark.timeout(180)

EVENTS = 300


async def tell_much(turn: Turn) -> Json:
    """Write many events; the first attempt never ends."""
    for number in range(EVENTS):
        await turn.emit(number)
    if turn.attempt == 1 and turn.prompts[0].content == "die":
        await asyncio.Event().wait()
    return "done"


async def _follow(lives: list[Life], thread_id: str, rng: random.Random) -> list[Entry]:
    """Read a thread to its end, cut after a few frames each time, twice in a row, by way of one runner and another."""
    seen: list[Entry] = []
    after, is_over = 0, False
    while not is_over:
        life = rng.choice([life for life in lives if not life.died.is_set()])
        stream, left = life.runner.watch(thread_id, after, follow=False), rng.choice([0, 0, 1, 2, 7, 50])
        is_over = True
        async for entry in stream:
            if left == 0:
                is_over = False
                break
            if entry is not None:
                seen.append(entry)
                after = entry.seq
                left -= 1
        await stream.aclose()  # type: ignore[attr-defined]  # it is a generator
    return seen


async def test_the_pieces_of_a_stream_are_the_log(world: World) -> None:
    """Cut anywhere, resumed at either runner, while the turn runs: nothing is missing and nothing comes twice."""
    lives = [await world.start(tell_much) for _ in range(2)]
    await send(lives[0], "thread", "go")
    pieces = await asyncio.gather(*(_follow(lives, "thread", random.Random(seed)) for seed in range(5)))
    log = await world.entries("thread")
    assert all(piece == log for piece in pieces)
    assert len(log) == EVENTS + 3
    await world.settled()
    await world.check()


async def test_a_stream_goes_on_through_a_takeover(world: World) -> None:
    """The holder dies, another takes the thread over: a reader elsewhere sees both runs as one log."""
    holder, other = await world.start(tell_much), await world.start(tell_much)
    await send(holder, "thread", "die")
    reading = asyncio.create_task(_follow([other], "thread", random.Random(7)))
    await world.until_kind("thread", Kind.EVENT, EVENTS)
    await holder.kill()
    async with asyncio.timeout(120):
        seen = await reading
    log = await world.entries("thread")
    assert seen == log
    assert [entry.kind for entry in log].count(Kind.RUN_STARTED) == 2
    await world.settled()
    await world.check()


async def test_a_finished_thread_has_nothing_more_to_tell(world: World) -> None:
    """From its end on, and from beyond it, the stream ends at once and yields no entry of before."""
    life = await world.start()
    await send(life, "thread", "go")
    await world.settled()
    last = len(await world.entries("thread"))
    async with asyncio.timeout(60):
        for after in (last, last + 1, 2**53 - 1):
            assert [entry async for entry in life.runner.watch("thread", after, follow=False)] == []
        assert [entry.seq async for entry in life.runner.watch("thread", last - 1, follow=False) if entry] == [last]
        assert [entry async for entry in life.runner.watch("another", 0, follow=False)] == []

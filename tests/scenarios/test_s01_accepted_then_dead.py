"""S01: accepted, then the process dies before the first trace of the turn."""

import asyncio

import pytest

from tests.scenarios.harness import Life, World, send, send_to_any
from tests.soak.waiting import until
from turnkeeper.core.values import Json
from turnkeeper.core.words import Fate, Kind, Outcome
from turnkeeper.errors import StandsOtherwiseError
from turnkeeper.ports import Turn

THREADS = [f"thread-{number}" for number in range(20)]

IN_ONE_STEP = [
    "before:accept",  # which takes, too
    "after:accept",
    "after:take",
    "before:append",
    "after:append",
    "before:end",
    "after:end",
]
IN_TWO_STEPS = ["before:start", "after:start", "before:release", "after:release"]
"""Where the claims are not in the journal's database, between the claim, the start, the end and the release."""


async def say_and_answer(turn: Turn) -> Json:
    """Write one event, and answer."""
    await turn.emit("begun")
    return [message.content for message in turn.prompts]


async def _die(world: World, point: str, *, two_step: bool, noticed: bool = True) -> tuple[Life, Life]:
    """Send one message to each thread by way of a runner that dies at the point; return two that come after it.

    They start once it is dead: nobody else may take a thread before it has come to its point.
    """
    dying = await world.start(say_and_answer, two_step=two_step, max_attempts=10)
    dying.dies_at(point)
    sending = [asyncio.create_task(send_to_any([dying], thread, "first")) for thread in THREADS]
    async with asyncio.timeout(60):
        await dying.died.wait()
        await asyncio.wait(sending)
    await dying.kill(noticed=noticed)
    first, second = [await world.start(say_and_answer, two_step=two_step, max_attempts=10) for _ in range(2)]
    for thread, sent in zip(THREADS, sending, strict=True):
        if sent.exception() is not None:
            await send(first, thread, "first")
    return first, second


@pytest.mark.parametrize(
    ("point", "two_step"), [(p, False) for p in IN_ONE_STEP] + [(p, True) for p in (*IN_TWO_STEPS, "after:accept")]
)
async def test_what_was_accepted_is_taken_wherever_its_runner_dies(world: World, point: str, *, two_step: bool) -> None:
    """Every 202 leads to one turn, and a second message runs after the first."""
    living, other = await _die(world, point, two_step=two_step)
    for thread in THREADS[::2]:
        await send(living, thread, "second")
    for thread in THREADS[1::2]:
        await send(other, thread, "second")
    await world.settled()
    for dump in await world.check():
        assert [message.fate in {Fate.STARTED, Fate.STEERED} for message in dump.messages] == [True, True]
        assert [message.message_id for message in dump.messages] == ["first", "second"]
        assert max(run.attempt for run in dump.runs) <= 3


@pytest.mark.parametrize("point", ["after:take", "after:append", "before:end"])
async def test_a_stop_of_a_dead_holders_turn_takes_effect(world: World, point: str) -> None:
    """It is not only accepted: the run ends stopped, is not tried again, and what was sent behind it runs."""
    living, other = await _die(world, point, two_step=False, noticed=False)  # the stop comes before the takeover
    stopped = []
    for thread in THREADS:
        begun = await world.entries(thread, Kind.RUN_STARTED)
        if not begun:
            continue
        try:
            await other.runner.stop(begun[-1].run_id)
        except StandsOtherwiseError:
            continue
        stopped.append(thread)
        await send(living, thread, "second")
    assert stopped
    await world.settled()
    await world.check()
    for thread in stopped:
        assert Outcome.STOPPED in await world.outcomes(thread)
        assert (await world.outcomes(thread))[-1] == Outcome.COMPLETED
        assert (await world.fate(thread, "second")).fate is Fate.STARTED


async def test_no_message_is_answered_before_it_is_durable(world: World) -> None:
    """Whenever a sender hears that a message was accepted, it stands in the journal already."""
    life = await world.start()
    for number in range(20):
        await send(life, "thread", number)
        assert (await world.fate("thread", str(number))).seq > 0
    await world.settled()
    await world.check()


async def test_only_the_next_life_is_left_to_take_it(world: World) -> None:
    """A runner that dies alone: its own next life finds the thread, though nobody asks for it again."""
    alone = await world.start(say_and_answer)
    alone.dies_at("after:append")
    sent = await send(alone, "thread", "first")
    await alone.died.wait()
    await alone.kill(noticed=False)
    await world.start(say_and_answer)
    await world.settled()
    await world.check()
    assert await world.outcomes("thread") == [Outcome.ABANDONED, Outcome.COMPLETED]

    async def is_taken() -> bool:
        return (await world.fate("thread", sent.message.message_id)).fate is Fate.STARTED

    await until(is_taken, "the message has its fate")

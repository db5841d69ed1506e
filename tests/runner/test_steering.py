"""Messages to a running thread: offered, used or not used, and always in order."""

from __future__ import annotations

import asyncio

import pytest

from tests.runner.world import World
from turnkeeper.core.words import Fate, Mode
from turnkeeper.ports import Turn

pytestmark = pytest.mark.looptime


async def test_steering_reaches_the_run_in_progress_and_is_consumed_by_it(world: World) -> None:
    """A message to a running thread is offered to its run; what the handler took and completed with is steered."""

    async def script(turn: Turn) -> object:
        steer = await turn.next_steer()
        return [turn.prompts[0].content, steer.content]

    process = await world.start(script)  # type: ignore[arg-type] # the answer is JSON
    await world.send(process, "t", "a")
    steered = await world.send(process, "t", "b")
    await world.idle("t")
    assert steered.outcome == "steered"
    assert world.answers("t") == [["a", "b"]]
    assert world.store.threads["t"].messages["m1"].fate is Fate.STEERED


async def test_steering_that_was_not_used_starts_the_next_turn(world: World) -> None:
    """Neither both nor neither: what the run did not take is the next turn's prompt, in order."""
    gate = asyncio.Event()

    async def script(turn: Turn) -> object:
        if turn.prompts[0].content == "a":
            await gate.wait()
        return [message.content for message in turn.prompts]

    process = await world.start(script)  # type: ignore[arg-type] # the answer is JSON
    await world.send(process, "t", "a")
    await world.send(process, "t", "b")
    await world.send(process, "t", "c")
    gate.set()
    await world.idle("t")
    assert world.answers("t") == [["a"], ["b", "c"]]
    assert {m.fate for m in world.store.threads["t"].messages.values()} == {Fate.STARTED}


async def test_handed_out_steering_of_a_failed_run_is_given_again(world: World) -> None:
    """A step that fails must not drop what was drained for it; only what the handler said it used is consumed."""

    async def script(turn: Turn) -> object:
        if turn.prompts[0].content != "a":
            return [message.content for message in turn.prompts]
        turn.use(await turn.next_steer())
        await turn.next_steer()
        raise ValueError("the step broke")

    process = await world.start(script)  # type: ignore[arg-type] # the answer is JSON
    for content in ("a", "used", "not used"):
        await world.send(process, "t", content)
    await world.idle("t")
    messages = world.store.threads["t"].messages
    assert world.outcomes("t") == ["failed", "completed"]
    assert (messages["m1"].fate, messages["m2"].fate) == (Fate.STEERED, Fate.STARTED)
    assert world.answers("t") == [["not used"]]


async def test_queued_messages_get_turns_of_their_own_in_order(world: World) -> None:
    """`mode: queue` waits for the run in progress and begins a turn of its own."""
    process = await world.start()
    for content in ("a", "b", "c"):
        await world.send(process, "t", content, Mode.QUEUE)
    await world.idle("t")
    assert world.answers("t") == [["a"], ["b"], ["c"]]


async def test_a_flood_of_steering_is_consumed_once_each_and_in_order(world: World) -> None:
    """More messages than one transaction takes: each is in exactly one run, none twice."""
    everything = 250
    gate = asyncio.Event()
    seen: list[object] = []

    async def script(turn: Turn) -> object:
        seen.extend(message.content for message in turn.prompts)
        if turn.prompts[0].content == 0:
            await gate.wait()
            await asyncio.sleep(10)
        seen.extend(message.content for message in turn.steering())
        return None

    process = await world.start(script)  # type: ignore[arg-type] # the answer is JSON
    for number in range(everything):
        await world.send(process, "t", number)
    gate.set()
    await world.idle("t")
    assert seen == list(range(everything))
    assert Fate.PENDING not in {m.fate for m in world.store.threads["t"].messages.values()}


async def test_a_message_that_wants_its_own_turn_ends_the_steering_before_it(world: World) -> None:
    """What was sent after a queued message is not consumed before it."""
    gate = asyncio.Event()
    turns: list[list[object]] = []

    async def script(turn: Turn) -> object:
        if not turns:
            await gate.wait()
        turns.append([m.content for m in (*turn.prompts, *turn.steering())])
        return None

    process = await world.start(script)  # type: ignore[arg-type] # the answer is JSON
    await world.send(process, "t", "a")
    await world.send(process, "t", "b")
    await world.send(process, "t", "own", Mode.QUEUE)
    await world.send(process, "t", "after")
    await asyncio.sleep(1)
    gate.set()
    await world.idle("t")
    assert turns == [["a", "b"], ["own", "after"]]


async def test_history_holds_the_last_runs_answer_for_a_message_sent_while_it_ran(world: World) -> None:
    """A prompt that was accepted during the run before still sees that run's end."""
    gate = asyncio.Event()
    histories: list[list[object]] = []

    async def script(turn: Turn) -> str:
        histories.append([entry.kind.value for entry in await turn.history()])
        await gate.wait()
        return "done"

    process = await world.start(script)
    await world.send(process, "t", "a")
    await world.send(process, "t", "b")
    gate.set()
    await world.idle("t")
    assert histories == [["message"], ["message", "message", "run_ended"]]

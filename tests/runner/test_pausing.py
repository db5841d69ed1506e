"""Pauses, answers, approvals and stops, on one runner and across two."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from tests.runner.world import World
from turnkeeper.core.words import Ask, Fate, Kind, Mode, Resolution
from turnkeeper.errors import InvalidInputError, NotFoundError, StandsOtherwiseError
from turnkeeper.ports import Asking, Pause, Turn

pytestmark = pytest.mark.looptime

APPROVAL = Asking(text="delete it?", ask=Ask.APPROVAL, detail={"file": "a"}, question_id="delete")
CHOICE = Asking(text="which?", question_id="which")


def asking(*questions: Asking) -> object:
    """Return a script that asks once, and then answers with how its questions were resolved."""

    async def script(turn: Turn) -> object:
        if not turn.questions:
            return Pause(questions)
        return [
            {q.question_id: [q.resolution.value, q.answer, q.detail] for q in turn.questions},
            [message.content for message in turn.prompts],
        ]

    return script


async def test_a_pause_holds_no_claim_and_an_approval_lets_the_turn_go_on(world: World) -> None:
    """The same turn goes on in a new run, with the question as it was asked and resolved."""
    process = await world.start(asking(APPROVAL))  # type: ignore[arg-type] # the answer is JSON
    await world.send(process, "t", "go")
    await world.until(lambda: world.store.threads["t"].thread.open_questions == 1)
    assert world.store.claims == {}
    assert len(process.runner._taker.drives) == 0
    await process.runner.answer("t", "delete", Resolution.APPROVED)
    await world.idle("t")
    assert world.answers("t") == [[{"delete": ["approved", None, {"file": "a"}]}, []]]
    started = world.entries("t", Kind.RUN_STARTED)
    assert started[0].body["turn_id"] == started[1].body["turn_id"]


async def test_chat_never_approves(world: World) -> None:
    """A plain message to a paused thread answers what is free and declines what wants approval; it is the reply."""
    process = await world.start(asking(APPROVAL, CHOICE))  # type: ignore[arg-type] # the answer is JSON
    await world.send(process, "t", "go")
    await world.until(lambda: world.store.threads["t"].thread.open_questions == 2)
    sent = await world.send(process, "t", "yes")
    await world.idle("t")
    assert sent.outcome == "reply"
    resolved = {"delete": ["declined", None, {"file": "a"}], "which": ["answered", "yes", None]}
    assert world.answers("t") == [[resolved, ["yes"]]]
    with pytest.raises(StandsOtherwiseError, match="declined"):
        await process.runner.answer("t", "delete", Resolution.APPROVED)


async def test_a_turn_with_two_questions_goes_on_once_both_are_resolved(world: World) -> None:
    """Each question is resolved by its own id; the wrong form and a wrong id are refused."""
    process = await world.start(asking(APPROVAL, CHOICE))  # type: ignore[arg-type] # the answer is JSON
    await world.send(process, "t", "go")
    await world.until(lambda: world.store.threads["t"].thread.open_questions == 2)
    with pytest.raises(NotFoundError):
        await process.runner.answer("t", "other", Resolution.APPROVED)
    with pytest.raises(InvalidInputError, match="`approved`"):
        await process.runner.answer("t", "delete", Resolution.ANSWERED, "yes")
    await process.runner.answer("t", "which", Resolution.ANSWERED, 7)
    assert len(world.entries("t", Kind.RUN_STARTED)) == 1
    await process.runner.answer("t", "delete", Resolution.DENIED)
    await world.idle("t")
    assert world.answers("t") == [
        [{"delete": ["denied", None, {"file": "a"}], "which": ["answered", 7, None]}, []],
    ]


async def test_a_message_unread_as_its_run_paused_is_the_reply(world: World) -> None:
    """It is not lost behind a question that nobody knows to be open."""
    gate = asyncio.Event()

    async def script(turn: Turn) -> object:
        if not turn.questions:
            await gate.wait()
            return Pause((APPROVAL,))
        return [turn.questions[0].resolution.value, [message.content for message in turn.prompts]]

    process = await world.start(script)  # type: ignore[arg-type] # the answer is JSON
    await world.send(process, "t", "go")
    await world.send(process, "t", "wait", Mode.QUEUE)
    gate.set()
    await world.idle("t")
    assert world.answers("t") == [["declined", ["wait"]]]


async def test_a_question_runs_out_of_time_on_any_runner(world: World) -> None:
    """It expires, and the turn goes on knowing so; whoever comes later is told what stands."""
    timed = Asking(text="?", ask=Ask.APPROVAL, question_id="q", timeout_seconds=60.0)
    process = await world.start(asking(timed))  # type: ignore[arg-type] # the answer is JSON
    other = await world.start(asking(timed))  # type: ignore[arg-type] # the answer is JSON
    await world.send(process, "t", "go")
    await world.until(lambda: world.store.threads["t"].thread.open_questions == 1)
    await process.kill()
    elapsed = await world.idle_after_pause("t")
    assert 60.0 <= elapsed <= 60.0 + 12.0
    with pytest.raises(StandsOtherwiseError, match="expired"):
        await other.runner.answer("t", "q", Resolution.APPROVED)


async def test_stop_from_another_process_ends_the_run_and_the_queue_goes_on(world: World) -> None:
    """The stop is an entry; the holder sees it, cancels the handler, and the run ends `stopped`."""

    async def script(turn: Turn) -> object:
        if turn.prompts[0].content == "long":
            await asyncio.Event().wait()
        return "fine"

    holder = await world.start(script)  # type: ignore[arg-type] # the answer is JSON
    other = await world.start(script)  # type: ignore[arg-type] # the answer is JSON
    sent = await world.send(holder, "t", "long")
    await world.send(holder, "t", "next", Mode.QUEUE)
    stopped = await other.runner.stop(sent.run_id)
    elapsed = await world.idle("t")
    assert stopped.is_running
    assert elapsed < 1.0
    assert world.outcomes("t") == ["stopped", "completed"]
    with pytest.raises(StandsOtherwiseError, match="stopped"):
        await other.runner.stop(sent.run_id)
    with pytest.raises(NotFoundError):
        await other.runner.stop("no-such-run")


async def test_stop_of_a_dead_holders_run_takes_effect(world: World) -> None:
    """It is not only accepted: whoever takes the thread next ends the run `stopped` and does not try it again."""

    async def forever(turn: Turn) -> None:
        del turn
        await asyncio.Event().wait()

    holder = await world.start(forever)
    other = await world.start(forever)
    sent = await world.send(holder, "t", "x")
    await holder.kill()
    await other.runner.stop(sent.run_id)
    await world.idle("t")
    assert world.outcomes("t") == ["stopped"]
    assert len(world.entries("t", Kind.RUN_STARTED)) == 1


async def test_stop_of_a_paused_turn_cancels_its_questions(world: World) -> None:
    """The turn is over, the question says so, and what is sent next begins a new turn."""
    process = await world.start(asking(APPROVAL))  # type: ignore[arg-type] # the answer is JSON
    sent = await world.send(process, "t", "go")
    await world.until(lambda: world.store.threads["t"].thread.open_questions == 1)
    await process.runner.stop(sent.run_id)
    with pytest.raises(StandsOtherwiseError, match="cancelled"):
        await process.runner.answer("t", "delete", Resolution.APPROVED)
    assert world.store.threads["t"].thread.turn is None


STEPS = 5
"""Of the loop, without time: a message passes through its thread's drive to the journal."""


@pytest.mark.parametrize("first", ["approve", "deny", "stop", "message"])
async def test_of_decisions_in_the_same_instant_one_stands_and_the_rest_are_told(world: World, first: str) -> None:
    """Whatever the order, the question is resolved once and the approved thing runs only if that one approved."""
    process = await world.start(asking(APPROVAL))  # type: ignore[arg-type] # the answer is JSON
    other = await world.start(asking(APPROVAL))  # type: ignore[arg-type] # the answer is JSON
    sent = await world.send(process, "t", "go")
    await world.until(lambda: world.store.threads["t"].thread.open_questions == 1)
    calls = {
        "approve": lambda: process.runner.answer("t", "delete", Resolution.APPROVED),
        "deny": lambda: other.runner.answer("t", "delete", Resolution.DENIED),
        "stop": lambda: other.runner.stop(sent.run_id),
        "message": lambda: world.send(process, "t", "yes"),
    }
    leading = asyncio.create_task(calls.pop(first)())  # type: ignore[no-untyped-call] # calls as they stand in the table
    for _ in range(STEPS):
        await asyncio.sleep(0)
    await asyncio.gather(leading, *(call() for call in calls.values()), return_exceptions=True)  # type: ignore[no-untyped-call] # calls as they stand in the table
    await world.until(lambda: all(m.fate is not Fate.PENDING for m in world.store.threads["t"].messages.values()))
    resolution = world.store.threads["t"].questions["delete"].resolution
    expected = {"approve": "approved", "deny": "denied", "stop": "cancelled", "message": "declined"}[first]
    assert resolution == expected


async def test_a_steps_result_is_replayed_to_the_next_attempt_and_over_a_pause(world: World) -> None:
    """The side effect is done once for the turn, whatever attempt or leg asks."""
    done = itertools.count(1)

    async def effect() -> int:
        return next(done)

    async def script(turn: Turn) -> object:
        number = await turn.step("charge the card", effect)
        if not turn.questions:
            return Pause((CHOICE,))
        return number

    process = await world.start(script)  # type: ignore[arg-type] # the answer is JSON
    await world.send(process, "t", "go")
    await world.until(lambda: world.store.threads["t"].thread.open_questions == 1)
    await process.runner.answer("t", "which", Resolution.ANSWERED, "x")
    await world.idle("t")
    assert world.answers("t") == [1]
    assert next(done) == 2


async def test_a_question_id_is_asked_once_in_a_thread(world: World) -> None:
    """A late answer to an old question must never meet a new one: the second asking fails with the reason."""

    async def script(turn: Turn) -> object:
        return Pause((APPROVAL,)) if not turn.questions else "done"

    process = await world.start(script)  # type: ignore[arg-type] # the answer is JSON
    await world.send(process, "t", "first")
    await world.until(lambda: world.store.threads["t"].thread.open_questions == 1)
    await process.runner.answer("t", "delete", Resolution.DENIED)
    await world.idle("t")
    await world.send(process, "t", "second")
    await world.idle("t")
    assert world.outcomes("t") == ["paused", "completed", "failed"]
    assert "asked before" in str(world.entries("t", Kind.RUN_ENDED)[-1].body["reason"])
    with pytest.raises(StandsOtherwiseError, match="denied"):
        await process.runner.answer("t", "delete", Resolution.APPROVED)

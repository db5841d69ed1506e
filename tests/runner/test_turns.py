"""One runner: messages become turns, turns end, and what was asked is taken."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tests.runner.world import World
from turnkeeper.core.cursor import NewMessage
from turnkeeper.core.draft import Act
from turnkeeper.core.words import Fate, Kind, Mode
from turnkeeper.errors import ClosedError, StandsOtherwiseError, UnknownOutcomeError
from turnkeeper.ports import Turn
from turnkeeper.runner.taker import BACKLOG_SECONDS

pytestmark = pytest.mark.looptime


async def test_a_message_starts_a_run_and_the_answer_stands_in_the_log(world: World) -> None:
    """Send answers `started` with the run's id, and the run's one end holds the handler's answer."""
    process = await world.start()
    sent = await world.send(process, "t", "hello")
    await world.idle("t")
    assert sent.outcome == "started"
    assert [(entry.run_id, entry.body["answer"]) for entry in world.entries("t", Kind.RUN_ENDED)] == [
        (sent.run_id, ["hello"])
    ]
    assert world.store.claims == {}


async def test_the_same_message_again_answers_its_receipt_and_starts_nothing(world: World) -> None:
    """A repeat is known by its id and body; another body under the id is told what stands."""
    process = await world.start()
    new = NewMessage(message_id="m", content=1)
    first = await process.runner.send("t", new)
    await world.idle("t")
    again = await process.runner.send("t", new)
    assert (again.is_new, again.outcome, again.run_id) == (False, Fate.STARTED, first.run_id)
    with pytest.raises(StandsOtherwiseError, match="another message has the id 'm'"):
        await process.runner.send("t", NewMessage(message_id="m", content=2))
    assert len(world.entries("t", Kind.RUN_STARTED)) == 1


async def test_a_note_is_recorded_and_asks_nothing(world: World) -> None:
    """No run starts for a note, and its receipt is final at once."""
    process = await world.start()
    sent = await world.send(process, "t", "by the way", Mode.NOTE)
    await asyncio.sleep(60)
    assert (sent.outcome, sent.message.fate) == ("noted", Fate.NOTED)
    assert world.entries("t", Kind.RUN_STARTED) == []


async def test_a_handler_that_raises_fails_its_turn_and_the_thread_goes_on(world: World) -> None:
    """The handler's own error ends the run `failed` with its text, and the next message runs."""

    async def script(turn: Turn) -> object:
        if turn.prompts[0].content == "bad":
            raise RuntimeError("no \x00 luck \ud800")
        return "fine"

    process = await world.start(script)  # type: ignore[arg-type] # the answer is JSON
    await world.send(process, "t", "bad")
    await world.idle("t")
    await world.send(process, "t", "good")
    await world.idle("t")
    ended = world.entries("t", Kind.RUN_ENDED)
    assert [entry.body["outcome"] for entry in ended] == ["failed", "completed"]
    assert ended[0].body["reason"] == "RuntimeError: no \N{REPLACEMENT CHARACTER} luck ?"


@pytest.mark.parametrize("answer", [float("nan"), "\ud83d", {1: 2}, object(), 10**1001, "x" * 1_100_000])
async def test_an_answer_that_cannot_be_kept_fails_its_own_run_alone(world: World, answer: object) -> None:
    """A bad answer ends its run `failed` with the reason; the worker and the thread live on."""

    async def script(turn: Turn) -> object:
        return answer if turn.prompts[0].content == "bad" else "fine"

    process = await world.start(script)  # type: ignore[arg-type] # what is not JSON is the point
    await world.send(process, "t", "bad")
    await world.idle("t")
    await world.send(process, "t", "good")
    await world.idle("t")
    assert world.outcomes("t") == ["failed", "completed"]
    assert "the answer" in str(world.entries("t", Kind.RUN_ENDED)[0].body["reason"])


async def test_a_run_past_its_deadline_ends_timed_out(world: World) -> None:
    """The handler is cancelled, the turn is over, and what was queued behind it runs."""

    async def script(turn: Turn) -> object:
        if turn.prompts[0].content == "slow":
            await asyncio.Event().wait()
        return "fine"

    process = await world.start(script, turn_timeout_seconds=100.0)  # type: ignore[arg-type] # the answer is JSON
    await world.send(process, "t", "slow")
    await world.send(process, "t", "next", Mode.QUEUE)
    elapsed = await world.idle("t")
    assert world.outcomes("t") == ["timed_out", "completed"]
    assert elapsed == pytest.approx(100.0, abs=1.0)


async def test_a_run_without_progress_ends_sooner_than_its_deadline(world: World) -> None:
    """A progress deadline counts from the last thing that the handler did."""

    async def script(turn: Turn) -> object:
        for number in range(3):
            await asyncio.sleep(8.0)
            await turn.emit(number)
        await asyncio.Event().wait()
        return None

    process = await world.start(script, turn_progress_seconds=10.0)  # type: ignore[arg-type] # the answer is JSON
    await world.send(process, "t", "go")
    elapsed = await world.idle("t")
    assert world.outcomes("t") == ["timed_out"]
    assert "no progress" in str(world.entries("t", Kind.RUN_ENDED)[0].body["reason"])
    assert elapsed == pytest.approx(34.0, abs=1.0)


async def test_a_handler_that_ignores_its_cancellation_is_left_behind(world: World) -> None:
    """The run ends after the grace, its later writes are refused, and the thread goes on."""
    late: list[str] = []
    gate = asyncio.Event()

    async def script(turn: Turn) -> object:
        if turn.prompts[0].content != "stubborn":
            return "fine"
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue
        try:
            await turn.emit("too late")
        except Exception as error:  # noqa: BLE001 - whatever refuses it is the test's point
            late.append(type(error).__name__)
        return None

    process = await world.start(script, turn_timeout_seconds=10.0)  # type: ignore[arg-type] # the answer is JSON
    await world.send(process, "t", "stubborn")
    await world.idle("t")
    await world.send(process, "t", "next")
    await world.idle("t")
    gate.set()
    await asyncio.sleep(1)
    assert world.outcomes("t") == ["timed_out", "completed"]
    assert late == ["LostRunError"]


async def test_a_closed_runner_accepts_and_arms_nothing(world: World) -> None:
    """After aclose nothing is owned any more, and a message is refused, not lost."""
    process = await world.start()
    await process.runner.aclose()
    with pytest.raises(ClosedError):
        await world.send(process, "t", "late")
    process.runner._looks.arm("t", "s", 1.0)
    assert len(process.runner._timers) == 0
    assert world.store.sessions == {}
    assert "t" not in world.store.threads


async def test_a_runner_that_leaves_accepts_for_others(world: World) -> None:
    """Callers learn of its end a moment late: what they send is recorded, taken elsewhere, and refused after that."""
    leaving, staying = await world.start(), await world.start()
    draining = asyncio.create_task(leaving.runner.drain(5.0, leave_seconds=1.0))
    await asyncio.sleep(0)
    sent = await world.send(leaving, "t", "late")
    assert (sent.outcome, sent.run_id) == ("queued", "")
    await world.idle("t")
    assert world.outcomes("t") == ["completed"]
    assert len(staying.handler.turns) == 1
    await draining
    await asyncio.sleep(1.0)
    with pytest.raises(ClosedError):
        await world.send(leaving, "t", "too late")


async def test_what_finds_no_room_is_told_to_who_has_some(world: World) -> None:
    """Long before the poll of what is owed."""
    gate = asyncio.Event()

    async def script(_: Turn) -> None:
        await gate.wait()

    busy = await world.start(script, max_turns=1)
    idle = await world.start(max_turns=1, hints=busy.tools.hints)
    await asyncio.sleep(BACKLOG_SECONDS / 10)  # a poll is over, and the next is not due
    await world.send(busy, "first", "keeps the slot")
    await world.send(busy, "second", "finds no room")
    await asyncio.sleep(BACKLOG_SECONDS / 10)
    assert (world.outcomes("first"), world.outcomes("second")) == ([], ["completed"])
    assert len(idle.handler.turns) == 1
    gate.set()
    await world.idle("first")


async def test_an_event_that_cannot_be_kept_is_refused_to_its_handler_and_fails_its_run(world: World) -> None:
    """It is the handler's own error, not an interruption that would be tried again for ever."""

    async def script(turn: Turn) -> None:
        await turn.emit(float("nan"))

    process = await world.start(script)
    await world.send(process, "t", "go")
    await world.idle("t")
    assert world.outcomes("t") == ["failed"]
    assert "NaN" in str(world.entries("t", Kind.RUN_ENDED)[0].body["reason"])


async def test_an_event_whose_answer_was_lost_does_not_swallow_the_next(world: World) -> None:
    """Events are numbered as they are tried, so the one after a lost answer is not taken for its repeat."""

    async def script(turn: Turn) -> None:
        for event in ("first", "second"):
            with contextlib.suppress(UnknownOutcomeError):
                await turn.emit(event)

    process = await world.start(script)
    transact, lost = process.journal.transact, 1

    async def unheard(act: Act[object]) -> object:
        nonlocal lost
        verdict = await transact(act)
        if act.name == "append" and lost:
            lost -= 1
            raise UnknownOutcomeError("the answer was lost")
        return verdict

    process.journal.transact = unheard  # type: ignore[method-assign, assignment] # recorded, but not heard of
    await world.send(process, "t", "go")
    await world.idle("t")
    assert [entry.body["event"] for entry in world.entries("t", Kind.EVENT)] == ["first", "second"]

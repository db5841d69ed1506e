"""S20: a plain message to a paused thread."""

from collections.abc import Sequence

import pytest

from tests.scenarios.harness import World, send
from turnkeeper.core.values import Json
from turnkeeper.core.words import Ask, Fate, Kind, Mode, Outcome, Resolution, ThreadState
from turnkeeper.errors import NotFoundError, StandsOtherwiseError
from turnkeeper.ports import Asking, Pause, Turn

pytestmark = pytest.mark.timeout(120)

APPROVAL = (Asking(text="delete all?", ask=Ask.APPROVAL, detail={"tool": "rm"}, question_id="a"),)
BOTH = (*APPROVAL, Asking(text="which?", question_id="f"))


class Asker:
    """Asks first, and then answers with how each question was resolved."""

    def __init__(self, questions: Sequence[Asking]) -> None:
        self.questions = tuple(questions)

    async def turn(self, turn: Turn) -> Json | Pause:
        """Take a turn."""
        if not turn.questions:
            return Pause(self.questions)
        resolved = {question.question_id: question.resolution.value for question in turn.questions}
        return {"resolved": resolved, "prompts": [message.content for message in turn.prompts]}


async def _answers(world: World) -> list[object]:
    return [entry.body["answer"] for entry in await world.entries("thread", Kind.RUN_ENDED) if "answer" in entry.body]


@pytest.mark.parametrize("mode", [Mode.STEER, Mode.QUEUE])
async def test_yes_in_chat_approves_nothing(world: World, mode: Mode) -> None:
    """It declines what wants an approval, and the turn goes on with it as the reply; the approval comes too late."""
    life = await world.start(Asker(APPROVAL).turn)
    await send(life, "thread", "begin")
    await world.until_kind("thread", Kind.QUESTION)
    assert (await send(life, "thread", "yes", mode=mode)).outcome == "reply"
    with pytest.raises(StandsOtherwiseError) as told:
        await life.runner.answer("thread", "a", Resolution.APPROVED)
    assert told.value.stands == Resolution.DECLINED
    await world.settled()
    await world.check()
    assert await _answers(world) == [{"resolved": {"a": "declined"}, "prompts": ["yes"]}]


async def test_a_plain_message_answers_what_is_free_and_declines_the_rest(world: World) -> None:
    """Two questions at once, and three messages: none of them is lost, and each question is resolved once."""
    life = await world.start(Asker(BOTH).turn)
    await send(life, "thread", "begin")
    await world.until_kind("thread", Kind.QUESTION, 2)
    for number in range(3):
        await send(life, "thread", f"blue-{number}")
    with pytest.raises(StandsOtherwiseError):
        await life.runner.answer("thread", "a", Resolution.DENIED)
    await world.settled()
    (dump,) = await world.check()
    resolved = [(entry.body["question_id"], entry.body["resolution"]) for entry in dump.of(Kind.ANSWER)]
    assert sorted(resolved) == [("a", "declined"), ("f", "answered")]
    assert all(message.fate in {Fate.STARTED, Fate.STEERED} for message in dump.messages)


async def test_a_pause_outlives_every_runner_and_holds_nothing(world: World) -> None:
    """No claim, no drive; with no runner up nothing moves, and a new life can be answered."""
    first = await world.start(Asker(APPROVAL).turn)
    await send(first, "thread", "begin")
    await world.until_kind("thread", Kind.QUESTION)
    await world.settled()
    assert not first.runner._taker.drives
    await first.aclose()
    thread = await world.books.thread("thread")
    assert thread is not None
    assert (thread.state, await world.claimed()) == (ThreadState.PAUSED, {})
    second, third = [await world.start(Asker(APPROVAL).turn) for _ in range(2)]
    with pytest.raises(NotFoundError):
        await second.runner.answer("thread", "wrong", Resolution.APPROVED)
    question = await third.runner.answer("thread", "a", Resolution.APPROVED)
    assert question.detail == {"tool": "rm"}
    with pytest.raises(StandsOtherwiseError) as told:
        await second.runner.answer("thread", "a", Resolution.DENIED)
    assert told.value.stands == Resolution.APPROVED
    await world.settled()
    await world.check()
    assert await world.outcomes("thread") == [Outcome.PAUSED, Outcome.COMPLETED]


async def test_a_runner_that_dies_after_the_answer_leaves_it_to_another(world: World) -> None:
    """The answer stands, and the turn goes on elsewhere."""
    first = await world.start(Asker(APPROVAL).turn)
    await send(first, "thread", "begin")
    await world.until_kind("thread", Kind.QUESTION)
    await world.settled()
    first.dies_at("before:take")
    await first.runner.answer("thread", "a", Resolution.DENIED)
    await first.died.wait()
    await first.kill()
    await world.start(Asker(APPROVAL).turn)
    await world.settled()
    await world.check()
    assert await _answers(world) == [{"resolved": {"a": "denied"}, "prompts": []}]


async def test_what_was_sent_as_the_run_asked_is_its_reply(world: World) -> None:
    """A message that nobody had read when the run paused must not wait for a person who believes to be heard."""
    life = await world.start(Asker(BOTH).turn)

    async def interject(point: str, thread_id: str) -> None:
        if point == "before:end" and not sent:
            sent.append(await send(life, thread_id, "blue"))

    sent: list[object] = []
    life.hooks.append(interject)
    await send(life, "thread", "begin")
    await world.settled()
    await world.check()
    assert await _answers(world) == [{"resolved": {"a": "declined", "f": "answered"}, "prompts": ["blue"]}]

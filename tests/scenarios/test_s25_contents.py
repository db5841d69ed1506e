"""S25: contents that pass one layer and break the next. What HTTP refuses is in `tests/api`; here is what is kept."""

import math
from typing import cast

import pytest

from tests.scenarios.harness import World, send
from turnkeeper.core.names import CONTENT_BYTES_MAX, DEPTH_MAX
from turnkeeper.core.values import Json
from turnkeeper.core.words import Ask, Kind, Outcome, Resolution
from turnkeeper.errors import InvalidContentError, InvalidInputError
from turnkeeper.ports import Asking, Pause, Turn

pytestmark = pytest.mark.timeout(180)


def nested(depth: int) -> Json:
    """Arrays in arrays."""
    value: Json = 0
    for _ in range(depth):
        value = [value]
    return value


KEPT: dict[str, Json] = {
    "empty": "",
    "blank": " \t\n ",
    "nul": "a\x00b",
    "line separator": "a\u2028b\u2029c\x85d",
    "a frame": "\r\n\r\ndata: x\r\nid: 9\r\n\r\n",
    "emoji": "👩‍👩‍👧 \U0010ffff",
    "null": None,
    "false": False,
    "zero": -0.0,
    "long number": 10**400,
    "small number": 5e-324,
    "large number": 1.7976931348623157e308,
    "keys": {"": 1, "\x00": 2, "a.b": 3, "ключ": 4, "__proto__": 5},
    "deep": nested(DEPTH_MAX - 4),
    "large": "x" * (CONTENT_BYTES_MAX - 100),
}

REFUSED: dict[str, object] = {
    "half an emoji": "\ud83d",
    "half an emoji as a key": {"\ude00": 1},
    "not a number": math.nan,
    "infinity": [math.inf],
    "endless number": 10**1001,
    "too deep": nested(DEPTH_MAX + 1),
    "far too deep": nested(10_000),
    "too large": "x" * (CONTENT_BYTES_MAX + 100),
    "bytes": b"abc",
    "a set": {1, 2},
}


async def test_what_is_allowed_is_kept_without_loss(world: World) -> None:
    """As message, event, result of a step, question, answer and steering: the very value comes back."""

    async def turn(turn: Turn) -> Json | Pause:
        value = turn.prompts[0].content if turn.prompts else turn.questions[0].answer
        if turn.questions:
            return turn.questions[0].answer
        await turn.emit(value)

        async def effect() -> Json:
            return value

        assert await turn.step("step", effect) == value
        assert await turn.step("step", effect) == value
        return Pause((Asking(text="what?", ask=Ask.FREE, detail=value, question_id="q"),))

    life = await world.start(turn)
    for name, value in KEPT.items():
        await send(life, name, value, name, sender=name)
    for name, value in KEPT.items():
        await world.until_kind(name, Kind.QUESTION)
        await life.runner.answer(name, "q", Resolution.ANSWERED, value)
    await world.settled()
    await world.check()
    for name, value in KEPT.items():
        log = {entry.kind: entry.body for entry in await world.entries(name)}
        kept = (
            log[Kind.MESSAGE]["content"],
            log[Kind.EVENT]["event"],
            log[Kind.STEP]["value"],
            log[Kind.QUESTION]["detail"],
            log[Kind.ANSWER]["answer"],
            log[Kind.RUN_ENDED]["answer"],
        )
        assert repr(kept) == repr((value,) * len(kept)), name  # repr: 0.0, -0.0 and False are not the same


@pytest.mark.parametrize("where", ["answer", "event", "step", "question"])
async def test_what_a_handler_may_not_say_costs_only_that(world: World, where: str) -> None:
    """The event is refused, or the run fails with a plain reason; the thread takes its next message."""

    async def turn(turn: Turn) -> Json | Pause:
        name = turn.prompts[0].content
        if name == "next":
            return "fine"
        value = cast("Json", REFUSED[str(name)])

        async def effect() -> Json:
            return value

        match where:
            case "event":
                with pytest.raises(InvalidInputError):
                    await turn.emit(value)
                return "went on"
            case "step":
                await turn.step("step", effect)
            case "question":
                return Pause((Asking(text="what?", ask=Ask.FREE, detail=value),))
        return value

    life = await world.start(turn)
    for name in REFUSED:
        await send(life, name, name)
    await world.settled()
    for name in REFUSED:
        await send(life, name, "next")
    await world.settled()
    await world.check()
    first = Outcome.COMPLETED if where == "event" else Outcome.FAILED
    for name in REFUSED:
        assert await world.outcomes(name) == [first, Outcome.COMPLETED], name
        ends = await world.entries(name, Kind.RUN_ENDED)
        assert ends[0].body.get("answer") == "went on" or ends[0].body["reason"], name


@pytest.mark.parametrize("reason", ["half \ud83d of one", "nul \x00 in it", "x" * 100_000])
async def test_an_error_of_any_text_is_kept_readably(world: World, reason: str) -> None:
    """An exception's text goes into the log, whatever is in it."""

    async def fail(turn: Turn) -> Json:
        if turn.prompts[0].content == "next":
            return "fine"
        raise ValueError(reason)

    life = await world.start(fail)
    await send(life, "thread", "go")
    await world.settled()
    await send(life, "thread", "next")
    await world.settled()
    await world.check()
    assert await world.outcomes("thread") == [Outcome.FAILED, Outcome.COMPLETED]


@pytest.mark.parametrize("thread_id", ["a/b c%2F", "é", "e\u0301", "👩‍👩‍👧", "'; DROP TABLE threads; --", "A", "a"])
async def test_ids_are_compared_and_returned_byte_for_byte(world: World, thread_id: str) -> None:
    """Two ids that look alike are two threads."""
    life = await world.start()
    others = ["é", "e\u0301", "A", "a", thread_id]
    for other in others:
        await send(life, other, "go", "id " + other, sender=other)
    await world.settled()
    await world.check()
    found = [thread.thread_id for thread in await world.books.threads(None, "", 100)]
    assert found == sorted(set(others))
    message = await world.fate(thread_id, "id " + thread_id)
    assert message.sender == thread_id


def test_what_is_refused_is_refused_by_one_rule() -> None:
    """The rule is in the core, so both databases give one verdict."""
    assert issubclass(InvalidContentError, InvalidInputError)

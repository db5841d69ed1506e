"""The echo handler."""

import asyncio

import pytest

from tests.handlers.recording_turn import RecordingTurn
from turnkeeper.adapters.handlers import EchoHandler
from turnkeeper.core.values import Json

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize(
    ("prompts", "answer"), [(["a"], "a"), (["a", {"b": 1}], ["a", {"b": 1}]), ([], []), ([None], None)]
)
async def test_it_answers_with_what_was_sent(prompts: list[Json], answer: Json) -> None:
    """One event for each prompt, and one answer."""
    turn = RecordingTurn(*prompts)
    assert await EchoHandler().turn(turn) == answer
    assert turn.events == prompts


async def test_steering_that_arrives_until_the_answer_is_folded_in() -> None:
    """Also what arrives while the last of it is written."""
    turn = RecordingTurn("a")
    running = asyncio.create_task(EchoHandler(delay_seconds=60).turn(turn))
    await asyncio.sleep(30)
    turn.steer("b", "c")
    assert await running == ["a", "b", "c"]
    assert turn.events == ["a", "b", "c"]
    assert asyncio.get_running_loop().time() == pytest.approx(60)


async def test_it_takes_no_time_unless_told() -> None:
    """The delay is for those who want to watch."""
    await EchoHandler().turn(RecordingTurn("a"))
    assert asyncio.get_running_loop().time() == 0
    await EchoHandler().aclose()

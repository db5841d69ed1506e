"""A command that writes what it should not."""

from typing import Any, cast

import pytest

from tests.handlers.conftest import MakeExec, open_files
from tests.handlers.recording_turn import RecordingTurn

BAD_LINES = [
    ("print('hello')", "not JSON"),
    ("print('[]')", "no object"),
    ('print(\'{"type":"dance"}\')', "unknown type 'dance'"),
    ("say('event')", 'no "event"'),
    ("say('event', event=float('nan'))", "NaN"),
    ("say('event', event='\\ud800')", "half a character"),
    ("say('event', event='x' * 2_000_000)", "bytes as stored"),
    ("say('event', event='x' * 20_000_000)", "longer than allowed"),
    ("print('[' * 100_000)", "nested"),
    ('print(\'{"type":"event","event":1e999}\')', "too large"),
    ("sys.stdout.buffer.write(b'\\xff\\xfe\\x00\\n')", "UTF-8"),
    ("say('used', seq=1)", "no message that was handed"),
    ("say('used', seq='x')", "no message that was handed"),
    ("say('used')", "no message that was handed"),
    ("say('step?')", "step name"),
    ("say('step?', name='a\\n')", "step name"),
    ("say('step', name='pay', value=1)", "not told to do"),
    ("say('step', name=[1], value=1)", "not told to do"),
    ("say('step?', name='a'); hear(); say('step?', name='a')", "being done already"),
    ("say('step?', name='a'); hear(); say('step', name='a')", 'no "value"'),
]


@pytest.mark.parametrize(("bad", "reason"), BAD_LINES)
async def test_a_bad_line_harms_itself_alone(run_program: MakeExec, bad: str, reason: str) -> None:
    """It is refused in the log and to the command, and the run goes on."""
    turn = RecordingTurn("a")
    program = f"say('event', event='before')\n{bad}\nsys.stdout.flush()\ntold = hear()\nsay('answer', answer=told)"
    told = cast("dict[str, Any]", await run_program(program).turn(turn))
    before, refused = turn.events
    assert before == "before"
    assert reason in cast("dict[str, str]", refused)["refused"]
    assert told["type"] == "refused"
    assert reason in told["reason"]


async def test_a_flood_of_bad_lines_is_counted_in_one_line(run_program: MakeExec) -> None:
    """Also from a program that never reads what is refused to it."""
    turn = RecordingTurn("a")
    program = "for _ in range(5_000): print('no JSON at all')\nsay('answer', answer=1)"
    assert await run_program(program).turn(turn) == 1
    told = [event for event in turn.events if "refused" in cast("dict[str, Any]", event)]
    assert 100 <= len(told) < 1_000
    assert cast("dict[str, Any]", turn.events[-1])["left_out"] == 5_000 - len(told)


async def test_a_last_line_without_its_end_counts(run_program: MakeExec) -> None:
    """A program may forget the line end."""
    program = 'sys.stdout.write(\'{"type":"answer","answer":1}\')'
    assert await run_program(program).turn(RecordingTurn("a")) == 1


async def test_empty_lines_say_nothing(run_program: MakeExec) -> None:
    """Nor are they refused."""
    turn = RecordingTurn("a")
    assert await run_program("print('\\n\\r\\n  ')\nsay('answer', answer=1)").turn(turn) == 1
    assert turn.events == []


async def test_a_command_that_asks_and_never_reads_is_refused_in_the_end(run_program: MakeExec) -> None:
    """What is held for it is bounded."""
    turn = RecordingTurn("a")
    program = "for _ in range(10_000): print('{\"type\":\"steer?\"}')\nsay('answer', answer=1)"
    assert await run_program(program).turn(turn) == 1
    assert "wait to be read" in str(turn.events)


async def test_a_command_that_closes_its_stdin_is_refused_what_it_asks_for(run_program: MakeExec) -> None:
    """A message must not be handed out to nobody."""
    turn = RecordingTurn("x" * 100_000)
    turn.steer("b")
    handler = run_program("say('answer', answer=1)")
    handler._command[-1:] = ["-c", 'import os; os.close(0); print(\'{"type":"steer?"}\')']
    assert await handler.turn(turn) is None
    assert turn.handed_out == []
    assert "its stdin is closed" in str(turn.events)


async def test_no_file_is_left_open(run_program: MakeExec) -> None:
    """Whatever way the turns ended."""
    handler = run_program("say('answer', answer=1)")
    await handler.turn(RecordingTurn("a"))
    before = open_files()
    for _ in range(5):
        await handler.turn(RecordingTurn("a"))
    assert open_files() == before

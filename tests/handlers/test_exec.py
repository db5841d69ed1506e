"""What a command and its runner say to one another."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from tests.handlers.conftest import MakeExec
from tests.handlers.recording_turn import RecordingTurn, sent
from turnkeeper.adapters.handlers import ExecHandler
from turnkeeper.core.values import Json
from turnkeeper.core.words import Ask
from turnkeeper.errors import HandlerError, LostRunError, SettingsError
from turnkeeper.ports import Asking, Pause


async def test_it_is_told_its_turn_and_answers(run_program: MakeExec) -> None:
    """Events in their order, and the answer."""
    handler = run_program("say('event', event=turn)\nsay('event', event=None)\nsay('answer', answer={'a': 1})")
    turn = RecordingTurn("b", "ä\n", history=[sent(1, "a")], first_seq=2)
    assert await handler.turn(turn) == {"a": 1}
    told = cast("dict[str, Any]", turn.events[0])
    assert [told[key] for key in ("thread", "run", "turn", "attempt", "token")] == ["thread/ä", "run-1", "turn-1", 1, 7]
    assert [prompt["content"] for prompt in told["prompts"]] == ["b", "ä\n"]
    assert [entry["body"]["content"] for entry in told["history"]] == ["a"]
    assert turn.events[1:] == [None]


async def test_one_handler_runs_many_turns_at_once(run_program: MakeExec) -> None:
    """Each in a process of its own; none sees another's lines."""
    handler = run_program("say('event', event=os.getpid())\nsay('answer', answer=turn['prompts'][0]['content'])")
    turns = [RecordingTurn(number) for number in range(12)]
    assert await asyncio.gather(*(handler.turn(turn) for turn in turns)) == list(range(12))
    assert len({cast("int", turn.events[0]) for turn in turns}) == 12


async def test_an_exit_without_an_answer_completes_with_null(run_program: MakeExec) -> None:
    """A script need not know the answer line."""
    assert await run_program("say('event', event='done')").turn(RecordingTurn("a")) is None


async def test_it_may_pause_with_questions(run_program: MakeExec) -> None:
    """And reads their resolutions in its next run."""
    handler = run_program("say('ask', questions=[{'text': 'Pay?', 'ask': 'approval', 'detail': {'eur': 9}}])")
    assert await handler.turn(RecordingTurn("a")) == Pause((Asking(text="Pay?", ask=Ask.APPROVAL, detail={"eur": 9}),))


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("say('fail', reason='no money')", "^no money$"),
        ("print('why', file=sys.stderr)\nsys.exit(3)", "(?s)exit code 3.*why"),
        ("sys.exit(3)", "exit code 3 and wrote nothing"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("1 / 0", "(?s)exit code 1.*ZeroDivisionError"),
        ("say('answer')", 'no "answer"'),
        ("say('answer', answer=float('nan'))", "could not be read.*NaN"),
        ("say('answer', answer='\\ud800')", "half a character"),
        ("say('answer', answer='x' * 2_000_000)", "20000.. bytes as stored"),
        ("say('answer', answer='x' * 20_000_000)", '"answer" could not be read: a line of 20'),
        ("say('ask', questions=[])", "empty"),
    ],
)
async def test_a_failure_is_told_in_plain_words(run_program: MakeExec, program: str, reason: str) -> None:
    """Its own, its exit's, or that of an answer that can't be kept."""
    with pytest.raises(HandlerError, match=reason):
        await run_program(program).turn(RecordingTurn("a"))


async def test_what_follows_the_last_word_is_ignored(run_program: MakeExec) -> None:
    """The answer stands, whatever the exit code."""
    turn = RecordingTurn("a")
    handler = run_program("say('answer', answer=1)\nsay('answer', answer=2)\nsay('event', event=3)\nsys.exit(4)")
    assert await handler.turn(turn) == 1
    assert turn.events == []


STEERED = """
say('event', event='ready')
messages = []
while len(messages) < 3:
    say('steer?', wait=True)
    messages += hear()['messages']
    say('event', event=len(messages))
say('used', seq=messages[1]['seq'])
say('answer', answer=[message['content'] for message in messages])
"""


async def test_steering_reaches_it_when_it_asks_for_it(run_program: MakeExec) -> None:
    """And what it says to have used is used, whatever way the run ends."""
    turn = RecordingTurn("a")
    running = asyncio.create_task(run_program(STEERED).turn(turn))
    await turn.said("ready")
    turn.steer("b")
    await turn.said(1)
    turn.steer("c", "d")
    assert await running == ["b", "c", "d"]
    assert turn.used == [101]


async def test_steering_that_it_did_not_ask_for_is_left(run_program: MakeExec) -> None:
    """A program that never reads on has used nothing: the message starts the next turn."""
    turn = RecordingTurn("a")
    turn.steer("b")
    await run_program("say('answer', answer=None)").turn(turn)
    assert turn.handed_out == []


async def test_it_may_look_for_steering_without_waiting(run_program: MakeExec) -> None:
    """And is told that there is none."""
    turn = RecordingTurn("a")
    look = "say('steer?')\nfirst = hear()\nsay('steer?')\nsay('answer', answer=[first, hear()])"
    turn.steer("b")
    found = cast("list[Any]", await run_program(look).turn(turn))
    assert [[message["content"] for message in answer["messages"]] for answer in found] == [["b"], []]


STEP = """
say('step?', name='pay')
answer = hear()
if answer['state'] == 'do':
    say('event', event='paying')
    say('step', name='pay', value={'receipt': 5})
    answer = hear()
say('answer', answer=answer)
"""


async def test_a_step_is_done_once_for_all_attempts_of_its_turn(run_program: MakeExec) -> None:
    """The second attempt is given the recorded result."""
    handler = run_program(STEP)
    log: dict[str, Json] = {}
    done = {"type": "step", "name": "pay", "state": "done", "value": {"receipt": 5}}
    first, second = RecordingTurn("a", steps=log), RecordingTurn("a", steps=log, attempt=2)
    assert await handler.turn(first) == done
    assert await handler.turn(second) == done
    assert (first.events, second.events) == (["paying"], [])


BAD_STEP = """
say('step?', name='pay')
hear()
say('step', name='pay', value=float('nan'))
refused = hear()
say('step', name='pay', value=5)
hear()
say('answer', answer=refused)
"""


async def test_a_step_s_value_that_can_not_be_kept_is_refused_at_the_step(run_program: MakeExec) -> None:
    """The program is told, and may give a better one."""
    turn = RecordingTurn("a")
    answer = cast("dict[str, Any]", await run_program(BAD_STEP).turn(turn))
    assert answer["type"] == "refused"
    assert "NaN" in answer["reason"]
    assert turn.steps == {"pay": 5}


async def test_a_step_that_was_done_is_recorded_though_the_answer_follows_at_once(run_program: MakeExec) -> None:
    """The side effect has happened, so that its record must not be given up."""
    turn = RecordingTurn("a")
    program = "say('step?', name='pay')\nhear()\nsay('step', name='pay', value=5)\nsay('answer', answer=1)"
    assert await run_program(program).turn(turn) == 1
    assert turn.steps == {"pay": 5}


async def test_a_lost_run_ends_the_command(run_program: MakeExec) -> None:
    """It has no business any more."""
    turn = RecordingTurn("a")
    turn.is_lost = True
    with pytest.raises(LostRunError):
        await run_program("say('event', event=1)\ntime.sleep(3600)").turn(turn)


async def test_its_stderr_is_in_the_log(run_program: MakeExec) -> None:
    """Line by line, whatever the bytes."""
    turn = RecordingTurn("a")
    program = "sys.stderr.buffer.write(b'one\\r\\n\\xff\\x00two\\n' + b'x' * 100_000 + b'\\nlast')"
    assert await run_program(program).turn(turn) is None
    lines = [cast("dict[str, str]", event)["stderr"] for event in turn.events]
    assert [line[:6] for line in lines] == ["one", "\ufffd\x00two", "xxxxxx", "last"]
    assert lines[2].endswith("[cut: 100000 bytes]")


async def test_a_flood_of_stderr_is_counted_in_one_line(run_program: MakeExec) -> None:
    """A log that is kept for ever takes no flood."""
    turn = RecordingTurn("a")
    program = "for number in range(5_000): print(number, file=sys.stderr)\nsay('answer', answer=1)"
    assert await run_program(program).turn(turn) == 1
    told = [event for event in turn.events if "stderr" in cast("dict[str, Any]", event)]
    assert 100 <= len(told) < 1_000
    assert cast("dict[str, Any]", turn.events[-1])["left_out"] == 5_000 - len(told)


async def test_it_finds_its_turn_in_its_environment_and_no_setting_of_the_runner(
    run_program: MakeExec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell script needs no JSON to know its thread; a password is not passed on."""
    monkeypatch.setenv("TURNKEEPER_JOURNAL_URL", "secret")
    monkeypatch.setenv("OF_THE_RUNNER", "passed on")
    handler = run_program("say('answer', answer=dict(os.environ))", environment={"OF_THE_COMMAND": "set"})
    found = cast("dict[str, str]", await handler.turn(RecordingTurn("a")))
    assert {name: value for name, value in found.items() if name.startswith(("TURN", "OF_"))} == {
        "TURN_WORKSPACE": "tests",
        "TURN_THREAD": "thread/ä",
        "TURN_RUN": "run-1",
        "TURN_ID": "turn-1",
        "TURN_ATTEMPT": "1",
        "TURN_TOKEN": "7",
        "OF_THE_RUNNER": "passed on",
        "OF_THE_COMMAND": "set",
    }


async def test_it_runs_in_its_directory(run_program: MakeExec, tmp_path: Path) -> None:
    """The one that was named."""
    handler = run_program("say('answer', answer=os.getcwd())", directory=str(tmp_path))
    assert await handler.turn(RecordingTurn("a")) == str(tmp_path)


async def test_a_program_that_reads_nothing_and_says_nothing_bad_is_fine(run_program: MakeExec) -> None:
    """A turn larger than a pipe waits for nobody."""
    handler = run_program("say('answer', answer='x')")
    handler._command = [sys.executable, "-I", "-S", "-c", 'print(\'{"type":"answer","answer":1}\')']
    assert await handler.turn(RecordingTurn("x" * 1_000_000)) == 1


async def test_a_large_turn_reaches_it_whole(run_program: MakeExec) -> None:
    """In as many writes as the pipe takes."""
    handler = run_program("say('answer', answer=len(turn['prompts'][0]['content']))")
    assert await handler.turn(RecordingTurn("x" * 1_000_000)) == 1_000_000


@pytest.mark.parametrize(
    ("command", "options", "text"),
    [
        ([], {}, "must be a list"),
        ("python3 work.py", {}, "must be a list"),
        (["no-such-program-here"], {}, "'no-such-program-here' was not found"),
        (["./no/such/file"], {}, "was not found"),
        ([os.devnull], {}, "may not be executed"),
        (["true"], {"directory": "no/such/folder"}, "does not exist"),
        (["true"], {"environment": {"PATH": "nowhere"}}, "was not found"),
    ],
)
def test_a_command_that_can_not_run_is_refused_at_the_start(
    command: list[str], options: dict[str, Any], text: str
) -> None:
    """Not at the first turn."""
    with pytest.raises(SettingsError, match=text):
        ExecHandler(command, **options)


async def test_a_program_that_is_gone_by_its_turn_fails_the_run(tmp_path: Path) -> None:
    """With its name and the reason."""
    program = tmp_path / "work"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    handler = ExecHandler([str(program)])
    program.unlink()
    with pytest.raises(HandlerError, match="could not be started"):
        await handler.turn(RecordingTurn("a"))
    await handler.aclose()

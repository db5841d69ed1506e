"""How a command ends with its run: nothing of it is left, whatever ended first."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest
import uvloop

from tests.handlers.conftest import PRELUDE, MakeExec, is_running
from tests.handlers.recording_turn import RecordingTurn
from turnkeeper.adapters.handlers import ExecHandler

ROOT = Path(__file__).parents[2]

WAIT = "say('event', event=os.getpid())\ntime.sleep(3600)"

WITH_GRANDCHILD = """
import subprocess
other = subprocess.Popen([sys.executable, '-c', {grandchild!r}], start_new_session={leaves})
sys.stdout.flush()
say('event', event=[os.getpid(), other.pid])
"""
SLEEPER = "import time; time.sleep(3600)"
STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(3600)"

HEARS_TERM = """
def ended(*_):
    open(os.environ['WITNESS'], 'w').write('heard')
    sys.exit(0)
signal.signal(signal.SIGTERM, ended)
say('event', event=os.getpid())
time.sleep(3600)
"""
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WAIT
FLOODS_AT_ITS_END = """
def ended(*_):
    for pipe in (1, 2):
        for _ in range(100):
            os.write(pipe, b'x' * 10_000)
    open(os.environ['WITNESS'], 'w').write('wrote all')
    os._exit(0)
signal.signal(signal.SIGTERM, ended)
say('event', event=os.getpid())
time.sleep(3600)
"""


async def started(handler: object, turn: RecordingTurn) -> asyncio.Task[object]:
    """Begin a turn and wait for its first event."""
    running = asyncio.create_task(handler.turn(turn))  # type: ignore[attr-defined]  # any of the handlers here
    await turn.until(lambda: bool(turn.events))
    return running


async def cancelled(running: asyncio.Task[object]) -> None:
    """Cancel a run and wait for its end."""
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_cancelled_run_has_its_command_end_in_peace(run_program: MakeExec, tmp_path: Path) -> None:
    """SIGTERM first, and time to clean up."""
    turn, witness = RecordingTurn("a"), tmp_path / "witness"
    handler = run_program(HEARS_TERM, environment={"WITNESS": str(witness)}, kill_grace_seconds=30)
    await cancelled(await started(handler, turn))
    assert witness.read_text() == "heard"
    assert not is_running(cast("int", turn.events[0]))


async def test_a_command_may_write_while_it_ends(run_program: MakeExec, tmp_path: Path) -> None:
    """A full pipe must not hold it until it is killed."""
    turn, witness = RecordingTurn("a"), tmp_path / "witness"
    handler = run_program(FLOODS_AT_ITS_END, environment={"WITNESS": str(witness)}, kill_grace_seconds=30)
    await cancelled(await started(handler, turn))
    assert witness.read_text() == "wrote all"


async def test_a_command_that_ignores_sigterm_is_killed(run_program: MakeExec) -> None:
    """After the grace."""
    turn = RecordingTurn("a")
    await cancelled(await started(run_program(DEAF, kill_grace_seconds=0.1), turn))
    assert not is_running(cast("int", turn.events[0]))


async def test_a_second_cancellation_does_not_leave_the_command_behind(run_program: MakeExec) -> None:
    """It ends in the background, and the handler's close waits for it."""
    turn = RecordingTurn("a")
    handler = run_program(DEAF, kill_grace_seconds=0.3)
    running = await started(handler, turn)
    running.cancel()
    while not handler._endings:  # noqa: ASYNC110 - yields until the first cancellation has gone its way
        await asyncio.sleep(0)
    await cancelled(running)
    pid = cast("int", turn.events[0])
    assert is_running(pid)
    await handler.aclose()
    assert not is_running(pid)


@pytest.mark.parametrize("grandchild", [SLEEPER, STUBBORN])
async def test_a_grandchild_ends_with_a_cancelled_run(run_program: MakeExec, grandchild: str) -> None:
    """Though it holds the pipes open and ignores SIGTERM."""
    turn = RecordingTurn("a")
    program = WITH_GRANDCHILD.format(grandchild=grandchild, leaves=False) + "time.sleep(3600)"
    await cancelled(await started(run_program(program, kill_grace_seconds=0.2), turn))
    assert not any(is_running(pid) for pid in cast("list[int]", turn.events[0]))


@pytest.mark.parametrize("last", ["say('answer', answer=1)", "", "sys.exit(3)"])
async def test_a_grandchild_ends_with_its_command_s_own_end(run_program: MakeExec, last: str) -> None:
    """And does not hold up the turn, whose pipes it holds open."""
    turn = RecordingTurn("a")
    program = WITH_GRANDCHILD.format(grandchild=STUBBORN, leaves=False) + last
    running = await started(run_program(program, kill_grace_seconds=30), turn)
    (result,) = await asyncio.gather(running, return_exceptions=True)
    assert (result == 1, result is None, "exit code 3" in str(result)).count(True) == 1
    assert not any(is_running(pid) for pid in cast("list[int]", turn.events[0]))


async def test_a_process_that_left_the_group_does_not_hold_up_the_turn(run_program: MakeExec) -> None:
    """It can't be ended, only be left; the page for authors says so."""
    turn = RecordingTurn("a")
    program = WITH_GRANDCHILD.format(grandchild=SLEEPER, leaves=True) + "say('answer', answer=1)"
    assert await run_program(program, kill_grace_seconds=30).turn(turn) == 1
    _, other = cast("list[int]", turn.events[0])
    assert is_running(other)
    os.kill(other, signal.SIGKILL)


async def test_all_that_a_command_wrote_before_its_end_is_heard(run_program: MakeExec) -> None:
    """A pipe full of lines, and a grandchild that goes on writing to it."""
    turn = RecordingTurn("a")
    chatter = "while True: print('no line of the command', flush=True)"
    lines = "for number in range(500): say('event', event=number)\n"
    program = lines + WITH_GRANDCHILD.format(grandchild=chatter, leaves=False)
    assert await run_program(program, kill_grace_seconds=30).turn(turn) is None
    assert [event for event in turn.events if isinstance(event, int)] == list(range(500))


async def test_a_command_that_lingers_after_its_answer_is_ended(run_program: MakeExec) -> None:
    """The answer stands."""
    turn = RecordingTurn("a")
    handler = run_program("say('event', event=os.getpid())\nsay('answer', answer=1)\ntime.sleep(3600)")
    handler._kill_grace_seconds = 0.1
    assert await handler.turn(turn) == 1
    assert not is_running(cast("int", turn.events[0]))


async def test_a_command_that_closes_its_stdout_has_its_time(run_program: MakeExec) -> None:
    """Its end is its process's end."""
    turn = RecordingTurn("a")
    program = "say('event', event=1)\nos.close(1)\nprint('still here', file=sys.stderr)\nsys.exit(3)"
    (result,) = await asyncio.gather(run_program(program).turn(turn), return_exceptions=True)
    assert "exit code 3" in str(result)
    assert "still here" in str(result)


def test_it_is_the_same_on_the_loop_that_runners_use(tmp_path: Path) -> None:
    """Uvloop has its own way with files and processes."""
    program = tmp_path / "program.py"
    program.write_text(PRELUDE + "say('event', event=os.getpid())\nif hear() is None: time.sleep(3600)")

    async def cancel_one() -> int:
        handler, turn = ExecHandler([sys.executable, str(program)], kill_grace_seconds=30), RecordingTurn("a")
        await cancelled(await started(handler, turn))
        await handler.aclose()
        return cast("int", turn.events[0])

    with ThreadPoolExecutor(1) as thread, asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        assert not is_running(thread.submit(loop.run, cancel_one()).result())


RUNNER = """
import asyncio, sys
sys.path[:0] = [{operator!r}, {root!r}]
from tests.handlers.recording_turn import RecordingTurn
from turnkeeper.adapters.handlers import ExecHandler
from turnkeeper.adapters.handlers import ExecHandler

class Turn(RecordingTurn):
    async def emit(self, event):
        print(*event, flush=True)

asyncio.run(ExecHandler([sys.executable, {program!r}], kill_grace_seconds={grace}).turn(Turn("a")))
"""


@pytest.mark.parametrize("grandchild", [SLEEPER, STUBBORN])
async def test_a_command_does_not_outlive_a_runner_that_was_killed(tmp_path: Path, grandchild: str) -> None:
    """Not even one that heeds neither the end of its stdin nor SIGTERM, and not what it has started."""
    program, runner = tmp_path / "program.py", tmp_path / "runner.py"
    deaf = "import os, signal, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    say = "def say(kind, event): import json; print(json.dumps({'type': kind, 'event': event}), flush=True)\n"
    program.write_text(deaf + say + WITH_GRANDCHILD.format(grandchild=grandchild, leaves=False) + "time.sleep(3600)")
    runner.write_text(RUNNER.format(operator=str(ROOT / "operator"), root=str(ROOT), program=str(program), grace=0.2))
    command = [sys.executable, str(runner)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220 - it only starts
        assert process.stdout is not None
        pids = [int(pid) for pid in (await asyncio.to_thread(process.stdout.readline)).split()]
        assert all(is_running(pid) for pid in pids)
        watched = [os.pidfd_open(pid) for pid in pids]
        process.kill()
    try:
        for pidfd in watched:
            await asyncio.wait_for(_ended(pidfd), 20)
    finally:
        for pidfd in watched:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)


async def test_a_guard_that_died_is_replaced_and_knows_what_runs(run_program: MakeExec) -> None:
    """Else one accident would leave every later command unguarded."""
    handler = run_program(WAIT, kill_grace_seconds=1)
    first_turn, second_turn = RecordingTurn("a"), RecordingTurn("b")
    first = await started(handler, first_turn)
    guard = handler._guard._process
    assert guard is not None
    guard.kill()
    guard.wait()
    second = await started(handler, second_turn)
    successor = handler._guard._process
    assert successor is not None
    assert successor is not guard
    assert handler._guard._noted == {first_turn.events[0], second_turn.events[0]}
    # The runner's end of the pipe breaks, as it does when the runner dies.
    assert successor.stdin is not None
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, successor.stdin.fileno())
    os.close(nowhere)
    results = await asyncio.gather(first, second, return_exceptions=True)
    assert ["SIGTERM" in str(result) for result in results] == [True, True]


async def _ended(pidfd: int) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(pidfd, ended.set)
    await ended.wait()
    loop.remove_reader(pidfd)

"""Coroutine functions of the user's own."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from tests.handlers.recording_turn import RecordingTurn
from turnkeeper.adapters.handlers import PythonHandler
from turnkeeper.core.values import Json
from turnkeeper.errors import HandlerError, SettingsError
from turnkeeper.ports import Asking, Pause, Turn

HERE = __name__


async def answer(turn: Turn) -> Json:
    """Emit and answer."""
    await turn.emit("thinking")
    return [message.content for message in turn.prompts]


async def ask(_turn: Turn) -> Pause:
    """Pause."""
    return Pause((Asking(text="Which?"),))


async def answer_badly(_turn: Turn) -> object:
    """Return what no JSON can hold."""
    return {1: object()}


async def raise_error(_turn: Turn) -> Json:
    """Fail with an error of its own."""
    raise KeyError("its own")


async def emit_badly(turn: Turn) -> Json:
    """Emit what no JSON can hold."""
    await turn.emit(float("nan"))
    return None


async def cancel_itself(_turn: Turn) -> Json:
    """End as if cancelled."""
    raise asyncio.CancelledError


async def wait_for_ever(turn: Turn) -> Json:
    """Never end by itself."""
    await turn.emit("waiting")
    await asyncio.Event().wait()
    return None


async def take_two(_turn: Turn, _other: str) -> Json:
    """Want more than a turn."""
    return None


async def yield_events(_turn: Turn) -> object:
    """Be a generator."""
    yield "an event"


def plain(_turn: Turn) -> Json:
    """Be no coroutine function."""
    return None


class Agent:
    closed: ClassVar[list[str]] = []

    def __init__(self, name: str = "made") -> None:
        self.name = name

    async def turn(self, _turn: Turn) -> Json:
        return self.name

    async def aclose(self) -> None:
        self.closed.append(self.name)


class Callable:
    async def __call__(self, _turn: Turn) -> Json:
        return "called"


class WithArguments(Agent):
    def __init__(self, name: str) -> None:
        super().__init__(name)


class Failing:
    def __init__(self) -> None:
        raise RuntimeError("no key given")


class PlainAgent:
    def turn(self, _turn: Turn) -> Json:
        return None


def make() -> Agent:
    """Make a handler."""
    return Agent("by a factory")


ready = Agent("ready")
callable_object = Callable()
NUMBER = 5


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder to import from, and the import system left as it was."""
    path, modules = list(sys.path), set(sys.modules)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


async def test_a_coroutine_function_is_given_the_turn() -> None:
    """Its events go to the log and its result is the answer."""
    turn = RecordingTurn("a", "b")
    assert await PythonHandler(f"{HERE}:answer").turn(turn) == ["a", "b"]
    assert turn.events == ["thinking"]


async def test_it_may_pause() -> None:
    """With questions."""
    assert await PythonHandler(f"{HERE}:ask").turn(RecordingTurn("a")) == Pause((Asking(text="Which?"),))


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("Agent", "made"),
        ("make", "by a factory"),
        ("ready", "ready"),
        ("ready.turn", "ready"),
        ("callable_object", "called"),
    ],
)
async def test_classes_factories_and_objects_serve_too(name: str, result: str) -> None:
    """One object serves every turn."""
    assert await PythonHandler(f"{HERE}:{name}").turn(RecordingTurn("a")) == result


async def test_an_object_is_closed_with_its_handler() -> None:
    """It may hold connections."""
    Agent.closed.clear()
    await PythonHandler(f"{HERE}:make").aclose()
    assert Agent.closed == ["by a factory"]
    await PythonHandler(f"{HERE}:answer").aclose()


async def test_a_result_that_can_not_be_kept_is_the_handler_s_own_failure() -> None:
    """With the reason, before anything is written."""
    with pytest.raises(HandlerError, match="object key 1 is not a string"):
        await PythonHandler(f"{HERE}:answer_badly").turn(RecordingTurn("a"))


async def test_an_event_that_can_not_be_kept_is_its_own_failure_unless_it_minds_it() -> None:
    """No other attempt would do better, so the run must not look interrupted."""
    with pytest.raises(HandlerError, match="NaN"):
        await PythonHandler(f"{HERE}:emit_badly").turn(RecordingTurn("a"))


async def test_what_it_raises_is_raised() -> None:
    """The runner writes it to the log."""
    with pytest.raises(KeyError, match="its own"):
        await PythonHandler(f"{HERE}:raise_error").turn(RecordingTurn("a"))


async def test_a_cancellation_that_nobody_asked_for_is_its_failure() -> None:
    """Else the runner would take it for a stop."""
    with pytest.raises(HandlerError, match="nobody cancelled"):
        await PythonHandler(f"{HERE}:cancel_itself").turn(RecordingTurn("a"))


async def test_a_cancelled_run_stays_cancelled() -> None:
    """And is no failure of the handler."""
    turn = RecordingTurn("a")
    running = asyncio.create_task(PythonHandler(f"{HERE}:wait_for_ever").turn(turn))
    await turn.said("waiting")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.mark.parametrize(
    ("entry_point", "text"),
    [
        ("nothing", "is not of the form"),
        (":f", "is not of the form"),
        ("module:", "is not of the form"),
        ("no_such_module_here:f", "there is no module 'no_such_module_here'"),
        ("asyncio.no_such_part:f", "there is no module 'asyncio.no_such_part'"),
        (f"{HERE}:missing", "has no 'missing'"),
        (f"{HERE}:Agent.missing", "has no 'Agent.missing'"),
        (f"{HERE}:plain", "to_thread"),
        (f"{HERE}:take_two", "must take one argument"),
        (f"{HERE}:yield_events", "emit"),
        (f"{HERE}:WithArguments", "it wants name"),
        (f"{HERE}:Failing", "no key given"),
        (f"{HERE}:PlainAgent", "no `async def turn`"),
        (f"{HERE}:NUMBER", "int, which has no"),
        ("asyncio:sleep.missing", "has no 'sleep.missing'"),
    ],
)
def test_what_can_not_be_a_handler_is_refused_with_what_to_do(entry_point: str, text: str) -> None:
    """At the start of the runner, not at the first turn."""
    with pytest.raises(SettingsError) as refused:
        PythonHandler(entry_point)
    assert text in str(refused.value)


async def test_modules_are_found_in_the_folder_that_was_named_or_the_current_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing need be installed."""
    (folder / "my_agent_in_a_folder.py").write_text("async def turn(turn):\n    return 'from the folder'\n")
    with pytest.raises(SettingsError, match="there is no module"):
        PythonHandler("my_agent_in_a_folder:turn")
    monkeypatch.chdir(folder)
    for search_path in (str(folder), [str(folder / "other"), str(folder)], (), None):
        sys.modules.pop("my_agent_in_a_folder", None)
        sys.path[:] = [path for path in sys.path if path != str(folder)]
        handler = PythonHandler("my_agent_in_a_folder:turn", search_path)
        assert await handler.turn(RecordingTurn("a")) == "from the folder"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import not_installed_at_all", "imports 'not_installed_at_all', which is not installed"),
        ("1 / 0", "ZeroDivisionError"),
        ("def broken(:", "SyntaxError"),
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
    ],
)
def test_a_module_that_fails_at_its_import_is_told(folder: Path, text: str, told: str) -> None:
    """What is wrong with it, in a line."""
    (folder / "my_broken_agent.py").write_text(text)
    with pytest.raises(SettingsError, match=told):
        PythonHandler("my_broken_agent:turn", str(folder))

"""Each example of the page for handler authors runs, under the handler that it is for."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from tests.handlers.recording_turn import RecordingTurn, ended, sent
from turnkeeper.adapters.handlers import ChatHandler, ExecHandler, HttpHandler, PythonHandler
from turnkeeper.core.values import Json, Question
from turnkeeper.core.words import Ask, Resolution
from turnkeeper.errors import HandlerError
from turnkeeper.ports import Asking, Handler, Pause

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "handlers"
PAGE = (ROOT / "docs" / "handlers.md").read_text("utf-8")

ORDER: dict[str, Json] = {"order": "A-17", "eur": 30}


@contextmanager
def serving(name: str) -> Iterator[str]:
    """Start an example that is a server, on a free port; it says its address."""
    command = [sys.executable, str(EXAMPLES / name), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


async def run(handler: Handler, turn: RecordingTurn) -> Json | Pause:
    """Run one turn and close the handler."""
    try:
        return await handler.turn(turn)
    finally:
        await handler.aclose()


def resolved(resolution: Resolution) -> Question:
    """How a refund's question stands."""
    return Question(
        question_id="q", turn_id="turn-1", ask=Ask.APPROVAL, text="Refund?", detail=ORDER, resolution=resolution
    )


async def test_the_python_example_asks_refunds_once_and_answers() -> None:
    """An approval, and a side effect that a second attempt does not repeat."""
    handler = PythonHandler("examples.handlers.refund:turn", str(ROOT))
    text = "Refund 30 EUR for order A-17?"
    assert await run(handler, RecordingTurn(ORDER)) == Pause((Asking(text=text, ask=Ask.APPROVAL, detail=ORDER),))
    log: dict[str, Json] = {}
    receipt: Json = {"refunded": [{"order": "A-17", "eur": 30, "fence": 7}]}
    for attempt, token in ((1, 7), (2, 8)):
        turn = RecordingTurn(questions=(resolved(Resolution.APPROVED),), steps=log, attempt=attempt)
        turn.token = token
        assert await run(handler, turn) == receipt
    assert list(log) == ["refund A-17"]


async def test_the_python_example_refunds_nothing_that_was_declined() -> None:
    """Chat never approves."""
    turn = RecordingTurn("yes, do it!", questions=(resolved(Resolution.DECLINED),))
    assert "Send an order" in str(await run(PythonHandler("examples.handlers.refund:turn", str(ROOT)), turn))
    assert turn.events == ["A-17 is not refunded: declined"]
    assert turn.steps == {}


async def test_the_command_example_translates_bills_once_and_takes_in_what_came_meanwhile() -> None:
    """Over nothing but lines of JSON."""
    turn = RecordingTurn("abc def", steps={"bill": {"words": 99}})
    turn.steer("xyz")
    answer = await run(ExecHandler([sys.executable, "-I", str(EXAMPLES / "worker.py")]), turn)
    assert answer == {"translations": ["fed cba", "zyx"], "bill": {"words": 99}}
    assert {"stderr": "translating m1"} in turn.events
    assert {"message": "m100", "translation": "zyx"} in turn.events
    first = RecordingTurn("abc def")
    await run(ExecHandler([sys.executable, "-I", str(EXAMPLES / "worker.py")]), first)
    assert first.steps == {"bill": {"words": 2}}


async def test_the_shell_example_counts_its_turn() -> None:
    """With no JSON parser at all."""
    turn = RecordingTurn("a")
    answer = cast("dict[str, int]", await run(ExecHandler(["sh", str(EXAMPLES / "count.sh")]), turn))
    assert answer["bytes"] > 200
    assert sorted(map(str, turn.events)) == ["counted", "{'stderr': 'attempt 1 in thread thread/ä'}"]


async def test_the_service_example_streams_its_turn_and_keeps_its_own_fence() -> None:
    """A runner that was overtaken is refused."""
    with serving("service.py") as url:
        turn = RecordingTurn("abc", "de")
        assert await run(HttpHandler(url), turn) == {"spelled": 2}
        assert turn.events == ["a b c", "d e"]
        turn.token -= 1
        with pytest.raises(HandlerError, match="409 a newer runner has this thread"):
            await run(HttpHandler(url), turn)


async def test_the_chat_example_answers() -> None:
    """Streamed, with the thread's history."""
    with serving("parrot.py") as url:
        log = [sent(1, "Hello"), ended(2, "completed", {"role": "assistant", "content": "Hi!"})]
        turn = RecordingTurn("How are you?", history=log, first_seq=3)
        answer = await run(ChatHandler(url, "parrot"), turn)
    assert answer == {"role": "assistant", "content": "You said 2 things, and last: How are you? "}


def test_every_example_is_on_the_page_and_says_how_it_is_run() -> None:
    """And each is one that git keeps."""
    names = [path.name for path in EXAMPLES.iterdir() if path.suffix in {".py", ".sh"}]
    assert len(names) == 5
    for name in names:
        assert f"examples/handlers/{name}" in PAGE
        assert "turnkeeper run --" in (EXAMPLES / name).read_text("utf-8")


def test_every_file_that_the_page_names_is_there() -> None:
    """A page that outlives its files misleads."""
    paths = set(re.findall(r"examples/handlers/\w+\.\w+", PAGE))
    assert len(paths) == 5
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []

"""A chat model behind a real HTTP server that speaks the protocol."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import pytest
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from tests.handlers import servers
from tests.handlers.recording_turn import RecordingTurn, ended, sent
from turnkeeper.adapters.handlers import ChatHandler
from turnkeeper.adapters.handlers.deltas import GAP_SECONDS
from turnkeeper.core.values import Json, Question
from turnkeeper.core.words import Ask, Kind, Resolution
from turnkeeper.errors import HandlerError, LostRunError, SettingsError

STREAM = "text/event-stream; charset=utf-8"
KEY = "sk-0123456789"


def piece(content: str | None, finish: str | None = None) -> str:
    """One event of a stream."""
    choice = {"index": 0, "delta": {} if content is None else {"content": content}, "finish_reason": finish}
    return f"data: {json.dumps({'object': 'chat.completion.chunk', 'choices': [choice]})}\n\n"


def model() -> FastAPI:
    """A server whose model repeats the request that it was sent, word by word."""
    app = FastAPI()

    @app.post("/v1/chat/completions")
    async def complete(request: Request) -> Response:
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            told = request.headers.get("Authorization", "no key").removeprefix("Bearer ")
            return JSONResponse({"error": {"message": f"Incorrect API key provided: {told}"}}, status_code=401)
        asked = await request.json()
        words = json.dumps(asked, sort_keys=True).split(" ")

        async def stream() -> AsyncIterator[str]:
            yield 'data: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}\n\n'
            for number, word in enumerate(words):
                yield piece(f" {word}" if number else word)
            yield piece(None, "stop")
            yield 'data: {"choices": [], "usage": {"total_tokens": 9}}\n\n'
            yield "data: [DONE]\n\n"

        return StreamingResponse(stream(), media_type="text/event-stream")

    return app


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The model server's base URL."""
    with servers.served(model()) as found:
        yield f"{found}/v1"


async def run(url: str, turn: RecordingTurn, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - the handler's own
    """Run one turn on a handler of its own."""
    handler = ChatHandler(url, "parrot", **options)
    try:
        return cast("dict[str, Any]", await handler.turn(turn))
    finally:
        await handler.aclose()


def said(turn: RecordingTurn) -> str:
    """What the log's events say, put together."""
    return "".join(cast("dict[str, str]", event)["delta"] for event in turn.events)


async def test_the_model_is_asked_with_the_thread_and_answers(url: str) -> None:
    """The system prompt, what was said before, and the prompts; its answer streams into the log."""
    log = [
        sent(1, "Hello"),
        sent(2, {"order": "ä"}),
        ended(4, "completed", {"role": "assistant", "content": "Hi!"}),
        sent(5, "of a run that failed"),
        ended(7, "failed"),
        sent(8, "a note", Kind.NOTE),
        ended(9, "completed", ["another", "handler's"]),
    ]
    turn = RecordingTurn("And now?", ["x"], history=log, first_seq=10)
    options: dict[str, Any] = {"system_prompt": "Be short.", "temperature": 0.5, "parameters": {"max_tokens": 99}}
    answer = await run(url, turn, api_key=f"{KEY}\n", history_limit=7, **options)
    assert json.loads(answer["content"]) == {
        "model": "parrot",
        "stream": True,
        "temperature": 0.5,
        "max_tokens": 99,
        "messages": [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": "Hello"},
            {"role": "user", "content": '{"order": "ä"}'},
            {"role": "assistant", "content": "Hi!"},
            {"role": "user", "content": "of a run that failed"},
            {"role": "user", "content": "a note"},
            {"role": "assistant", "content": '["another", "handler\'s"]'},
            {"role": "user", "content": "And now?"},
            {"role": "user", "content": '["x"]'},
        ],
    }
    assert (answer["role"], "finish_reason" in answer) == ("assistant", False)
    assert said(turn) == answer["content"]
    assert turn.history_limits == [7]


async def test_a_message_that_came_while_the_model_spoke_follows_its_answer(url: str) -> None:
    """As a person reads it: the answer before, then what was said meanwhile."""
    log = [sent(1, "first"), sent(3, "meanwhile"), ended(4, "completed", {"role": "assistant", "content": "answer"})]
    answer = await run(url, RecordingTurn("meanwhile", history=log, first_seq=3), api_key=KEY)
    assert [message["content"] for message in json.loads(answer["content"])["messages"]] == [
        "first",
        "answer",
        "meanwhile",
    ]


async def test_a_turn_that_goes_on_tells_the_model_how_its_questions_stand(url: str) -> None:
    """Though this handler asks none: another may have been in its place."""
    question = Question(
        question_id="q", turn_id="t", ask=Ask.FREE, text="Which?", resolution=Resolution.ANSWERED, answer="both"
    )
    answer = await run(url, RecordingTurn(questions=(question,)), api_key=KEY)
    (message,) = json.loads(answer["content"])["messages"]
    assert json.loads(message["content"])["answer"] == "both"


async def test_a_wrong_key_is_told_without_the_key(url: str) -> None:
    """The log is read by many."""
    with pytest.raises(HandlerError) as refused:
        await run(url, RecordingTurn("a"), api_key="sk-wrong-one")
    assert "answered 401 Unauthorized" in str(refused.value)
    assert "Incorrect API key provided: [hidden]" in str(refused.value)


SPEECH = (
    "\ufeff: keep-alive\r\n\r\n"
    + piece("Hé").replace("\n", "\r\n")
    + "event: message\n"
    + piece("llo")
    + ": keep-alive\n\n"
    + piece("\ud83d")
    + piece("\ude00")
    + 'data: {"choices":\ndata: [{"delta": {"content": "!"}, "finish_reason": "stop"}]}\n\n'
    + "data: [DONE]"
)


@pytest.mark.parametrize("size", [1, 2, 7, 64, 10_000])
async def test_a_stream_is_understood_however_it_is_cut(size: int) -> None:
    """Inside a character, inside CRLF, with comments, several lines of data, and the halves of an emoji apart."""
    body = SPEECH.encode()
    pieces = [servers.reply(STREAM), *(body[at : at + size] for at in range(0, len(body), size))]
    turn = RecordingTurn("a")
    async with servers.scripted(pieces) as server:
        assert await run(server.url, turn) == {"role": "assistant", "content": "Héllo\U0001f600!"}
    assert said(turn) == "Héllo\U0001f600!"


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (piece("cut off by its limit", "length") + "data: [DONE]\n\n", {"finish_reason": "length"}),
        (piece("a", "stop"), {"content": "a"}),
        (piece("a") + "data: [DONE]\n\n", {"content": "a"}),
        (piece(None, "stop"), {"content": ""}),
    ],
)
async def test_the_end_of_an_answer_is_known_by_its_reason_or_by_done(body: str, answer: dict[str, str]) -> None:
    """A reason other than that the model had said all is told."""
    async with servers.scripted([servers.reply(STREAM, body.encode())]) as server:
        found = await run(server.url, RecordingTurn("a"))
    assert found | answer == found


async def test_a_server_that_does_not_stream_is_understood() -> None:
    """Some ignore the request's `stream`."""
    body = b'{"choices": [{"message": {"role": "assistant", "content": "all at once"}, "finish_reason": "stop"}]}'
    turn = RecordingTurn("a")
    async with servers.scripted([servers.reply("application/json", body)]) as server:
        assert await run(server.url, turn) == {"role": "assistant", "content": "all at once"}
    assert turn.events == [{"delta": "all at once"}]


LATER = "Retry-After: 17\r\n"
CUT = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (
            servers.reply(
                "application/json", b'{"error":{"message":"slow down"}}', status="429 Too Many", headers=LATER
            ),
            r"answered 429 Too Many \(to be tried again after '17'\): .*slow down",
        ),
        (servers.reply("text/plain", b"oops", status="500 Broken"), "answered 500 Broken: oops"),
        (servers.reply(STREAM, piece("abc").encode()), "was cut after 3 characters"),
        (CUT + piece("abc").encode()[:20], "the call of .* failed"),
        (servers.reply(STREAM, b'data: {"error": {"message": "overloaded"}}\n\n'), "reported an error: overloaded"),
        (servers.reply(STREAM, b'data: {"error": "overloaded"}\n\n'), "reported an error: overloaded"),
        (servers.reply(STREAM, b"data: {broken\n\n"), "not JSON"),
        (servers.reply(STREAM, b"data: [1]\n\n"), "no object"),
        (servers.reply(STREAM, b""), "was cut after 0 characters"),
        (servers.reply("text/html", b"<html>"), "'text/html', neither"),
        (servers.reply("application/json", b"{}"), "was cut after 0 characters"),
        (servers.reply(STREAM, b"data: " + b"x" * 9_000_000), "longer than is read"),
        (servers.reply(STREAM, piece("x" * 600_000).encode() * 2), "more than the 1048576 bytes"),
    ],
)
async def test_a_failure_of_the_server_is_told_in_plain_words(reply: bytes, reason: str) -> None:
    """Its refusals, its errors in mid-stream, and a stream that was cut."""
    async with servers.scripted([reply]) as server:
        with pytest.raises(HandlerError, match=reason):
            await run(server.url, RecordingTurn("a"))
        assert len(server.requests) == 1


async def test_what_was_said_before_a_failure_is_in_the_log() -> None:
    """A reader saw it come; it must not vanish."""
    turn = RecordingTurn("a")
    pieces = [servers.reply(STREAM), piece("abc").encode(), piece("def").encode()]
    async with servers.scripted(pieces) as server:
        with pytest.raises(HandlerError, match="cut after 6"):
            await run(server.url, turn)
    assert said(turn) == "abcdef"


async def test_a_fast_stream_makes_few_events() -> None:
    """Each is a durable transaction; all of them together are still the whole answer."""
    turn = RecordingTurn("a")
    pieces = [piece(f"{number} ").encode() for number in range(3_000)]
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with servers.scripted([servers.reply(STREAM), *pieces, b"data: [DONE]\n\n"]) as server:
        answer = await run(server.url, turn)
    assert said(turn) == answer["content"]
    assert len(answer["content"].split()) == 3_000
    assert len(turn.events) <= 2 + (loop.time() - began) / GAP_SECONDS


async def test_what_the_model_said_reaches_the_log_while_it_thinks_on() -> None:
    """A stream that pauses does not hold back its last words."""
    turn = RecordingTurn("a")
    pieces = [servers.reply(STREAM), piece("one ").encode(), piece("two").encode()]
    async with servers.scripted(pieces, then_hold=True) as server:
        running = asyncio.create_task(run(server.url, turn))
        await turn.until(lambda: said(turn) == "one two")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await server.hung_up.wait()


async def test_a_lost_run_stops_listening(url: str) -> None:
    """And says that it is lost."""
    turn = RecordingTurn("a")
    turn.is_lost = True
    with pytest.raises(LostRunError):
        await run(url, turn, api_key=KEY)


async def test_steering_is_left_for_the_next_turn(url: str) -> None:
    """It begins at once, and sees this turn's answer."""
    turn = RecordingTurn("a")
    turn.steer("b")
    await run(url, turn, api_key=KEY)
    assert turn.handed_out == []


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        (("localhost", "m"), {}, "must begin with http"),
        (("http://host/v1", ""), {}, "model's name is missing"),
        (("http://host/v1", "m"), {"api_key": "a\nb"}, "Authorization has other characters"),
        (("http://host/v1", "m"), {"temperature": float("nan")}, "NaN"),
    ],
)
def test_what_can_not_be_asked_is_refused_at_the_start(
    arguments: tuple[str, str], options: dict[str, Json], text: str
) -> None:
    """Not at the first turn."""
    with pytest.raises(SettingsError, match=text):
        ChatHandler(*arguments, **cast("dict[str, Any]", options))

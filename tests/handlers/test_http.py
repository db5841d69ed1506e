"""Turns that a web service takes, over real HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any, cast

import pytest
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from tests.handlers import servers
from tests.handlers.recording_turn import RecordingTurn, sent
from turnkeeper.adapters.handlers import HttpHandler, http_call
from turnkeeper.core.values import Json
from turnkeeper.errors import HandlerError, LostRunError, SettingsError
from turnkeeper.ports import Asking, Pause

LINES = "application/x-ndjson"


def service() -> FastAPI:
    """A service with a path for each way to answer."""
    app = FastAPI()

    @app.post("/stream")
    async def stream(request: Request) -> Response:
        asked = await request.json()

        async def lines() -> AsyncIterator[str]:
            yield json.dumps({"type": "event", "event": asked}) + "\n\n"
            yield json.dumps({"type": "event", "event": dict(request.headers)}) + "\n"
            yield '{"type": "answer", "answer": "str'
            yield 'eamed"}\n'

        return StreamingResponse(lines(), media_type=LINES)

    @app.post("/document")
    async def document(request: Request) -> Response:
        return JSONResponse((await request.json())["prompts"][0]["content"])

    @app.post("/nothing")
    async def nothing() -> Response:
        return Response(status_code=204)

    @app.post("/refused")
    async def refused() -> Response:
        body = "your key sk-123456789 is " + "no good " * 1_000
        return Response(body, status_code=503, headers={"Retry-After": "30"}, media_type="text/plain")

    @app.post("/moved")
    async def moved() -> Response:
        return Response(status_code=307, headers={"Location": "/stream"})

    return app


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The service's address."""
    with servers.served(service()) as found:
        yield found


async def run(url: str, turn: RecordingTurn, **options: Any) -> Json | Pause:  # noqa: ANN401 - the handler's own
    """Run one turn on a handler of its own."""
    handler = HttpHandler(url, **options)
    try:
        return await handler.turn(turn)
    finally:
        await handler.aclose()


async def test_a_turn_is_posted_and_its_lines_stream_back(url: str) -> None:
    """Events as they come, and the answer."""
    turn = RecordingTurn("b", history=[sent(1, "a")], first_seq=2)
    assert await run(f"{url}/stream", turn, headers={"Authorization": "Bearer abc\n"}) == "streamed"
    asked, headers = cast("list[dict[str, Any]]", turn.events)
    assert asked["thread"] == "thread/ä"
    assert [prompt["content"] for prompt in asked["prompts"]] == ["b"]
    assert [entry["body"]["content"] for entry in asked["history"]] == ["a"]
    assert headers["turnkeeper-token"] == "7"
    assert headers["idempotency-key"] == "run-1"
    assert headers["authorization"] == "Bearer abc"


@pytest.mark.parametrize(
    ("document", "result"),
    [
        ({"type": "answer", "answer": [1]}, [1]),
        ({"type": "ask", "questions": [{"text": "Which?"}]}, Pause((Asking(text="Which?"),))),
    ],
)
async def test_one_json_document_is_a_verdict_too(url: str, document: Json, result: object) -> None:
    """For a service that has no events."""
    assert await run(f"{url}/document", RecordingTurn(document)) == result


async def test_no_content_is_the_answer_null(url: str) -> None:
    """A service may have nothing to say."""
    assert await run(f"{url}/nothing", RecordingTurn("a")) is None


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"type": "fail", "reason": "no money"}, "^no money$"),
        ({"type": "answer"}, 'no "answer"'),
        ({"type": "event", "event": 1}, "no verdict"),
        ("text", "no verdict"),
    ],
)
async def test_a_document_that_is_no_answer_fails_the_run(url: str, document: Json, reason: str) -> None:
    """With its reason."""
    with pytest.raises(HandlerError, match=reason):
        await run(f"{url}/document", RecordingTurn(document))


async def test_a_refusal_is_told_with_its_status_and_a_piece_of_its_body(url: str) -> None:
    """Without the secret that was sent along."""
    with pytest.raises(HandlerError) as refused:
        await run(f"{url}/refused", RecordingTurn("a"), headers={"Authorization": "Bearer sk-123456789"})
    text = str(refused.value)
    assert (
        "/refused answered 503 Service Unavailable (to be tried again after '30'): your key [hidden] is no good" in text
    )
    assert len(text) < 1_200


async def test_a_redirection_is_not_followed(url: str) -> None:
    """A turn is posted where it was configured, or nowhere."""
    with pytest.raises(HandlerError, match="answered 307"):
        await run(f"{url}/moved", RecordingTurn("a"))


async def test_a_bad_line_harms_itself_alone() -> None:
    """And what needs an answer can't be asked for over HTTP."""
    lines = [
        b"hello",
        b'{"type":"event","event":NaN}',
        b'{"type":"event"}',
        b'{"type":"steer?"}',
        b'{"type":"event","event":"' + b"x" * 20_000_000 + b'"}',
        b'{"type":"event","event":"good"}',
        b'{"type":"answer","answer":1}',
        b'{"type":"answer","answer":2}',
    ]
    turn = RecordingTurn("a")
    async with servers.scripted([servers.reply(LINES, b"\r\n".join(lines))]) as server:
        assert await run(server.url, turn) == 1
    reasons = [cast("dict[str, str]", event)["refused"] for event in turn.events[:-1]]
    for reason, part in zip(reasons, ["not JSON", "NaN", 'no "event"', "'steer?'", "longer"], strict=True):
        assert part in reason
    assert turn.events[-1] == "good"


@pytest.mark.parametrize(
    ("pieces", "reason"),
    [
        ([servers.reply(LINES, b'{"type":"event","event":1}\n')], "without a line that says answer"),
        ([servers.reply(LINES, b'{"type":"answer","answer":NaN}\n')], '"answer" could not be read'),
        ([servers.reply("text/html", b"<html>")], "'text/html', neither"),
        (
            [b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nContent-Length: 99\r\n\r\n{"],
            "the call of .* failed",
        ),
        (
            [b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"],
            "failed",
        ),
        ([b"nonsense\r\n\r\n"], "the call of .* failed"),
        ([], "the call of .* failed"),
        ([servers.reply("application/json", b"[" * 9_000_000)], "more than"),
    ],
)
async def test_an_answer_that_breaks_off_or_makes_no_sense_fails_the_run(pieces: list[bytes], reason: str) -> None:
    """It is not tried again: the service may have begun."""
    async with servers.scripted(pieces) as server:
        with pytest.raises(HandlerError, match=reason):
            await run(server.url, RecordingTurn("a"))
        assert len(server.requests) == 1


async def test_silence_fails_the_run() -> None:
    """Longer than was allowed, and not in all."""
    begun = servers.reply(LINES, b'{"type":"event","event":1}\n')
    turn = RecordingTurn("a")
    async with servers.scripted([begun], then_hold=True) as server:
        with pytest.raises(HandlerError, match=r"said nothing for 0\.2 s"):
            await run(server.url, turn, timeout_seconds=0.2)
    assert turn.events == [1]


async def test_it_is_tried_again_to_connect_and_to_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that is just being restarted costs no turn."""
    bound = servers.loopback()
    answer = servers.reply("application/json", b'{"type":"answer","answer":1}')
    waits: list[float] = []
    async with AsyncExitStack() as later:

        async def serve_at_the_third_wait(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                await later.enter_async_context(servers.scripted([answer], bound=bound))

        monkeypatch.setattr(http_call, "pause", serve_at_the_third_wait)
        assert await run(servers.address(bound), RecordingTurn("a")) == 1
    assert waits == [0.1, 0.2, 0.4]


async def test_no_connection_at_all_fails_the_run() -> None:
    """After the time that was given to it."""
    bound = servers.loopback()
    with pytest.raises(HandlerError, match="no connection to"):
        await run(servers.address(bound), RecordingTurn("a"), connect_seconds_max=0)
    bound.close()


async def test_a_cancelled_run_hangs_up() -> None:
    """By which the service knows."""
    turn = RecordingTurn("a")
    begun = servers.reply(LINES, b'{"type":"event","event":1}\n')
    async with servers.scripted([begun], then_hold=True) as server:
        running = asyncio.create_task(run(server.url, turn))
        await turn.said(1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await server.hung_up.wait()


async def test_a_lost_run_hangs_up(url: str) -> None:
    """And says that it is lost."""
    turn = RecordingTurn("a")
    turn.is_lost = True
    with pytest.raises(LostRunError):
        await run(f"{url}/stream", turn)


async def test_steering_is_left_for_the_next_turn(url: str) -> None:
    """What can't be told to the service is not taken for told."""
    turn = RecordingTurn("a")
    turn.steer("b")
    await run(f"{url}/stream", turn)
    assert turn.handed_out == []


@pytest.mark.parametrize(
    ("url", "headers", "text"),
    [
        ("localhost:80", {}, "must begin with http"),
        ("ftp://host/", {}, "must begin with http"),
        ("http://", {}, "name a host"),
        ("http://host:port/", {}, "is no URL"),
        ("http://host/", {"Bad Name": "x"}, "no name for a header"),
        ("http://host/", {"X-Key": "a\r\nX-Other: b"}, "X-Key has other characters"),
        ("http://host/", {"X-Key": "ä"}, "X-Key has other characters"),
    ],
)
def test_what_can_not_be_called_is_refused_at_the_start(url: str, headers: dict[str, str], text: str) -> None:
    """Not at the first turn."""
    with pytest.raises(SettingsError, match=text):
        HttpHandler(url, headers=headers)

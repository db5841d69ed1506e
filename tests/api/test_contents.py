"""Contents that pass one layer and break the next: each kept without loss, or refused with a reason (S25)."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.served import Served, eventually, path_of, raw_call, sent_and_done
from turnkeeper.api import body as body_module
from turnkeeper.api.body import BODY_BYTES_MAX
from turnkeeper.core.names import CONTENT_BYTES_MAX

KEPT: dict[str, bytes] = {
    "empty text": b'""',
    "blanks": b'"  \\t "',
    "null": b"null",
    "false": b"false",
    "empty list": b"[]",
    "empty object": b"{}",
    "an empty key": b'{"": {"": 0}}',
    "NUL": b'"a\\u0000b"',
    "line separators": '"\u2028\u2029\x85"'.encode(),
    "a frame of a stream": b'"\\r\\n\\r\\ndata: x\\n\\nid: 99\\nevent: end\\n\\n"',
    "an emoji": '"\U0001f600"'.encode(),
    "an emoji in two escapes": b'"\\ud83d\\ude00"',
    "a combining letter": '"e\u0301"'.encode(),
    "a thousand digits": b"9" * 1000,
    "a large double": b"1.7976931348623157e308",
    "a small double": b"5e-324",
    "minus zero": b"-0.0",
    "a fraction": b"0.1",
    "deep enough": b"[" * 98 + b"]" * 98,
    "markup": b'"<script>alert(1)</script>\\u001b[2J"',
    "nearly too large": b'"' + b"x" * (CONTENT_BYTES_MAX - 100) + b'"',
}
REFUSED: dict[str, bytes] = {
    "half an emoji": b'"\\ud83d"',
    "the other half": b'"\\ude00"',
    "half an emoji as a key": b'{"\\ud83d": 1}',
    "NaN": b"NaN",
    "Infinity": b"Infinity",
    "-Infinity": b"-Infinity",
    "1e309": b"1e309",
    "-1e309": b"-1e309",
    "1e309 far inside": b'[[[{"a": 1e309}]]]',
    "an integer of 1001 digits": b"1" * 1001,
    "an integer of 5000 digits": b"1" * 5000,
    "a list 10,000 deep": b"[" * 10_000 + b"]" * 10_000,
    "objects 10,000 deep": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "101 deep": b"[" * 101 + b"]" * 101,
    "the same key twice": b'{"a": 1, "a": 2}',
    "bytes that are no UTF-8": b'"\xff\xfe"',
    "a surrogate in UTF-8": b'"\xed\xa0\xbd"',
    "no JSON": b"hello",
    "single quotes": b"'a'",
    "a trailing comma": b"[1,]",
    "nothing": b"",
    "a control character": b'"\x01"',
    "two values": b"1 2",
}


def body_with(content: bytes, name: bytes = b"content", rest: bytes = b"") -> bytes:
    """A body around a content, byte for byte."""
    return b'{"' + name + b'": ' + content + rest + b"}"


def post(client: httpx.Client, path: str, body: bytes) -> httpx.Response:
    """Post the very bytes."""
    return client.post(path, content=body, headers={"Content-Type": "application/json"})


@pytest.mark.parametrize("content", KEPT.values(), ids=KEPT.keys())
def test_a_content_is_kept_without_loss_as_message_event_and_answer(
    client: httpx.Client, thread: str, content: bytes
) -> None:
    """It goes through the log, a handler and back; no frame of a stream is split by it."""
    expected = json.loads(content)
    response = post(client, path_of(thread, "/messages"), body_with(content))
    assert response.status_code == 202, response.text
    log = sent_and_done(client, thread, "after it")
    assert log[0]["body"]["content"] == expected
    assert repr(log[0]["body"]["content"]) == repr(expected)
    answers = [entry["body"]["answer"] for entry in log if entry["kind"] == "run_ended"]
    assert repr(answers[0]) == repr(expected)


@pytest.mark.parametrize("content", REFUSED.values(), ids=REFUSED.keys())
def test_a_content_that_cannot_be_kept_is_refused_with_the_reason(
    client: httpx.Client, thread: str, content: bytes
) -> None:
    """422 and a sentence; the thread does not come to be, and takes its next message."""
    response = post(client, path_of(thread, "/messages"), body_with(content))
    assert response.status_code == 422, response.text[:300]
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["type"] == "urn:turnkeeper:problem:invalid-content"
    assert len(response.json()["detail"]) > 20
    assert len(response.content) < 1000
    assert client.get(path_of(thread)).status_code == 404
    assert sent_and_done(client, thread, "next")[0]["seq"] == 1


def asked(client: httpx.Client, thread: str, form: str = "free") -> str:
    """Pause a thread on a question, and return the question's id."""
    client.post(path_of(thread, "/messages"), json={"content": {"do": "ask", "asks": [form]}})
    questions: list[dict[str, Any]] = []

    def is_paused() -> bool:
        questions[:] = client.get(path_of(thread)).json()["questions"]
        return bool(questions)

    assert eventually(is_paused)
    found: str = questions[0]["question_id"]
    return found


@pytest.mark.parametrize("content", KEPT.values(), ids=KEPT.keys())
def test_an_answer_is_kept_without_loss(client: httpx.Client, thread: str, content: bytes) -> None:
    """The same values, as the answer to a free question."""
    question = asked(client, thread)
    rest = b', "question_id": ' + json.dumps(question).encode()
    response = post(client, path_of(thread, "/answers"), body_with(content, b"answer", rest))
    assert response.status_code == 202, response.text
    log = sent_and_done(client, thread, "after it")
    ended = [entry["body"] for entry in log if entry["kind"] == "run_ended" and entry["body"]["outcome"] == "completed"]
    assert repr(ended[0]["answer"]) == repr([["answered", json.loads(content)]])


@pytest.mark.parametrize("content", REFUSED.values(), ids=REFUSED.keys())
def test_an_answer_that_cannot_be_kept_is_refused_and_the_question_stays_open(
    client: httpx.Client, thread: str, content: bytes
) -> None:
    """A bad answer must not cost the question."""
    question = asked(client, thread)
    rest = b', "question_id": ' + json.dumps(question).encode()
    response = post(client, path_of(thread, "/answers"), body_with(content, b"answer", rest))
    assert response.status_code == 422
    assert client.get(path_of(thread)).json()["questions"][0]["resolution"] == "open"


@pytest.mark.parametrize("size", [BODY_BYTES_MAX + 1, 1_153_434, 50 * 1_048_576], ids=["1 over", "1.1 MiB", "50 MiB"])
@pytest.mark.parametrize("is_chunked", [False, True], ids=["length", "chunked"])
def test_a_body_over_the_limit_gets_413_whether_or_not_its_length_is_given(
    client: httpx.Client, thread: str, size: int, *, is_chunked: bool
) -> None:
    """The client reads the answer, not a reset connection."""

    def parts() -> Iterator[bytes]:
        left = size
        while left:
            part = min(left, 65536)
            left -= part
            yield b"x" * part

    content = parts() if is_chunked else b"x" * size
    headers = {"Content-Type": "application/json"}
    response = client.post(path_of(thread, "/messages"), content=content, headers=headers)
    assert response.status_code == 413
    assert response.json()["type"] == "urn:turnkeeper:problem:too-large"
    assert sent_and_done(client, thread, "next")[0]["seq"] == 1


def test_a_content_that_grows_over_the_limit_as_it_is_stored_gets_413(client: httpx.Client, thread: str) -> None:
    """Stored as ASCII, an emoji is three times as large as it came."""
    body = json.dumps({"content": "\U0001f600" * 100_000}, ensure_ascii=False).encode()
    assert len(body) < CONTENT_BYTES_MAX
    response = post(client, path_of(thread, "/messages"), body)
    assert response.status_code == 413
    assert "as stored" in response.json()["detail"]


def test_a_chunked_body_within_the_limit_is_taken(client: httpx.Client, thread: str) -> None:
    """No length is needed."""
    body = iter([b'{"con', b'tent": ', b'"hello"}'])
    headers = {"Content-Type": "application/json"}
    assert client.post(path_of(thread, "/messages"), content=body, headers=headers).status_code == 202
    assert client.get(path_of(thread, "/log")).json()["entries"][0]["body"]["content"] == "hello"


def test_a_length_that_lies_does_not_hurt(served: Served, client: httpx.Client, thread: str) -> None:
    """Too short: the rest is no part of the message. Too long: nothing is recorded."""
    head = f"POST {path_of(thread, '/messages')} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    body = b'{"content": "hello"}'
    status, _, _ = raw_call(served, f"{head}Content-Length: 5\r\nConnection: close\r\n\r\n".encode() + body)
    assert status == 422
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.sendall(f"{head}Content-Length: 500\r\n\r\n".encode() + body)
    assert client.get(path_of(thread)).status_code == 404
    assert sent_and_done(client, thread, "next")[0]["seq"] == 1


def test_a_body_that_does_not_arrive_is_not_waited_for_for_ever(
    served: Served, thread: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that opens many such connections would otherwise fill the server."""
    monkeypatch.setattr(body_module, "BODY_SECONDS_MAX", 0.05)
    head = f"POST {path_of(thread, '/messages')} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    status, headers, _ = raw_call(served, f"{head}Content-Length: 500\r\n\r\n".encode() + b"{")
    assert status == 408
    assert headers["connection"] == "close"


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "text/json",
        "application/json; charset=utf-16",
        "application/json; charset=iso-8859-1",
    ],
)
def test_a_body_of_another_type_gets_415(client: httpx.Client, thread: str, kind: str | None) -> None:
    """A page of another site can send these without being asked; JSON it can't."""
    headers = {} if kind is None else {"Content-Type": kind}
    response = client.post(path_of(thread, "/messages"), content=b'{"content": 1}', headers=headers)
    assert response.status_code == 415
    assert "application/json" in response.json()["detail"]


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON", 'application/json; charset="UTF-8"'])
def test_each_way_to_say_json_is_understood(client: httpx.Client, thread: str, kind: str) -> None:
    """As RFC 9110 writes media types."""
    response = client.post(path_of(thread, "/messages"), content=b'{"content": 1}', headers={"Content-Type": kind})
    assert response.status_code == 202


def test_a_compressed_body_gets_415(client: httpx.Client, thread: str) -> None:
    """It would be taken for something else, and could grow without end."""
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert client.post(path_of(thread, "/messages"), content=b"x", headers=headers).status_code == 415

"""Streams: the join of all pieces is the log, an unfit position gets an answer, an end is an end (S22, S23)."""

import json
import socket
from typing import Any

import httpx
import pytest

from tests.api.served import Served, eventually, path_of, read_events, sent_and_done, serving
from turnkeeper.adapters.memory import MemoryStore
from turnkeeper.api import listen as listen_module
from turnkeeper.api import stream as stream_module
from turnkeeper.runner import stream as runner_stream

LONG = {"do": "emit", "count": 1000}


def frames(
    client: httpx.Client, thread: str, last_id: str | None = None, query: str = "", most: int = 10**9
) -> list[dict[str, str]]:
    """The frames of one stream, until it ends or `most` of them came."""
    headers = {} if last_id is None else {"Last-Event-ID": last_id}
    found: list[dict[str, str]] = []
    with client.stream("GET", path_of(thread, f"/events{query}"), headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        for frame in read_events(response):
            found.append(frame)
            if len(found) == most:
                break
    return found


def entries_of(found: list[dict[str, str]]) -> list[dict[str, Any]]:
    """The entries among frames."""
    return [json.loads(frame["data"]) for frame in found if "id" in frame]


def test_the_stream_of_an_idle_thread_is_its_log_and_an_end(client: httpx.Client, thread: str) -> None:
    """The id is the seq, the event the kind, the data the entry; `end` has no id."""
    log = sent_and_done(client, thread, "hello")
    found = frames(client, thread)
    events = [frame for frame in found if "event" in frame]
    assert entries_of(found) == log
    assert [int(frame["id"]) for frame in events[:-1]] == [entry["seq"] for entry in log]
    assert [frame["event"] for frame in events[:-1]] == [entry["kind"] for entry in log]
    assert events[-1] == {"event": "end", "data": json.dumps({"head": len(log)}, separators=(",", ":"))}


def test_a_stream_begun_before_the_turn_sees_it_live(client: httpx.Client, thread: str) -> None:
    """The frames come as the entries are written, not at the end."""
    client.post(path_of(thread, "/messages"), json={"content": {"do": "steer"}})
    with client.stream("GET", path_of(thread, "/events")) as response:
        live = read_events(response)
        kinds = [next(live).get("event") for _ in range(3)]
        assert kinds == [None, "message", "run_started"]
        client.post(path_of(thread, "/messages"), json={"content": "left"})
        rest = [frame["event"] for frame in live]
    assert rest == ["message", "run_ended", "end"]


@pytest.mark.parametrize("cuts", [(1,), (2,), (3,), (4, 5), (7, 1, 1), (1003, 1), (1004,), (1005,)])
def test_pieces_cut_after_any_frame_join_to_the_log(client: httpx.Client, thread: str, cuts: tuple[int, ...]) -> None:
    """After the first frame, a message, a start, events, the end; also two cuts in a row before anything came."""
    log = sent_and_done(client, thread, LONG)
    joined: list[dict[str, Any]] = []
    last_id: str | None = None
    for most in (*cuts, 10**9):
        if last_id == str(len(log)):
            break
        piece = entries_of(frames(client, thread, last_id, most=most))
        joined += piece
        last_id = str(piece[-1]["seq"]) if piece else last_id
    assert joined == log


def test_a_resume_during_the_turn_goes_on_with_the_next_entry(client: httpx.Client, thread: str) -> None:
    """Not with what was seen, and not past what was not."""
    client.post(path_of(thread, "/messages"), json={"content": {"do": "steer"}})
    with client.stream("GET", path_of(thread, "/events"), headers={"Last-Event-ID": "1"}) as response:
        live = read_events(response)
        assert [next(live).get("id") for _ in range(2)] == [None, "2"]
        client.post(path_of(thread, "/messages"), json={"content": "left"})
        assert [frame.get("id") for frame in live] == ["3", "4", None]


@pytest.mark.parametrize("position", ["abc", "-1", "1" + "0" * 30, "1.0", "+1", "01", "1 2", "0x1", "9007199254740992"])
@pytest.mark.parametrize("where", ["header", "query"])
def test_a_position_that_is_none_gets_400_and_the_rule(
    client: httpx.Client, thread: str, position: str, where: str
) -> None:
    """Never silence, and never a guess."""
    sent_and_done(client, thread, 1)
    headers = {"Last-Event-ID": position} if where == "header" else {}
    params = {"after": position} if where == "query" else {}
    response = client.get(path_of(thread, "/events"), headers=headers, params=params)
    assert response.status_code == 400
    assert response.json()["type"] == "urn:turnkeeper:problem:malformed-position"
    assert "whole number from 0" in response.json()["detail"]


def test_an_empty_last_event_id_means_none_and_an_empty_after_is_none(client: httpx.Client, thread: str) -> None:
    """A browser sends the first after a frame with an empty id; nobody sends the second but by mistake."""
    log = sent_and_done(client, thread, 1)
    assert entries_of(frames(client, thread, "")) == log
    assert client.get(path_of(thread, "/events?after=")).status_code == 400


@pytest.mark.parametrize(("last_id", "query"), [("0", ""), (None, "?after=0"), (None, "")])
def test_zero_or_nothing_is_the_start(client: httpx.Client, thread: str, last_id: str | None, query: str) -> None:
    """Each way to say so."""
    log = sent_and_done(client, thread, 1)
    assert entries_of(frames(client, thread, last_id, query)) == log


def test_the_header_goes_before_the_query(client: httpx.Client, thread: str) -> None:
    """A browser that resumes keeps its first address: the header is the newer of the two."""
    log = sent_and_done(client, thread, 1)
    assert entries_of(frames(client, thread, "2", "?after=0")) == log[2:]
    assert entries_of(frames(client, thread, None, "?after=2")) == log[2:]


@pytest.mark.parametrize("beyond", [1, 1000])
def test_a_position_beyond_the_head_gets_a_reset_and_the_log_from_its_start(
    client: httpx.Client, thread: str, beyond: int
) -> None:
    """An id of another thread, or of a log that was cleaned up: the client is told that it starts over."""
    log = sent_and_done(client, thread, 1)
    found = frames(client, thread, str(len(log) + beyond))
    resets = [frame for frame in found if frame.get("event") == "reset"]
    assert [json.loads(frame["data"]) for frame in resets] == [{"head": len(log)}]
    assert "id" not in resets[0]
    assert entries_of(found) == log


@pytest.mark.parametrize("where", ["header", "query"])
def test_a_resume_at_the_end_of_an_idle_thread_gets_204(client: httpx.Client, thread: str, where: str) -> None:
    """It is the one answer at which a browser's EventSource stops."""
    head = str(len(sent_and_done(client, thread, 1)))
    headers = {"Last-Event-ID": head} if where == "header" else {}
    params = {"after": head} if where == "query" else {}
    response = client.get(path_of(thread, "/events"), headers=headers, params=params)
    assert (response.status_code, response.content) == (204, b"")


def test_a_thread_that_does_not_exist_has_no_stream(client: httpx.Client, thread: str) -> None:
    """404, not a stream that never says anything."""
    response = client.get(path_of(thread, "/events?follow=true"))
    assert response.status_code == 404
    assert response.json()["thread"] == thread


def test_a_stream_that_follows_stays_open_and_sees_the_next_turn(client: httpx.Client, thread: str) -> None:
    """Also where it was resumed at the end."""
    head = len(sent_and_done(client, thread, 1))
    with client.stream("GET", path_of(thread, f"/events?follow=true&after={head}")) as response:
        live = read_events(response)
        assert "retry" in next(live)
        client.post(path_of(thread, "/messages"), json={"content": 2})
        found = [next(live) for _ in range(3)]
    assert [frame["event"] for frame in found] == ["message", "run_started", "run_ended"]


def test_heartbeats_are_comments_and_come_within_fifteen_seconds(
    client: httpx.Client, thread: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have no id, so a client that resumes after one resumes after the last entry."""
    assert runner_stream.HEARTBEAT_SECONDS < 15
    monkeypatch.setattr(runner_stream, "HEARTBEAT_SECONDS", 0.01)
    sent_and_done(client, thread, 1)
    with client.stream("GET", path_of(thread, "/events?follow=true&after=1")) as response:
        found = [frame for frame, _ in zip(read_events(response), range(6), strict=False)]
    assert found[-1] == {"": "heartbeat"}


def test_a_resume_at_another_life_of_the_server_goes_on_where_it_was(thread: str) -> None:
    """The position is a place in the log, not in a server's memory."""
    store = MemoryStore()
    with serving(store=store) as first, httpx.Client(base_url=first.url, trust_env=False) as client:
        log = sent_and_done(client, thread, LONG)
        seen = entries_of(frames(client, thread, most=500))
    with serving(store=store) as second, httpx.Client(base_url=second.url, trust_env=False) as client:
        rest = entries_of(frames(client, thread, str(seen[-1]["seq"])))
    assert seen + rest == log


def test_streams_that_went_away_leave_nothing_behind(served: Served, client: httpx.Client, thread: str) -> None:
    """No task, no watch: the counts return to what they were."""
    sent_and_done(client, thread, 1)
    assert eventually(lambda: served.doors.streams.open == 0)
    request = f"GET {path_of(thread, '/events?follow=true')} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    connections = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(50)]
    for connection in connections:
        connection.sendall(request)
    assert eventually(lambda: served.doors.streams.open == 50)
    assert eventually(lambda: len(served.hints._watches[thread]) == 50)
    for connection in connections:
        connection.close()
    assert eventually(lambda: served.doors.streams.open == 0)
    assert thread not in served.hints._watches


def test_a_client_that_reads_nothing_costs_a_frame_and_is_cut(
    served: Served, client: httpx.Client, thread: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server does not read ahead of it; a good client beside it sees everything."""
    monkeypatch.setattr(stream_module, "SEND_SECONDS_MAX", 0.3)
    big = {"do": "emit", "count": 300, "event": "x" * 50_000}
    log = sent_and_done(client, thread, big)
    reads: list[int] = []
    journal_log = served.journal.log

    async def counted(thread_id: str, after: int, limit: int) -> Any:  # noqa: ANN401 - what the journal returns
        reads.append(after)
        return await journal_log(thread_id, after, limit)

    monkeypatch.setattr(served.journal, "log", counted)
    assert eventually(lambda: served.doors.streams.open == 0)
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", served.port))
        slow.sendall(f"GET {path_of(thread, '/events')} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert eventually(lambda: bool(reads))
        assert eventually(lambda: served.doors.streams.open == 1)
        assert eventually(lambda: served.doors.streams.open == 0)
        assert reads == [0]
        assert entries_of(frames(client, thread)) == log


def test_open_streams_do_not_hold_up_a_shutdown(thread: str) -> None:
    """They end without an `end`, so their clients resume elsewhere."""
    with serving() as served, httpx.Client(base_url=served.url, trust_env=False) as client:
        sent_and_done(client, thread, 1)
        with client.stream("GET", path_of(thread, "/events?follow=true")) as response:
            live = read_events(response)
            seen = [next(live) for _ in range(4)]
            served.stop()
            seen += list(live)
    assert [frame.get("event") for frame in seen] == [None, "message", "run_started", "run_ended"]


def test_no_content_can_split_a_frame(client: httpx.Client, thread: str) -> None:
    """Neither line breaks of any kind, nor what looks like fields; the bytes of a frame are ASCII."""
    content = "\r\n\r\ndata: x\n\nid: 99\nevent: end\n\n\u2028\u2029\x85\x0b\x0c\x1c"
    sent_and_done(client, thread, content)
    with client.stream("GET", path_of(thread, "/events")) as response:
        raw = b"".join(response.iter_raw())
    assert raw.isascii()
    blocks = [block.split(b"\n") for block in raw.decode().encode().split(b"\n\n") if block]
    ids = [line for block in blocks for line in block if line.startswith(b"id:")]
    assert ids == [f"id: {number}".encode() for number in range(1, len(ids) + 1)]
    data = [line.removeprefix(b"data: ") for block in blocks for line in block if line.startswith(b"data:")]
    assert json.loads(data[0])["body"]["content"] == content


def test_the_connection_of_a_client_that_reads_nothing_goes_away_too(
    thread: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A close waits for the last byte to leave, which it never does: the kernel gives it up."""
    monkeypatch.setattr(stream_module, "SEND_SECONDS_MAX", 0.2)
    monkeypatch.setattr(listen_module, "UNSENT_SECONDS_MAX", 1)
    with serving() as served, socket.socket() as slow:
        with httpx.Client(base_url=served.url, trust_env=False) as client:
            sent_and_done(client, thread, {"do": "emit", "count": 300, "event": "x" * 50_000})
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", served.port))
        slow.sendall(f"GET {path_of(thread, '/events')} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert eventually(lambda: served.doors.streams.open == 1)
        assert eventually(lambda: not served._server.server_state.connections, 30)

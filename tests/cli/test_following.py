"""Following a thread through cuts, and finding the end of a message's turn."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.api.served import Served, path_of, sent_and_done, serving
from turnkeeper.adapters.memory import MemoryStore
from turnkeeper.cli.client import CutError, Event, RunnerClient, parse_events
from turnkeeper.cli.exits import CommandError, ExitCode
from turnkeeper.cli.following import GIVE_UP_SECONDS, LAST_GAP_SECONDS, Follower, Waiting
from turnkeeper.cli.output import visible


@dataclass
class ScriptedClient(RunnerClient):
    """Answers each call for events with the next script; an exception in it is raised."""

    scripts: list[list[Event | CutError]]
    asked: list[int] = field(default_factory=list)
    url: str = "http://runner"

    def events(self, thread: str, after: int, *, follow: bool) -> Iterator[Event]:
        """See `RunnerClient`."""
        del thread, follow
        self.asked.append(after)
        for event in self.scripts.pop(0):
            if isinstance(event, CutError):
                raise event
            yield event


@dataclass
class Time:
    """A clock that moves when somebody sleeps."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.slept.append(seconds)
        self.now += seconds

    def monotonic(self) -> float:
        """The time."""
        return self.now


def entry(seq: int) -> Event:
    """An entry's event."""
    return Event("event", {"seq": seq}, seq)


CUT, END = CutError("cut"), Event("end", {"head": 3}, None)


def cuts(count: int) -> list[list[Event | CutError]]:
    """So many tries in which nothing comes."""
    return [[CUT] for _ in range(count)]


def followed(scripts: list[list[Event | CutError]], time: Time) -> tuple[list[int], list[int]]:
    """The seqs that were yielded, and the positions that were asked for."""
    client = ScriptedClient(scripts)
    follower = Follower(client, "t", sleep=time.sleep, monotonic=time.monotonic)
    return [each["seq"] for each in follower.entries()], client.asked


def test_a_stream_that_was_cut_goes_on_from_the_last_entry() -> None:
    """Each entry once, also through two cuts in a row."""
    seen, asked = followed([[entry(1), CUT], [CUT], [entry(2), CUT], [entry(3), END]], Time())
    assert (seen, asked) == ([1, 2, 3], [0, 1, 1, 2])


def test_a_reset_starts_over_from_the_start() -> None:
    """A cut right after it must not go back to the old position."""
    reset = Event("reset", {"head": 2}, None)
    seen, asked = followed([[entry(7), CUT], [reset, CUT], [entry(1), entry(2), END]], Time())
    assert (seen, asked) == ([7, 1, 2], [0, 7, 0])


def test_the_gaps_between_tries_grow_are_jittered_and_bounded() -> None:
    """So that the clients of a runner that went away do not come back in step."""
    time = Time()
    followed([[entry(1), CUT], *cuts(12), [END]], time)
    assert time.slept[0] < time.slept[3] < time.slept[5]
    assert max(time.slept) <= LAST_GAP_SECONDS
    assert len({round(gap, 6) for gap in time.slept}) == len(time.slept)


def test_it_gives_up_in_the_end_and_says_where() -> None:
    """With code 3."""
    time = Time()
    with pytest.raises(CommandError) as caught:
        followed([[entry(5), CUT], *cuts(1000)], time)
    assert caught.value.code is ExitCode.UNREACHABLE
    assert "seq 5" in str(caught.value)
    assert GIVE_UP_SECONDS < time.now < GIVE_UP_SECONDS + 2 * LAST_GAP_SECONDS


def test_a_first_failure_is_told_at_once() -> None:
    """A wrong address is not a runner that will come back."""
    time = Time()
    with pytest.raises(CommandError):
        followed([[CUT]], time)
    assert time.slept == []


def test_a_restart_of_the_server_loses_nothing(thread: str) -> None:
    """The real thing: the first server stops in the middle, a second takes its port over."""
    store = MemoryStore()
    with serving(store=store) as first:
        with httpx.Client(base_url=first.url, trust_env=False) as client:
            log = sent_and_done(client, thread, {"do": "emit", "count": 50})
        second = Served(port=first.port, store=store)

        def restart(seconds: float) -> None:
            del seconds
            second.start()

        seen: list[int] = []
        with RunnerClient(first.url) as runner:
            follower = Follower(runner, thread, follow=True, is_quiet=True, sleep=restart)
            for each in follower.entries():
                seen.append(each["seq"])
                if each["seq"] == len(log):
                    first.stop()
                    follower.follow = False
        second.stop()
    assert seen == [each["seq"] for each in log]


STARTED = {"seq": 2, "kind": "run_started", "run_id": "r1", "body": {"turn_id": "r1", "prompts": [1]}}
AGAIN = {"seq": 4, "kind": "run_started", "run_id": "r2", "body": {"turn_id": "r1", "prompts": [1]}}


def run_ended(outcome: str, run_id: str = "r1", used: list[int] | None = None, **body: object) -> dict[str, Any]:
    """A run's end."""
    body = {"outcome": outcome, "reason": "why", "used": used or [], **body}
    return {"seq": 9, "kind": "run_ended", "run_id": run_id, "body": body}


DONE = {"outcome": "completed", "reason": "why", "answer": 1}
CASES: dict[str, tuple[int, list[dict[str, Any]], dict[str, Any] | None]] = {
    "started and completed": (1, [STARTED, run_ended("completed", answer=1)], DONE),
    "failed": (1, [STARTED, run_ended("failed")], {"outcome": "failed", "reason": "why"}),
    "abandoned is not the end": (1, [STARTED, run_ended("abandoned")], None),
    "nor is interrupted": (1, [STARTED, run_ended("interrupted")], None),
    "the next attempt is": (1, [STARTED, run_ended("abandoned"), AGAIN, run_ended("completed", "r2", answer=1)], DONE),
    "another turn's end is not ours": (3, [STARTED, run_ended("completed", answer=2)], None),
    "steered into a run that began before": (3, [run_ended("completed", used=[3], answer=1)], DONE),
    "steering that was not used waits": (3, [run_ended("completed", used=[], answer=1)], None),
    "used by a run that was interrupted": (
        3,
        [run_ended("interrupted", used=[3]), AGAIN, run_ended("completed", "r2", answer=1)],
        DONE,
    ),
    "parked": (
        1,
        [STARTED, {"seq": 5, "kind": "turn_parked", "body": {"turn_id": "r1", "reason": "dead", "messages": [1]}}],
        {"outcome": "parked", "reason": "dead"},
    ),
    "stopped while paused": (
        1,
        [STARTED, {"seq": 5, "kind": "turn_stopped", "body": {"turn_id": "r1"}}],
        {"outcome": "stopped", "reason": ""},
    ),
    "another turn stopped": (1, [STARTED, {"seq": 5, "kind": "turn_stopped", "body": {"turn_id": "r0"}}], None),
}


@pytest.mark.parametrize(("seq", "entries", "expected"), CASES.values(), ids=CASES.keys())
def test_the_end_of_a_messages_turn_is_found_in_the_log(
    seq: int, entries: list[dict[str, Any]], expected: dict[str, Any] | None
) -> None:
    """A table of logs."""
    waiting = Waiting(seq)
    results = [waiting.feed(each) for each in entries]
    assert results[:-1] == [None] * (len(entries) - 1)
    assert results[-1] == expected


def test_events_are_parsed_and_comments_are_passed_over() -> None:
    """Fields in any order, with or without the space."""
    lines = [
        "retry: 1000",
        "",
        ": heartbeat",
        "",
        "id: 1",
        "event: message",
        'data: {"seq": 1}',
        "",
        "event:end",
        "data:{}",
        "",
    ]
    assert list(parse_events(iter(lines))) == [Event("message", {"seq": 1}, 1), Event("end", {}, None)]


def mocked(answer: Callable[[httpx.Request], httpx.Response]) -> RunnerClient:
    """A client whose calls end in a function."""
    client = RunnerClient("http://runner")
    client._http = httpx.Client(transport=httpx.MockTransport(answer))
    return client


@pytest.mark.parametrize("fault", [httpx.ReadError("reset"), httpx.ReadTimeout("slow"), 503])
def test_a_message_whose_answer_was_lost_is_sent_again_under_its_id(
    monkeypatch: pytest.MonkeyPatch, fault: Exception | int
) -> None:
    """Which is always safe, as the id is the same."""
    time, bodies = Time(), []
    monkeypatch.setattr("turnkeeper.cli.client.time.sleep", time.sleep)

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        if len(bodies) < 3:
            if isinstance(fault, Exception):
                raise fault
            return httpx.Response(fault, json={"detail": "away"})
        return httpx.Response(200, json={"seq": 1})

    client = mocked(answer)
    assert client.send("/x", {"content": 1, "message_id": "m"}) == {"seq": 1}
    assert bodies == [{"content": 1, "message_id": "m"}] * 3
    assert len(time.slept) == 2


def test_it_stops_sending_in_the_end_and_tells_the_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a person can go on where it stopped."""
    monkeypatch.setattr("turnkeeper.cli.client.time.sleep", Time().sleep)

    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("reset", request=request)

    client = mocked(answer)
    with pytest.raises(CommandError) as caught:
        client.send("/x", {"content": 1, "message_id": "m-7"})
    assert caught.value.code is ExitCode.UNREACHABLE
    assert "--message-id m-7" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 😀\n\t", "plain é 😀\n\t"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\x00\x7f\x9b", "a\\x00\\x7f\\x9b"),
        ("\u202e", "\\u202e"),
    ],
)
def test_control_characters_are_made_visible(text: str, shown: str) -> None:
    """And nothing else is touched."""
    assert visible(text) == shown


def test_a_served_thread_is_followed(served: Served, thread: str) -> None:
    """The path is escaped as the server wants it."""
    with httpx.Client(base_url=served.url, trust_env=False) as client:
        log = sent_and_done(client, thread, "x")
        assert client.get(path_of(thread)).status_code == 200
    with RunnerClient(served.url) as runner:
        assert list(Follower(runner, thread, follow=False).entries()) == log

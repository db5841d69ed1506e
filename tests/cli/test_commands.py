"""Each command against a real server: what it prints to a pipe and to a terminal, and how it ends."""

import io
import json
import sys
from typing import Any

import httpx
import pytest

from tests.api.served import Served, eventually, path_of, serving
from tests.cli.conftest import Command
from turnkeeper.cli.exits import ExitCode

TOKEN = "0123456789abcdef"  # noqa: S105 - made up for these tests


def typed(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    """Put bytes on standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))


def log_of(at: Command, thread: str) -> list[dict[str, Any]]:
    """A thread's log, by the command."""
    return [json.loads(line) for line in at("log", thread).out.splitlines()]


def paused(served: Served, thread: str, *asks: str) -> list[str]:
    """Pause a thread, and return its questions' ids."""
    with httpx.Client(base_url=served.url, trust_env=False) as client:
        client.post(path_of(thread, "/messages"), json={"content": {"do": "ask", "asks": list(asks)}})
        assert eventually(lambda: client.get(path_of(thread)).json()["state"] == "paused")
        return [question["question_id"] for question in client.get(path_of(thread)).json()["questions"]]


def test_send_waits_for_the_answer_and_prints_it(at: Command, thread: str) -> None:
    """To a terminal as it is, to a pipe as JSON."""
    ended = at("send", thread, "hello\nyou", "--wait", on_terminal=True)
    assert (ended.code, ended.out, ended.err) == (0, "hello\nyou\n", "")
    told = json.loads(at("send", thread, "again", "--wait").out)
    assert (told["outcome"], told["answer"], told["seq"]) == ("completed", "again", 4)


def test_send_reads_standard_input(at: Command, thread: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text as one string, without the line break that a shell adds; JSON where it is asked for."""
    typed(monkeypatch, "one\ntwo é\n".encode())
    assert at("send", thread).code == 0
    typed(monkeypatch, b'{"a": [1, null]}\n')
    assert at("send", thread, "--content-json").code == 0
    contents = [entry["body"]["content"] for entry in log_of(at, thread) if entry["kind"] == "message"]
    assert contents == ["one\ntwo é", {"a": [1, None]}]


@pytest.mark.parametrize("text", [b"\xff", b'"\xff"'])
@pytest.mark.parametrize("options", [(), ("--content-json",)])
def test_what_is_no_text_is_refused_before_it_is_sent(
    at: Command, thread: str, monkeypatch: pytest.MonkeyPatch, text: bytes, options: tuple[str, ...]
) -> None:
    """A sentence and code 2."""
    typed(monkeypatch, text)
    ended = at("send", thread, *options)
    assert ended.code == ExitCode.USAGE
    assert "UTF-8" in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("text", ["NaN", "{", '{"a":1,"a":2}', "1e309", "[" * 200 + "]" * 200])
def test_what_is_no_json_is_refused_before_it_is_sent(at: Command, thread: str, text: str) -> None:
    """By the same rule as the server's."""
    ended = at("send", thread, text, "--content-json")
    assert ended.code == ExitCode.USAGE
    assert ended.err.startswith("turnkeeper: content ")


def test_send_says_what_came_of_it(at: Command, thread: str) -> None:
    """And of the same again, and of another under the id: code 4."""
    first = at("send", thread, "x", "--message-id", "m-1", "--sender", "bob", "--mode", "queue", on_terminal=True)
    assert first.out.startswith("started: seq 1, message m-1, run ")
    again = at("send", thread, "x", "--message-id", "m-1", "--sender", "bob", "--mode", "queue", on_terminal=True)
    assert (again.code, "had m-1 already, at seq 1" in again.out) == (0, True)
    other = at("send", thread, "y", "--message-id", "m-1")
    assert other.code == ExitCode.CONFLICT
    assert "what stands:" in other.err


def test_wait_finds_the_end_of_a_turn_that_was_over_before(at: Command, thread: str) -> None:
    """The same message sent again, by a script that lost its answer."""
    first = json.loads(at("send", thread, "x", "--message-id", "m-1", "--wait").out)
    again = json.loads(at("send", thread, "x", "--message-id", "m-1", "--wait").out)
    assert (first["answer"], again["answer"], again["outcome"]) == ("x", "x", "completed")


def test_wait_on_a_failed_turn_is_code_1_with_the_reason(at: Command, thread: str) -> None:
    """The message was taken; its turn failed."""
    ended = at("send", thread, '{"do": "fail"}', "--content-json", "--wait", on_terminal=True)
    assert (ended.code, ended.out) == (ExitCode.FAILED, "")
    assert "it went wrong" in ended.err


def test_wait_on_a_turn_that_asks_is_code_5_with_the_question(at: Command, thread: str) -> None:
    """And says how to answer."""
    content = '{"do": "ask", "asks": ["approval"]}'
    ended = at("send", thread, content, "--content-json", "--wait", on_terminal=True)
    assert (ended.code, ended.out) == (ExitCode.PAUSED, "which?\n")
    assert "--approve or --deny" in ended.err


def test_a_note_has_nothing_to_wait_for(at: Command, thread: str) -> None:
    """Said before it is sent."""
    assert at("send", thread, "x", "--mode", "note", "--wait").code == ExitCode.USAGE
    assert at("log", thread).code == ExitCode.FAILED


@pytest.mark.parametrize(
    ("options", "resolution"),
    [(("--approve",), "approved"), (("--deny",), "denied")],
)
def test_answer_resolves_an_approval_once(
    at: Command, served: Served, thread: str, options: tuple[str, ...], resolution: str
) -> None:
    """The second is told what stands, by code 4."""
    (question,) = paused(served, thread, "approval")
    ended = at("answer", thread, question, *options, on_terminal=True)
    assert (ended.code, ended.out) == (0, f"{question}: {resolution}\n")
    late = at("answer", thread, question, "--approve")
    assert late.code == ExitCode.CONFLICT
    assert resolution in late.err


def test_answer_answers_a_question_with_text_or_json(at: Command, served: Served, thread: str) -> None:
    """As send does."""
    first, second = paused(served, thread, "free", "free")
    assert at("answer", thread, first, "blue").code == 0
    assert at("answer", thread, second, "[1]", "--content-json").code == 0
    answers = [entry["body"]["answer"] for entry in log_of(at, thread) if entry["kind"] == "answer"]
    assert answers == ["blue", [1]]
    assert at("answer", thread, second, "x", "--approve").code == ExitCode.USAGE


def test_stop_stops_a_run(at: Command, thread: str) -> None:
    """Code 4 once it has ended, 1 where there is none."""
    run = json.loads(at("send", thread, '{"do": "hold"}', "--content-json").out)["run_id"]
    assert at("stop", run, on_terminal=True).out == f"{run}: is being stopped\n"
    assert at("watch", thread, "--until-idle").code == 0
    assert at("stop", run).code == ExitCode.CONFLICT
    assert at("stop", "none").code == ExitCode.FAILED


def test_log_and_watch_print_the_same_log(at: Command, thread: str) -> None:
    """One object a line into a pipe, one line each on a terminal."""
    at("send", thread, "hello", "--wait")
    log = log_of(at, thread)
    watched = [json.loads(line) for line in at("watch", thread, "--until-idle").out.splitlines()]
    assert [entry["seq"] for entry in log] == [1, 2, 3]
    assert watched == log
    assert log_of(at, thread)[1:] == [json.loads(line) for line in at("log", thread, "--after", "1").out.splitlines()]
    assert len(at("log", thread, "--limit", "2").out.splitlines()) == 2
    lines = at("log", thread, on_terminal=True).out.splitlines()
    assert [line.split()[3] for line in lines] == ["message", "run_started", "run_ended"]


def test_a_long_log_is_read_to_its_end(at: Command, thread: str) -> None:
    """Over as many pages as it has."""
    at("send", thread, '{"do": "emit", "count": 1200}', "--content-json", "--wait")
    assert [entry["seq"] for entry in log_of(at, thread)] == list(range(1, 1204))


def test_threads_lists_all_of_them_or_one(at: Command, served: Served, thread: str) -> None:
    """With the ids as they are."""
    (question,) = paused(served, thread, "free")
    rows = [json.loads(line) for line in at("threads", "--state", "paused").out.splitlines()]
    assert thread in [row["thread"] for row in rows]
    assert {row["state"] for row in rows} == {"paused"}
    assert len(at("threads", "--limit", "1").out.splitlines()) == 1
    table = at("threads", on_terminal=True).out
    assert table.index("THREAD") < table.index("STATE") < table.index(thread[:4])
    one = at("threads", thread, on_terminal=True).out
    assert question in one
    assert f"{thread}: paused" in one


def test_other_peoples_words_cannot_steer_the_terminal(at: Command, thread: str) -> None:
    """Escape sequences are shown, not obeyed; also in an id."""
    nasty = "\x1b]0;owned\x07\x1b[2Jred\u202e"
    at("send", thread, json.dumps(nasty), "--content-json", "--sender", f"{thread}\u202e", "--wait")
    for ended in (
        at("log", thread, on_terminal=True),
        at("send", thread, json.dumps(nasty), "--content-json", "--wait", on_terminal=True),
    ):
        assert "\\x1b" in ended.out
        assert not {"\x1b", "\x07", "\u202e"} & set(ended.out)


def test_recover_reports(at: Command) -> None:
    """What it did."""
    assert json.loads(at("recover", "--limit", "5").out)["complete"] is True
    assert "0 started" in at("recover", on_terminal=True).out


def test_parked_is_a_command_of_its_own(at: Command, thread: str) -> None:
    """Nothing is parked in an orderly thread."""
    at("send", thread, "x", "--wait")
    assert at("parked", "list", thread).out == ""
    for action in ("retry", "drop"):
        ended = at("parked", action, thread, "3")
        assert (ended.code, "no turn parked at 3" in ended.err) == (ExitCode.FAILED, True)


@pytest.mark.parametrize("thread_id", ["", ".", "..", "a\nb", "x" * 513])
def test_an_id_that_breaks_the_rule_is_refused_with_it(at: Command, thread_id: str) -> None:
    """Before anything is sent."""
    for command in (("send", thread_id, "x"), ("log", thread_id), ("watch", thread_id), ("threads", thread_id)):
        ended = at(*command)
        assert ended.code == ExitCode.USAGE
        assert "must be 1 to 512 bytes" in ended.err


def test_a_runner_with_tokens_is_given_one(cli: Command, thread: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the option or the environment; without, the server's refusal is told."""
    with serving(tokens=[TOKEN]) as served:
        refused = cli("send", thread, "x", "--url", served.url)
        assert (refused.code, "Authorization" in refused.err) == (ExitCode.FAILED, True)
        assert cli("send", thread, "x", "--url", served.url, "--token", TOKEN).code == 0
        monkeypatch.setenv("TURNKEEPER_TOKEN", TOKEN)
        assert cli("watch", thread, "--until-idle", "--url", served.url).code == 0


@pytest.mark.parametrize(
    "command",
    [
        ("send", "t", "x"),
        ("log", "t"),
        ("watch", "t"),
        ("threads",),
        ("recover",),
        ("stop", "r"),
        ("answer", "t", "q", "x"),
    ],
)
def test_where_no_runner_answers_it_is_code_3_and_one_sentence(cli: Command, command: tuple[str, ...]) -> None:
    """Not a traceback."""
    ended = cli(*command, "--url", "http://127.0.0.1:9")
    assert ended.code == ExitCode.UNREACHABLE
    assert ended.err.startswith("turnkeeper: ")
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("url", ["ftp://x", "x", "", "http://"])
def test_a_url_that_is_none_is_code_2(cli: Command, url: str) -> None:
    """With the option's name."""
    ended = cli("threads", "--url", url)
    assert ended.code == ExitCode.USAGE
    assert "--url" in ended.err

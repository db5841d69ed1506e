"""The commands that read: threads, log, watch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any

import typer

from turnkeeper.cli.client import RunnerClient, thread_path
from turnkeeper.cli.following import Follower
from turnkeeper.cli.options import DEFAULT_URL, AsJson, Thread, Token, Url, runner_at
from turnkeeper.cli.output import entry_text, say, say_json, say_table, time_text, visible, wants_json
from turnkeeper.core.words import ThreadState

PAGE = 500
"""How many items one call asks for. Arbitrary: few calls, and the first lines come at once."""

After = Annotated[int, typer.Option(min=0, help="Only what comes after this seq.")]


def threads(
    thread: Annotated[str | None, typer.Argument(help="Show this one, with its questions and parked turns.")] = None,
    *,
    state: Annotated[ThreadState | None, typer.Option(help="Only threads in this state.")] = None,
    after: Annotated[str, typer.Option(help="Only threads whose id comes after this.")] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many; all of them if absent.")] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = "",
) -> None:
    """List the workspace's threads, or show one."""
    with runner_at(url, token) as client:
        if thread is not None:
            _show_thread(client.get(thread_path(thread)), is_json=wants_json(as_json))
            return
        found = islice(_threads(client, state, after), limit)
        if wants_json(as_json):
            for each in found:
                say_json(each)
            return
        columns = ["THREAD", "STATE", "SEQ", "ASKED", "TAKEN", "RUN", "QUESTIONS", "PARKED", "OWED SINCE"]
        say_table(columns, (_row(each) for each in found))


def _threads(client: RunnerClient, state: ThreadState | None, after: str) -> Iterator[dict[str, Any]]:
    at: str | None = after
    while at is not None:
        params: dict[str, str | int] = {"limit": PAGE}
        if at:
            params["after"] = at
        if state is not None:
            params["state"] = state.value
        page = client.get("/v1/threads", params)
        yield from page["threads"]
        at = page["next"]


def _row(thread: dict[str, Any]) -> list[str]:
    numbers = [str(thread[name]) for name in ("last_seq", "asked", "taken")]
    run = thread["run"]["run_id"] if thread["run"] else "-"
    waits = [str(thread["open_questions"]), str(thread["parked"]), time_text(thread["owed_since_ms"])]
    return [thread["thread"], thread["state"], *numbers, run, *waits]


def _show_thread(thread: dict[str, Any], *, is_json: bool) -> None:
    if is_json:
        say_json(thread)
        return
    say(f"{visible(thread['thread'])}: {thread['state']}, {thread['last_seq']} entries")
    if thread["run"]:
        stopping = ", being stopped" if thread["run"]["stop_asked"] else ""
        apart = ", begun apart from others" if thread["run"]["apart"] else ""
        say(f"run {thread['run']['run_id']}, attempt {thread['run']['attempt']}{apart}{stopping}")
    if thread["questions"]:
        rows = [[each["question_id"], each["ask"], each["text"]] for each in thread["questions"]]
        say_table(["QUESTION", "WANTS", "TEXT"], rows)
    if thread["parked_turns"]:
        rows = [[str(each["seq"]), each["turn_id"], each["reason"]] for each in thread["parked_turns"]]
        say_table(["PARKED AT", "TURN", "REASON"], rows)


def log(
    thread: Thread,
    *,
    after: After = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many entries; all of them if absent.")] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = "",
) -> None:
    """Print a thread's log as it stands."""
    is_json = wants_json(as_json)
    with runner_at(url, token) as client:
        for entry in islice(_entries(client, thread, after), limit):
            _say_entry(entry, is_json=is_json)


def _entries(client: RunnerClient, thread: str, after: int) -> Iterator[dict[str, Any]]:
    at: int | None = after
    while at is not None:
        page = client.get(f"{thread_path(thread)}/log", {"after": at, "limit": PAGE})
        yield from page["entries"]
        at = page["next"]


def watch(
    thread: Thread,
    *,
    after: After = 0,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End once no turn is coming.")] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = "",
) -> None:
    """Print a thread's log as it grows, until Ctrl-C. Where the stream is cut it goes on from the last entry."""
    is_json = wants_json(as_json)
    with runner_at(url, token) as client:
        for entry in Follower(client, thread, after=after, follow=not until_idle).entries():
            _say_entry(entry, is_json=is_json)


def _say_entry(entry: dict[str, Any], *, is_json: bool) -> None:
    if is_json:
        say_json(entry)
    else:
        say(entry_text(entry))

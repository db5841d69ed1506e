"""The commands that write: send, answer, stop, recover, and those about parked turns."""

from __future__ import annotations

import sys
import uuid
from typing import Annotated, Any, NoReturn

import typer

from turnkeeper.cli.client import RunnerClient, segment, thread_path
from turnkeeper.cli.exits import CommandError, ExitCode
from turnkeeper.cli.following import Follower, Waiting
from turnkeeper.cli.options import DEFAULT_URL, AsJson, ContentJson, Thread, Token, Url, examples, runner_at
from turnkeeper.cli.output import content_text, say, say_json, say_table, tell, wants_json
from turnkeeper.core.names import CONTENT_BYTES_MAX, parse_json
from turnkeeper.core.words import Mode
from turnkeeper.errors import InvalidInputError

parked = typer.Typer(no_args_is_help=True, help="List, retry or drop turns that were set aside after too many deaths.")


def send(  # noqa: PLR0913 - Typer makes one option of each parameter
    thread: Thread,
    message: Annotated[str | None, typer.Argument(help="The message; read from standard input if absent.")] = None,
    *,
    message_id: Annotated[str, typer.Option(help="Makes sending again safe; made up if absent.")] = "",
    sender: Annotated[str, typer.Option(help="Who sends it.")] = "",
    mode: Annotated[Mode, typer.Option(help="steer, queue or note.")] = Mode.STEER,
    content_json: ContentJson = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until its turn has ended, and print the answer.")] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = "",
) -> None:
    """Send a message to a thread.

    It is safe with the runner once this returns: what was asked is taken.
    A lost answer is asked for again, under the message's id.
    """
    if wait and mode is Mode.NOTE:
        raise CommandError("a note asks for no turn, so there is nothing to --wait for", ExitCode.USAGE)
    body: dict[str, Any] = {
        "content": read_content(message, is_json=content_json),
        "message_id": message_id or uuid.uuid4().hex,
        "mode": mode.value,
    }
    if sender:
        body["sender"] = sender
    with runner_at(url, token) as client:
        sent = client.send(f"{thread_path(thread)}/messages", body)
        if wait:
            _await_turn(client, thread, sent, as_json=wants_json(as_json))
    if wants_json(as_json):
        say_json(sent)
    elif "fate" in sent:
        say(f"{thread} had {sent['message_id']} already, at seq {sent['seq']}: {sent['fate']}")
    else:
        run = f", run {sent['run_id']}" if sent["run_id"] else ""
        say(f"{sent['outcome']}: seq {sent['seq']}, message {sent['message_id']}{run}")


def _await_turn(client: RunnerClient, thread: str, sent: dict[str, Any], *, as_json: bool) -> NoReturn:
    waiting = Waiting(sent["seq"])
    for entry in Follower(client, thread, after=sent["seq"] - 1).entries():
        ended = waiting.feed(entry)
        if ended is None:
            continue
        if ended["outcome"] == "paused":
            questions = client.get(thread_path(thread))["questions"]
            if not questions:
                continue  # a message that was on its way has answered: the turn goes on
            ended["questions"] = questions
        if as_json:
            say_json({**sent, **ended})
        else:
            _show_end(thread, ended)
        raise typer.Exit(_code_of(ended["outcome"]))
    raise CommandError(f"the stream of {thread!a} ended before the turn did")


def _code_of(outcome: str) -> ExitCode:
    return {"completed": ExitCode.OK, "paused": ExitCode.PAUSED}.get(outcome, ExitCode.FAILED)


def _show_end(thread: str, ended: dict[str, Any]) -> None:
    if ended["outcome"] == "completed":
        say(content_text(ended["answer"]))
    elif ended["outcome"] == "paused":
        tell("the turn asks:")
        for question in ended["questions"]:
            form = "--approve or --deny" if question["ask"] == "approval" else "TEXT"
            say(content_text(question["text"]))
            tell(f"answer it with: turnkeeper answer {thread} {question['question_id']} {form}")
    else:
        reason = f": {ended['reason']}" if ended["reason"] else ""
        tell(f"the turn ended {ended['outcome']}{reason}")


def read_content(text: str | None, *, is_json: bool) -> Any:  # noqa: ANN401 - it may be any JSON
    """Return what is to be sent, from the argument or standard input. Raises CommandError."""
    if text is None:
        if sys.stdin.isatty():
            tell("reading from the keyboard; end with Ctrl-D")
        raw = sys.stdin.buffer.read(CONTENT_BYTES_MAX * 4)
        try:
            text = raw.decode("utf-8") if is_json else raw.decode("utf-8").removesuffix("\n")
        except UnicodeDecodeError as error:
            raise CommandError(f"standard input is not UTF-8: {error.reason}", ExitCode.USAGE) from None
    if not is_json:
        return text
    try:
        return parse_json(text.encode("utf-8", "surrogateescape"))
    except InvalidInputError as error:
        raise CommandError(str(error), ExitCode.USAGE) from None


def answer(
    thread: Thread,
    question_id: Annotated[str, typer.Argument(help="The question's id, from `turnkeeper threads THREAD`.")],
    text: Annotated[str | None, typer.Argument(help="The answer to a free question; else standard input.")] = None,
    *,
    approved: Annotated[bool | None, typer.Option("--approve/--deny", help="The answer to an approval.")] = None,
    content_json: ContentJson = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = "",
) -> None:
    """Answer a question of a paused thread. Each is resolved once; exit code 4 says that it was before."""
    if approved is not None and (text is not None or content_json):
        raise CommandError("give a text (a free question) or --approve/--deny (an approval), not both", ExitCode.USAGE)
    body: dict[str, Any] = {"question_id": question_id}
    if approved is not None:
        body["approved"] = approved
    else:
        body["answer"] = read_content(text, is_json=content_json)
    with runner_at(url, token) as client:
        found = client.post(f"{thread_path(thread)}/answers", body)
    if wants_json(as_json):
        say_json(found)
    else:
        say(f"{found['question_id']}: {found['resolution']}")


def stop(
    run: Annotated[str, typer.Argument(help="The run's id, from `send`, `threads` or `log`.")],
    *,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = "",
) -> None:
    """Stop a run's turn. Exit code 4 says that the turn had ended before, and how."""
    with runner_at(url, token) as client:
        found = client.post(f"/v1/runs/{segment(run, 'run id')}/stop", {})
    if wants_json(as_json):
        say_json(found)
    else:
        say(f"{found['run_id']}: {'is being stopped' if found['is_running'] else 'stopped'}")


def recover(
    limit: Annotated[int | None, typer.Option(min=1, help="Take at most so many threads.")] = None,
    *,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = "",
) -> None:
    """Take every thread that is owed a turn, now. Runners do so by themselves on a schedule."""
    with runner_at(url, token) as client:
        found = client.post("/v1/recover", {} if limit is None else {"limit": limit})
    if wants_json(as_json):
        say_json(found)
    else:
        started = len(found["started"])
        rest = ", ".join(f"{found[name]} {name}" for name in ("held", "refused", "failed", "parked", "remaining"))
        say(f"{started} started, {rest}, in {found['seconds']:.2f} s")


@parked.command("list", epilog=examples("turnkeeper parked list alice"))
def parked_list(thread: Thread, *, as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = "") -> None:
    """List a thread's parked turns."""
    with runner_at(url, token) as client:
        turns = client.get(thread_path(thread))["parked_turns"]
    if wants_json(as_json):
        for turn in turns:
            say_json(turn)
    else:
        say_table(["SEQ", "TURN", "REASON"], [[str(turn["seq"]), turn["turn_id"], turn["reason"]] for turn in turns])


Seq = Annotated[int, typer.Argument(min=1, help="Where the turn was parked, from `turnkeeper parked list THREAD`.")]


@parked.command("retry", epilog=examples("turnkeeper parked retry alice 12"))
def parked_retry(
    thread: Thread, seq: Seq, *, as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = ""
) -> None:
    """Try a parked turn again, from its first attempt."""
    with runner_at(url, token) as client:
        _resolve(thread, seq, "retry", client, as_json=as_json)


@parked.command("drop", epilog=examples("turnkeeper parked drop alice 12"))
def parked_drop(
    thread: Thread, seq: Seq, *, as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = ""
) -> None:
    """Give a parked turn up."""
    with runner_at(url, token) as client:
        _resolve(thread, seq, "drop", client, as_json=as_json)


def _resolve(thread: str, seq: int, action: str, client: RunnerClient, *, as_json: bool) -> None:
    found = client.post(f"{thread_path(thread)}/parked/{seq}", {"action": action})
    if wants_json(as_json):
        say_json(found)
    else:
        say(f"{thread}: {action} of the turn parked at {seq}; the thread is {found['state']}")

"""What a command prints: tables for a person at a terminal, JSON for a pipe.

Other people's words are shown, so nothing in them may steer the terminal: control characters are made visible.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from turnkeeper.cli.exits import ExitCode

BODY_SHOWN = 400
"""Characters of an entry's body that a terminal shows. Arbitrary: some lines; the JSON has all."""


def wants_json(asked: bool) -> bool:
    """Whether to print JSON: asked for, or the output is no terminal."""
    return asked or not sys.stdout.isatty()


def say(line: str) -> None:
    """Print a line on standard output; leave quietly where nobody reads it any more."""
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        leave_closed_pipe()


def say_json(value: object) -> None:
    """Print one line of JSON."""
    say(json.dumps(value, ensure_ascii=True, separators=(", ", ": ")))


def tell(line: str) -> None:
    """Print a line on standard error."""
    sys.stderr.write(visible(line) + "\n")


def leave_closed_pipe() -> None:
    """End the command as `yes | head` ends `yes`. The interpreter's last flush must not complain either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise typer.Exit(ExitCode.PIPE_CLOSED)


def say_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    try:
        Console().print(table)
    except BrokenPipeError:
        leave_closed_pipe()


def visible(text: str) -> str:
    """Return text in which every control character but line breaks and tabs is written as an escape."""
    return "".join(char if char in "\n\t" or _is_shown(char) else ascii(char)[1:-1] for char in text)


def _is_shown(char: str) -> bool:
    code = ord(char)
    # Controls, and the marks that turn the direction of writing about.
    return not (code < 0x20 or 0x7F <= code <= 0x9F or 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069)  # noqa: PLR2004 - code points


def content_text(content: object) -> str:
    """Return a content as a person reads it: text as it is, anything else as JSON."""
    return visible(content) if isinstance(content, str) else visible(json.dumps(content, ensure_ascii=False))


def time_text(wall_ms: int | None) -> str:
    """Return a moment in the reader's time."""
    if wall_ms is None:
        return "-"
    return datetime.fromtimestamp(wall_ms / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def entry_text(entry: Mapping[str, Any]) -> str:
    """Return an entry as one line for a person."""
    body = dict(entry["body"])
    match entry["kind"]:
        case "message" | "note":
            told = f"{body.get('sender') or 'somebody'}: {content_text(body.get('content'))}"
        case "event":
            told = content_text(body.get("event"))
        case "run_ended":
            answer = f": {content_text(body['answer'])}" if "answer" in body else ""
            told = f"{body['outcome']}{answer}{' - ' + visible(body['reason']) if body.get('reason') else ''}"
        case "question":
            told = f"{body['question_id']} ({body['ask']}): {body['text']}"
        case _:
            told = json.dumps(body, ensure_ascii=False)
    told = visible(told)
    told = told if len(told) <= BODY_SHOWN else f"{told[:BODY_SHOWN]}… ({len(told)} characters)"
    return f"{entry['seq']:>6}  {time_text(entry['created_ms'])}  {entry['kind']:<14}  {told}"

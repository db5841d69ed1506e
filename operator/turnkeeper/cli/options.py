"""The options that several commands share."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from turnkeeper.cli.client import RunnerClient

DEFAULT_URL: Final = "http://127.0.0.1:8765"

_RUNNER: Final = "The runner"

Url = Annotated[
    str,
    typer.Option("--url", envvar="TURNKEEPER_URL", help="Where the runner answers.", rich_help_panel=_RUNNER),
]
Token = Annotated[
    str,
    typer.Option(
        "--token",
        envvar="TURNKEEPER_TOKEN",
        help="A token of the runner; better given in the environment, where no process list shows it.",
        rich_help_panel=_RUNNER,
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, also on a terminal. A pipe always gets JSON.")]
Thread = Annotated[str, typer.Argument(help="The thread's id, as it is: nothing is trimmed or escaped.")]
ContentJson = Annotated[
    bool, typer.Option("--content-json", help="The text is JSON; otherwise it is sent as one JSON string.")
]


def runner_at(url: str, token: str) -> RunnerClient:
    """Return the client of a runner."""
    return RunnerClient(url, token)


def examples(*lines: str) -> str:
    """Return the end of a command's help: each example on a line of its own, which Typer makes of paragraphs."""
    return "\n\n".join(["Examples:", *(f"  {line}" for line in lines)])

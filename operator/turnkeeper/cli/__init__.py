"""The command line: `run` serves a workspace, `verify` checks its journal, all others speak HTTP to a runner.

A person at a terminal gets tables, a pipe gets JSON, one object a line. Errors are sentences on standard error, and the
exit code says their kind (`exits.ExitCode`). Only this package knows Typer and Rich.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from turnkeeper import __version__
from turnkeeper.cli import controlling, definition, podding, reading, running, verifying, writing
from turnkeeper.cli.exits import CommandError, ExitCode
from turnkeeper.cli.options import examples
from turnkeeper.cli.output import say, tell

__all__ = ["CommandError", "ExitCode", "app", "main"]

EPILOG = (
    "Exit codes: 0 done, 1 the runner says no, the turn failed or an invariant is breached, 2 the command line or "
    "settings can't be used, 3 no runner or journal answers, 4 something else stands, 5 the turn asks a question "
    "(send --wait), 130 Ctrl-C."
)

app = typer.Typer(
    name="turnkeeper",
    help="Threads of messages, each worked on by one worker at a time: what was asked is taken, whoever dies.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(
    epilog=examples(
        "turnkeeper run",
        'turnkeeper run --exec "python agent.py" --journal postgresql://localhost/work',
        "turnkeeper run --chat http://localhost:11434/v1 --model llama3",
        "turnkeeper run --config workspace.toml --port 0",
    )
)(running.run)
app.command(
    epilog=examples(
        'turnkeeper send alice "What is the weather?"',
        "turnkeeper send alice --wait < question.txt",
        "turnkeeper send alice '{\"order\": 7}' --content-json --message-id order-7",
    )
)(writing.send)
app.command(
    epilog=examples(
        "turnkeeper log alice",
        "turnkeeper log alice --after 40 | jq .body",
    )
)(reading.log)
app.command(
    epilog=examples(
        "turnkeeper watch alice",
        "turnkeeper watch alice --after 40 --until-idle --json",
    )
)(reading.watch)
app.command(
    epilog=examples(
        "turnkeeper threads --state owed",
        "turnkeeper threads alice",
        "turnkeeper threads | jq -r .thread",
    )
)(reading.threads)
app.command(
    epilog=examples(
        'turnkeeper answer alice q-1 "the blue one"',
        "turnkeeper answer alice q-2 --approve",
    )
)(writing.answer)
app.command(
    epilog=examples(
        "turnkeeper stop 5f0c…",
    )
)(writing.stop)
app.command(
    epilog=examples(
        "turnkeeper recover",
    )
)(writing.recover)
app.command(
    epilog=examples(
        "turnkeeper verify",
        "turnkeeper verify --journal postgresql://localhost/work --at-rest",
        "turnkeeper verify --workspace default --json | jq .what",
    )
)(verifying.verify)
app.add_typer(writing.parked, name="parked")
app.command(
    epilog=examples(
        "turnkeeper crd | kubectl apply --server-side -f -",
    )
)(definition.crd)
app.command()(podding.runner)
app.command()(controlling.controller)


def _show_version(asked: bool) -> None:
    if asked:
        say(f"turnkeeper {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version


def main() -> None:
    """Run the command line; the entry point of the `turnkeeper` script."""
    try:
        app(prog_name="turnkeeper")
    except CommandError as error:
        tell(f"turnkeeper: {error}")
        sys.exit(error.code)

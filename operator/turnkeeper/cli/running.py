"""The command that runs a runner: flags laid over the environment and the file, then `wiring.serve`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from turnkeeper.cli.exits import CommandError, ExitCode, errors_told
from turnkeeper.cli.output import tell
from turnkeeper.settings import CONFIG_VARIABLE, load_settings

_WHAT: Final = "What a turn does"
_HOW: Final = "How much, and for how long"
KINDS: Final = ("echo", "python", "exec", "http", "chat")


Config = Annotated[Path | None, typer.Option(envvar=CONFIG_VARIABLE, help="A TOML or YAML file.", dir_okay=False)]
Workspace = Annotated[str | None, typer.Option(help="The workspace's name. (default: default)")]
Journal = Annotated[str | None, typer.Option(help="A SQLite file or a postgresql:// URL. (default: turnkeeper.db)")]
Host = Annotated[str | None, typer.Option(help="Where to listen. (default: 127.0.0.1)")]
PidFile = Annotated[
    Path | None, typer.Option(help="Write the process's id to this file while it runs.", dir_okay=False)
]
Port = Annotated[int | None, typer.Option(help="0 takes a free one. (default: 8765)")]
Handler = Annotated[str | None, typer.Option(help=f"One of {', '.join(KINDS)}. (default: echo)", rich_help_panel=_WHAT)]
EchoDelay = Annotated[float | None, typer.Option(help="Echo after so many seconds.", rich_help_panel=_WHAT)]
Python = Annotated[str | None, typer.Option(help="A coroutine function, as module:name.", rich_help_panel=_WHAT)]
Exec = Annotated[
    str | None, typer.Option("--exec", help="A command for each turn, in one argument.", rich_help_panel=_WHAT)
]
Http = Annotated[str | None, typer.Option(help="A URL that each turn is POSTed to.", rich_help_panel=_WHAT)]
Chat = Annotated[str | None, typer.Option(help="The base URL of an OpenAI-compatible server.", rich_help_panel=_WHAT)]
Model = Annotated[str | None, typer.Option(help="The model that --chat asks.", rich_help_panel=_WHAT)]
MaxTurns = Annotated[int | None, typer.Option(help="Turns at once. (default: 32)", rich_help_panel=_HOW)]
MaxAttempts = Annotated[
    int | None, typer.Option(help="Deaths that a turn may cost. (default: 3)", rich_help_panel=_HOW)
]
TurnTimeout = Annotated[
    float | None, typer.Option(help="Seconds that a run may take. (default: 3600)", rich_help_panel=_HOW)
]
ClaimTtl = Annotated[
    float | None,
    typer.Option(help="Seconds until a silent runner counts as dead. (default: 30)", rich_help_panel=_HOW),
]
RecoverInterval = Annotated[
    float | None, typer.Option(help="Seconds between sweeps. (default: 10)", rich_help_panel=_HOW)
]
Drain = Annotated[
    float | None,
    typer.Option(help="Seconds that turns get to end when it stops. (default: 20)", rich_help_panel=_HOW),
]


def run(  # noqa: PLR0913 - Typer makes one option of each parameter
    config: Config = None,
    *,
    workspace: Workspace = None,
    journal: Journal = None,
    host: Host = None,
    port: Port = None,
    pid_file: PidFile = None,
    handler: Handler = None,
    echo_delay: EchoDelay = None,
    python: Python = None,
    exec_: Exec = None,
    http: Http = None,
    chat: Chat = None,
    model: Model = None,
    max_turns: MaxTurns = None,
    max_attempts: MaxAttempts = None,
    turn_timeout: TurnTimeout = None,
    claim_ttl: ClaimTtl = None,
    recover_interval: RecoverInterval = None,
    drain: Drain = None,
) -> None:
    """Run a runner: serve the API and take turns. Needs no settings at all.

    Several may share one journal. Settings come from flags, then the
    environment (such as TURNKEEPER_TURN__MAX_ATTEMPTS), then the file.

    Stop it with Ctrl-C: turns in progress get time to end, and what is
    left is taken by another runner, or by the next start.
    """
    kinds = {
        "echo": None if echo_delay is None else {"delay_seconds": echo_delay},
        "python": None if python is None else {"entry_point": python},
        "exec": None if exec_ is None else {"command": exec_},
        "http": None if http is None else {"url": http},
        "chat": _given(base_url=chat, model=model) or None,
    }
    flags = _given(
        workspace=workspace,
        listen=_given(host=host, port=port),
        journal=journal_flag(journal),
        handler=handler_flag(handler, {kind: flag for kind, flag in kinds.items() if flag is not None}),
        claim_ttl_seconds=claim_ttl,
        recover=_given(interval_seconds=recover_interval),
        turn=_given(timeout_seconds=turn_timeout, max_attempts=max_attempts),
        runner=_given(max_turns=max_turns, drain_seconds=drain),
    )
    with errors_told():
        settings = load_settings(config, {name: value for name, value in flags.items() if value != {}})
    if not settings.auth.tokens:
        tell("no auth.tokens are set: the API listens on this machine's loopback only")
    from turnkeeper import wiring  # noqa: PLC0415 - it loads every part; the other commands start without

    with errors_told(), _written(pid_file):
        code = wiring.serve(settings)
    raise typer.Exit(code)


@contextmanager
def _written(pid_file: Path | None) -> Iterator[None]:
    """Keep this process's id in a file, if one is named; a killed process leaves it. Raises CommandError."""
    if pid_file is None:
        yield
        return
    try:
        pid_file.write_text(f"{os.getpid()}\n", "ascii")
    except OSError as error:
        raise CommandError(f"--pid-file {pid_file}: {error.strerror}", ExitCode.USAGE) from None
    try:
        yield
    finally:
        pid_file.unlink(missing_ok=True)


def _given(**values: object) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def journal_flag(value: str | None) -> dict[str, Any]:
    """Return what --journal means: a URL of PostgreSQL, or a file."""
    if value is None:
        return {}
    return {"postgres": {"url": value}} if "://" in value else {"sqlite": {"path": value}}


def handler_flag(kind: str | None, given: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return what the handler flags mean together. Raises CommandError where they name two, or none that is."""
    if kind is not None and kind not in KINDS:
        raise CommandError(f"--handler {kind!a}: it must be one of {', '.join(KINDS)}", ExitCode.USAGE)
    named = {*given, *([kind] if kind else [])}
    if len(named) > 1:
        raise CommandError(f"the flags name more than one handler: {', '.join(sorted(named))}", ExitCode.USAGE)
    return {name: given.get(name, {}) for name in named}

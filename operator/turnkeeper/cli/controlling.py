"""The command that runs the controller, in the pod of its Deployment."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from turnkeeper.cli.exits import CommandError, ExitCode, errors_told, extra_needed

LogLevel = Annotated[
    str, typer.Option(envvar="TURNKEEPER_LOG_LEVEL", help="One of debug, info, warning, error.", show_default=False)
]
LEVELS = ("debug", "info", "warning", "error")


def controller(*, log_level: LogLevel = "info") -> None:
    """Run the controller of Workspaces, as its chart does.

    It reads TURNKEEPER_IMAGE, TURNKEEPER_NAMESPACES (all where empty), POD_NAME
    and POD_NAMESPACE.
    """
    if log_level not in LEVELS:
        raise CommandError(f"--log-level {log_level!a}: it must be one of {', '.join(LEVELS)}", ExitCode.USAGE)
    with errors_told(), extra_needed():
        from turnkeeper.wiring import control  # noqa: PLC0415 - it loads every part, and the kubernetes extra

        code = control.control(control.Surroundings.read(os.environ), log_level)
    raise typer.Exit(code)

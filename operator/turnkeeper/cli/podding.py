"""The command that runs in a runner's pod. All that it is told comes from the Workspace, by way of the controller."""

from __future__ import annotations

import typer

from turnkeeper.cli.exits import errors_told, extra_needed
from turnkeeper.settings import load_settings
from turnkeeper.settings.pod_variables import API_PORT

EVERYWHERE = "0.0.0.0"  # noqa: S104 - other pods must reach it; `load_settings` insists on tokens


def runner() -> None:
    """Run a Workspace's runner, in its pod. Elsewhere, use `run`."""
    with errors_told(), extra_needed():
        settings = load_settings(None, {"listen": {"host": EVERYWHERE, "port": API_PORT}})
        from turnkeeper.wiring import pod  # noqa: PLC0415 - it loads every part, and the kubernetes extra

        code = pod.serve_pod(settings)
    raise typer.Exit(code)

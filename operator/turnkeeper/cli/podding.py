"""The command that runs in a runner's pod. All that it is told comes from the Workspace, by way of the controller."""

from __future__ import annotations

import typer

from turnkeeper.cli.exits import CommandError, ExitCode
from turnkeeper.errors import SettingsError, TurnkeeperError, UnavailableError
from turnkeeper.settings import load_settings
from turnkeeper.settings.pod_variables import API_PORT

EVERYWHERE = "0.0.0.0"  # noqa: S104 - other pods must reach it; `load_settings` insists on tokens


def runner() -> None:
    """Run a Workspace's runner, in its pod. Elsewhere, use `run`."""
    try:
        settings = load_settings(None, {"listen": {"host": EVERYWHERE, "port": API_PORT}})
        from turnkeeper.wiring import pod  # noqa: PLC0415 - it loads every part, and the kubernetes extra

        code = pod.serve_pod(settings)
    except ModuleNotFoundError as error:
        msg = f"{error.name} is not installed: pip install 'turnkeeper[kubernetes]'"
        raise CommandError(msg, ExitCode.USAGE) from None
    except SettingsError as error:
        raise CommandError(str(error), ExitCode.USAGE) from None
    except UnavailableError as error:
        raise CommandError(str(error), ExitCode.UNREACHABLE) from None
    except TurnkeeperError as error:
        raise CommandError(str(error)) from None
    raise typer.Exit(code)

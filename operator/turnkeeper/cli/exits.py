"""How a command ends: codes that a script may rely on, and the error that carries one with its sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from turnkeeper.errors import SettingsError, TurnkeeperError, UnavailableError


class ExitCode(IntEnum):
    """The exit codes; they keep their meanings."""

    OK = 0
    FAILED = 1  # the runner says no, the turn failed, or `verify` found a breach
    USAGE = 2  # the command line or the settings can't be used
    UNREACHABLE = 3  # no runner answers, or the journal can't be reached
    CONFLICT = 4  # something else stands: another body under the id, a question that is resolved, a run that ended
    PAUSED = 5  # `send --wait`: the turn asks a question
    INTERRUPTED = 130  # Ctrl-C
    PIPE_CLOSED = 141  # whoever read the output has gone


class CommandError(Exception):
    """The command can't be carried out; the text is a sentence for the person who typed it."""

    def __init__(self, sentence: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(sentence)
        self.code = code


@contextmanager
def errors_told() -> Iterator[None]:
    """Tell what turnkeeper raises on purpose as a sentence, with the exit code of its kind. Raises CommandError."""
    try:
        yield
    except SettingsError as error:
        raise CommandError(str(error), ExitCode.USAGE) from None
    except UnavailableError as error:
        raise CommandError(str(error), ExitCode.UNREACHABLE) from None
    except TurnkeeperError as error:
        raise CommandError(str(error)) from None


@contextmanager
def extra_needed() -> Iterator[None]:
    """Say how to install what only a cluster needs. Raises CommandError."""
    try:
        yield
    except ModuleNotFoundError as error:
        msg = f"{error.name} is not installed: pip install 'turnkeeper[kubernetes]'"
        raise CommandError(msg, ExitCode.USAGE) from None

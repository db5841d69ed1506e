"""How a command ends: codes that a script may rely on, and the error that carries one with its sentence."""

from __future__ import annotations

from enum import IntEnum


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

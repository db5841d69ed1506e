"""Runs a command for each turn: one process, JSON lines on its stdin and stdout, ended together with its run.

The lines are described in docs/handlers.md and carried out in `conversation.py`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from turnkeeper.adapters.handlers import process
from turnkeeper.adapters.handlers.conversation import Conversation
from turnkeeper.adapters.handlers.guard import Guard
from turnkeeper.adapters.handlers.lines import LINE_BYTES_MAX
from turnkeeper.adapters.handlers.wire import earlier, turn_document
from turnkeeper.core.values import Json
from turnkeeper.errors import SettingsError
from turnkeeper.ports import Pause, Turn

OWN_SETTINGS = "TURNKEEPER_"
"""How the names of the runner's own settings begin. They hold passwords, so a command does not inherit them."""


class ExecHandler:
    """Runs a command for each turn.

    command: the program and its arguments; no shell reads them. environment: what it finds besides the runner's own
    environment, which is passed on but for the runner's own settings. directory: where it runs. kill_grace_seconds: how
    long it may take to end after SIGTERM. line_bytes_max: the longest line that is read from it. history_limit: how
    many entries from before the turn it is told.
    Raises SettingsError where the command or the directory does not exist.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        directory: str | None = None,
        kill_grace_seconds: float = 5.0,
        line_bytes_max: int = LINE_BYTES_MAX,
        history_limit: int = 200,
    ) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(OWN_SETTINGS)}
        self._environment = inherited | dict(environment or {})
        self._command = _checked(command, self._environment, directory)
        self._directory = directory
        self._kill_grace_seconds = kill_grace_seconds
        self._line_bytes_max = line_bytes_max
        self._history_limit = history_limit
        self._guard = Guard(kill_grace_seconds)
        self._endings: set[asyncio.Task[None]] = set()

    async def turn(self, turn: Turn) -> Json | Pause:
        """Run the command on a turn. It is gone, with all it started in its group, when this returns or raises."""
        document = turn_document(turn, await earlier(turn, self._history_limit))
        child = process.start(self._command, self._guard, self._environment | _names(turn), self._directory)
        try:
            conversation = Conversation(turn, child, self._line_bytes_max, self._kill_grace_seconds)
            return await conversation.run(document)
        finally:
            await self._end(child)

    async def aclose(self) -> None:
        """Wait until every command that was told to end has ended."""
        if self._endings:
            await asyncio.wait(self._endings)
        await self._guard.aclose()

    async def _end(self, child: process.GroupProcess) -> None:
        """End the command, also when whoever waits for it is cancelled a second time."""
        ending = asyncio.create_task(child.end(self._kill_grace_seconds))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        await asyncio.shield(ending)


def _names(turn: Turn) -> dict[str, str]:
    """Return what a command finds in its environment, so that a shell script need not parse JSON to know its thread."""
    return {
        "TURN_WORKSPACE": turn.workspace,
        "TURN_THREAD": turn.thread_id,
        "TURN_RUN": turn.run_id,
        "TURN_ID": turn.turn_id,
        "TURN_ATTEMPT": str(turn.attempt),
        "TURN_TOKEN": str(turn.token),
    }


def _checked(command: Sequence[str], environment: Mapping[str, str], directory: str | None) -> list[str]:
    """Return the command with its program's full path. Raises SettingsError with what to do."""
    if isinstance(command, str) or not command or not command[0]:
        raise SettingsError(
            'exec: the command must be a list of a program and its arguments, as ["python3", "work.py"]'
        )
    if not sys.platform.startswith("linux"):
        raise SettingsError("exec: commands are ended by means that only Linux has; use another handler here")
    place = Path(directory or ".")
    if not place.is_dir():
        raise SettingsError(f"exec: the directory {directory!a} does not exist")
    program = command[0]
    local = str(place / program) if os.sep in program else program
    found = shutil.which(local, path=environment.get("PATH"))
    if found is None:
        raise SettingsError(f"exec: the program {program!a} was not found, or may not be executed")
    return [str(Path(found).absolute()), *command[1:]]

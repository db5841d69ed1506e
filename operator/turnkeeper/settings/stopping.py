"""How long a runner takes to stop, from its settings: what it waits for itself, and what its pod is given."""

from __future__ import annotations

import math

from turnkeeper.settings.models import HandlerSettings, Settings

CANCEL_GRACE_SECONDS = 10.0
"""What a cancelled handler has to clean up in. Arbitrary: long for a coroutine, short for a person."""

REAP_SECONDS = 6.0
"""What `exec` may take after its KILL. Arbitrary: its own bounds for the reaping and the pipes, and some."""

CLOSE_SECONDS = 5
"""How long open connections may finish once the turns have; a client that never reads is cut then."""

RELEASE_SECONDS = 10.0
"""What the records of the interrupted runs, the releases of their claims and the session's end may take. Arbitrary: the
deadline of a call to the journal and of one to the API server."""


def cancel_grace_seconds(handler: HandlerSettings) -> float:
    """Return what a cancelled run is given: a command has the time from TERM to KILL, and some to be reaped."""
    command = handler.exec
    return max(CANCEL_GRACE_SECONDS, command.kill_grace_seconds + REAP_SECONDS if command else 0.0)


def stop_seconds(settings: Settings) -> int:
    """Return how long a runner may take from its SIGTERM to its end, everything in good order, in whole seconds."""
    runner = settings.runner
    ending = runner.drain_seconds + cancel_grace_seconds(settings.handler) + RELEASE_SECONDS
    return math.ceil(max(ending, runner.leave_seconds) + CLOSE_SECONDS)

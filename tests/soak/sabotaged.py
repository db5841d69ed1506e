"""`turnkeeper run` with one guard taken out, to see that the soak's checks find it.

Usage: sabotaged.py fence|look|sweep FLAG…, where the flags are those of `turnkeeper run`. The shipped code has no
switch for this: the guard is replaced from here, in the process that is started.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from turnkeeper import cli
from turnkeeper.core import ending
from turnkeeper.core.recovery import Recovered
from turnkeeper.core.values import Fence, Thread
from turnkeeper.runner.looks import Looks
from turnkeeper.runner.sweep import Sweep


def without_fence() -> None:
    """Let every write of a run pass while any run of its thread is open, whoever the writer is."""

    def is_held(thread: Thread, run_id: str, fence: Fence) -> bool:
        del run_id, fence
        return thread.run is not None

    ending._is_held = is_held


def without_look() -> None:
    """Let a refused claimant go away for good."""

    def arm(self: Looks, thread_id: str, session: str, delay_seconds: float, *, ripe: bool = False) -> None:
        del self, thread_id, session, delay_seconds, ripe

    Looks.arm = arm  # type: ignore[method-assign]  # the sabotage itself


def without_sweep() -> None:
    """Let nobody look for owed threads."""

    async def run(self: Sweep, limit: int | None) -> Recovered:
        del self, limit
        return Recovered()

    Sweep.run = run  # type: ignore[method-assign]  # the sabotage itself


SABOTAGE: dict[str, Callable[[], None]] = {"fence": without_fence, "look": without_look, "sweep": without_sweep}

if __name__ == "__main__":
    guard, *flags = sys.argv[1:]
    SABOTAGE[guard]()
    sys.argv[1:] = ["run", *flags]
    cli.main()

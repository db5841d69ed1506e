"""Ends process groups when their runner dies, even by kill -9; a program of its own, run by `guard.Guard`.

It reads `+<group>` and `-<group>` lines from its stdin. The stdin's end means that the runner is gone: each group that
is still noted gets SIGTERM, and after the grace that its argument gives, SIGKILL. It imports nothing but the standard
library's smallest parts, so that it starts in milliseconds and holds little memory.
"""

from __future__ import annotations

import os
import signal
import sys
import time

POLL_SECONDS = 0.02


def main(stream: object, grace_seconds: float) -> None:
    """Note groups until the stream ends, then end them."""
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        # Whatever ends the runner must not end this first.
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    groups: set[int] = set()
    for line in iter(stream):  # type: ignore[call-overload]  # typing's own names cost this program a third of its start
        (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
    left = {group for group in groups if tell(group, signal.SIGTERM)}
    ends_at = time.monotonic() + grace_seconds
    while left and time.monotonic() < ends_at:
        time.sleep(POLL_SECONDS)
        left = {group for group in left if tell(group, 0)}
    for group in left:
        tell(group, signal.SIGKILL)


def tell(group: int, number: int) -> bool:
    """Send a signal to a group; False if there is none such."""
    try:
        os.killpg(group, number)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main(sys.stdin.buffer, float(sys.argv[1]))

"""The one place where these tests let time pass: waiting, with a deadline, for what they are about."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from turnkeeper.adapters.machine_clock import MachineClock

T = TypeVar("T")

POLL_SECONDS = 0.02
"""Between two looks. Arbitrary: a small part of the shortest ttl here."""

PATIENCE = 4.0
"""Every deadline here is so many times what a quiet machine needs: it tells a test that hangs, and measures nothing."""

CLOCK = MachineClock()


class LateError(AssertionError):
    """What was waited for did not come in time."""


async def until(
    look: Callable[[], Awaitable[T]], what: str, *, seconds: float = 30.0, poll_seconds: float = POLL_SECONDS
) -> T:
    """Return the first true value of `look`. Raises LateError, naming `what`, long after so many seconds."""
    deadline = CLOCK.monotonic() + PATIENCE * seconds
    while True:
        if found := await look():
            return found
        if CLOCK.monotonic() >= deadline:
            raise LateError(f"not in {PATIENCE * seconds:.0f} s: {what}; last seen: {found!r}")
        await CLOCK.sleep(poll_seconds)


async def until_true(look: Callable[[], object], what: str, *, seconds: float = 30.0) -> None:
    """Return once `look` is true."""

    async def is_true() -> bool:
        return bool(look())

    await until(is_true, what, seconds=seconds)


async def pause(seconds: float) -> None:
    """Let real time pass, where the time itself is what is tried: a pace, a freeze, a schedule of faults."""
    await CLOCK.sleep(seconds)

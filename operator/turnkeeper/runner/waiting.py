"""Waiting for something or for a time on the runner's clock, whichever comes first; neither is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from turnkeeper.ports import Clock


async def first_of(waited: Iterable[asyncio.Future[Any]], clock: Clock, seconds: float) -> None:
    """Return once one of these is done, or after the time. They are not cancelled."""
    sleeping = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((*waited, sleeping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        sleeping.cancel()


async def set_within(event: asyncio.Event, clock: Clock, seconds: float) -> None:
    """Return once the event is set, or after the time."""
    waiting = asyncio.ensure_future(event.wait())
    try:
        await first_of((waiting,), clock, seconds)
    finally:
        waiting.cancel()

"""The machine's clocks."""

from __future__ import annotations

import asyncio
import time


class MachineClock:
    """See `ports.Clock`."""

    def monotonic(self) -> float:
        """See `ports.Clock`."""
        return time.monotonic()

    def wall_ms(self) -> int:
        """See `ports.Clock`."""
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        """See `ports.Clock`."""
        await asyncio.sleep(seconds)

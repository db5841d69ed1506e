"""What the routes reach: the runner, the metrics and the streams of this very app, handed in by `create_app`."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Annotated, cast

from fastapi import Depends, Request

from turnkeeper.adapters.prometheus import PrometheusObserver
from turnkeeper.api.stream import Streams
from turnkeeper.core.values import Thread
from turnkeeper.errors import NotFoundError, TurnkeeperError
from turnkeeper.runner.service import Runner

STATS_SECONDS = 1.0
"""How long the journal's counts are kept for the metrics. Arbitrary: no scraper asks more often for good reason."""


@dataclass
class Doors:
    """The things behind the API."""

    runner: Runner
    metrics: PrometheusObserver
    streams: Streams = field(default_factory=Streams)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _stats_due: float = 0.0

    async def thread(self, thread_id: str) -> Thread:
        """Return a thread's row. Raises NotFoundError."""
        thread = await self.runner.journal.thread(thread_id)
        if thread is None:
            raise NotFoundError(f"thread {thread_id!a} does not exist: a first message makes it")
        return thread

    async def render_metrics(self) -> bytes:
        """Return the metrics, with the journal's counts where they can be had."""
        async with self._lock:
            if time.monotonic() >= self._stats_due:
                try:
                    async with asyncio.timeout(STATS_SECONDS):
                        stats = await self.runner.journal.stats()
                    self.metrics.show_stats(stats, wall_ms())
                except (TurnkeeperError, TimeoutError):
                    self.metrics.lose_stats()
                self._stats_due = time.monotonic() + STATS_SECONDS
        return self.metrics.render()


def wall_ms() -> int:
    """Return the time as the log has it."""
    return time.time_ns() // 1_000_000


async def _doors(request: Request) -> Doors:
    return cast("Doors", request.app.state.doors)


Behind = Annotated[Doors, Depends(_doors)]

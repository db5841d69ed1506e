"""A runner in this process, put together as `turnkeeper run` puts it together, whose actions a benchmark can await."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from bench.databases import Place
from turnkeeper.adapters.prometheus import PrometheusObserver
from turnkeeper.runner.service import Runner
from turnkeeper.settings import Settings
from turnkeeper.settings.models import HandlerSettings, PythonSettings
from turnkeeper.wiring import open_runner

NOOP = "bench.noop:turn"


class SeeingObserver(PrometheusObserver):
    """The metrics of a deployed runner, which are part of a turn's cost; and notes when actions were committed."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: dict[str, asyncio.Event] = {}
        self.starts: list[float] = []

    def acted(self, action: str, thread_id: str, verdict: str, seconds: float) -> None:
        """See `ports.Observer`."""
        super().acted(action, thread_id, verdict, seconds)
        if action == "end" and (ended := self.ended.get(thread_id)):
            ended.set()
        elif action == "take" and verdict in {"Started", "TakenOver"}:
            self.starts.append(time.perf_counter())


@asynccontextmanager
async def open_workspace(
    place: Place, observer: SeeingObserver, settings: Mapping[str, Any] | None = None
) -> AsyncIterator[Runner]:
    """Yield a started runner with the no-op handler on a database; `settings` are laid over the defaults."""
    handler = HandlerSettings(python=PythonSettings(entry_point=NOOP))
    told = Settings(journal=place.settings, handler=handler, **(settings or {}))
    async with open_runner(told, observer) as runner:
        yield runner

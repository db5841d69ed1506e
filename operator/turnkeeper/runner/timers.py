"""One task for every timed thing of a runner: looks at busy threads, and questions that run out of time.

An armed timer is an entry of a dictionary and of a heap: no task, no I/O.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable, Coroutine, Hashable
from itertools import count
from typing import Any

from turnkeeper.ports import Clock
from turnkeeper.runner.waiting import set_within

_log = logging.getLogger(__name__)


class Timers:
    """Runs actions when they are due, each in a task that this object owns. A key has one timer at most."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[Hashable, tuple[float, int, Callable[[], Coroutine[Any, Any, None]]]] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._numbers = count()
        self._changed = asyncio.Event()
        self._actions: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._due)

    def arm(self, key: Hashable, due_seconds: float, action: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Set the key's timer to a moment of the monotonic clock, in place of what it was. Once closed, do nothing."""
        if self._is_closed:
            return
        number = next(self._numbers)
        self._due[key] = (due_seconds, number, action)
        heapq.heappush(self._heap, (due_seconds, number, key))
        self._changed.set()

    def disarm(self, key: Hashable) -> None:
        """Forget the key's timer, if there is one."""
        self._due.pop(key, None)

    async def run(self) -> None:
        """Start what is due, until cancelled; the owner's task."""
        while True:
            self._changed.clear()
            wait = self._start_due()
            await self._until_changed(wait)

    def _start_due(self) -> float | None:
        """Start every due action and return the seconds until the next, or None if there is none."""
        while self._heap:
            due, number, key = self._heap[0]
            armed = self._due.get(key)
            if armed is None or armed[1] != number:
                heapq.heappop(self._heap)
            elif due > self._clock.monotonic():
                return due - self._clock.monotonic()
            else:
                heapq.heappop(self._heap)
                del self._due[key]
                self._start(armed[2])
        return None

    async def _until_changed(self, seconds: float | None) -> None:
        if seconds is None:
            await self._changed.wait()
            return
        await set_within(self._changed, self._clock, seconds)

    def _start(self, action: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = asyncio.create_task(action())
        self._actions.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._actions.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a timed action failed", exc_info=error)

    async def aclose(self) -> None:
        """Arm nothing any more, and cancel what is armed or running."""
        self._is_closed = True
        self._due.clear()
        self._heap.clear()
        for task in self._actions:
            task.cancel()
        await asyncio.gather(*self._actions, return_exceptions=True)

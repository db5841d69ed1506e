"""When each Workspace is swept: our own timers, since a promise rests on them.

A Workspace is due at once when it appears and whenever somebody asks, else on its interval with jitter. One sweep of
a Workspace runs at a time; who asks meanwhile gets another one after it. A sweep that left something is followed by
another soon. How late the latest is says whether the whole works: liveness looks at it.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from turnkeeper.controller.view import Key

CONCURRENCY = 16
"""Sweeps at once. Arbitrary: each waits for runners far more than it works."""

SWEEP_SECONDS = 45.0
"""Deadline of one sweep of one Workspace. Arbitrary: well above a page of starts on a slow journal."""

AGAIN_SECONDS = 3.0
"""When to sweep again where something was left. Arbitrary: some time for it to be tried with success."""

SPREAD_SECONDS = 1.0
"""What the first sweeps after a start are spread over, so that they don't all come in one instant."""

GRAIN_SECONDS = 0.001
"""What is due within this time is due: a timer may fire a rounding error early, and must not be set for that again."""

OVERDUE_SECONDS = 120.0
"""How late a sweep may be before the controller counts as stuck, on top of two of its intervals. Arbitrary: above two
sweeps that ran into their deadline."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Planned:
    interval_seconds: float
    due: float
    is_running: bool = False
    is_asked: bool = False


class Schedule:
    """Calls `sweep(key)`; it returns whether nothing was left."""

    def __init__(self, sweep: Callable[[Key], Awaitable[bool]]) -> None:
        self._sweep = sweep
        self._planned: dict[Key, _Planned] = {}
        self._heap: list[tuple[float, Key]] = []
        self._changed = asyncio.Event()
        self._room = asyncio.Semaphore(CONCURRENCY)
        self._sweeps: set[asyncio.Task[None]] = set()

    def plan(self, key: Key, interval_seconds: float) -> None:
        """Sweep a Workspace from now on; a new one at once."""
        planned = self._planned.get(key)
        if planned is None:
            planned = self._planned[key] = _Planned(interval_seconds, 0.0)
            self._set_due(key, planned, random.uniform(0.0, SPREAD_SECONDS))  # noqa: S311 - jitter, not a secret
        elif planned.interval_seconds != interval_seconds:
            is_shorter = interval_seconds < planned.interval_seconds
            planned.interval_seconds = interval_seconds
            if is_shorter and not planned.is_running:
                self._set_due(key, planned, min(interval_seconds, max(0.0, planned.due - _now())))

    def forget(self, key: Key) -> None:
        """Sweep a Workspace no more."""
        self._planned.pop(key, None)

    def ask(self, key: Key) -> None:
        """Sweep a Workspace now."""
        planned = self._planned.get(key)
        if planned is None:
            return
        if planned.is_running:
            planned.is_asked = True
        elif planned.due > _now():
            self._set_due(key, planned, 0.0)

    def overdue(self) -> list[Key]:
        """Return the Workspaces whose sweep should long be over."""
        now = _now()
        return [
            key
            for key, planned in self._planned.items()
            if now > planned.due + 2 * planned.interval_seconds + OVERDUE_SECONDS
        ]

    async def run(self) -> None:
        """Sweep until cancelled."""
        try:
            while True:
                self._changed.clear()
                self._start_due()
                await self._until_next()
        finally:
            for task in self._sweeps:
                task.cancel()
            await asyncio.gather(*self._sweeps, return_exceptions=True)

    def _start_due(self) -> None:
        now = _now()
        while self._heap and self._heap[0][0] <= now + GRAIN_SECONDS:
            due, key = heapq.heappop(self._heap)
            planned = self._planned.get(key)
            if planned is None or planned.is_running or planned.due != due:
                continue
            planned.is_running = True
            task = asyncio.create_task(self._run_one(key, planned))
            self._sweeps.add(task)
            task.add_done_callback(self._sweeps.discard)

    async def _until_next(self) -> None:
        wait = max(self._heap[0][0] - _now(), GRAIN_SECONDS) if self._heap else None
        try:
            async with asyncio.timeout(wait):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _run_one(self, key: Key, planned: _Planned) -> None:
        is_complete = False
        try:
            async with self._room, asyncio.timeout(SWEEP_SECONDS):
                is_complete = await self._sweep(key)
        except TimeoutError:
            _log.warning("Workspace %s/%s: its sweep took longer than %.0f s and was cut", *key, SWEEP_SECONDS)
        except Exception:  # noqa: BLE001 - one Workspace that can't be swept must not stop the others
            _log.exception("Workspace %s/%s: its sweep failed", *key)
        finally:
            planned.is_running = False
        pause = planned.interval_seconds if is_complete else min(AGAIN_SECONDS, planned.interval_seconds)
        pause = 0.0 if planned.is_asked else pause * random.uniform(0.9, 1.1)  # noqa: S311 - jitter, not a secret
        planned.is_asked = False
        if self._planned.get(key) is planned:
            self._set_due(key, planned, pause)

    def _set_due(self, key: Key, planned: _Planned, after_seconds: float) -> None:
        planned.due = _now() + after_seconds
        heapq.heappush(self._heap, (planned.due, key))
        self._changed.set()


def _now() -> float:
    return asyncio.get_running_loop().time()

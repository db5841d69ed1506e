"""Which Workspaces are to be looked at: each once however often it is asked for, and later after a failure."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from turnkeeper.controller.view import Key
from turnkeeper.errors import TurnkeeperError

WORKERS = 8
"""Workspaces looked at at once. Arbitrary: some round trips of the API server in flight."""

SETTLE_SECONDS = 0.05
"""What comes about a Workspace within this time is looked at once. Arbitrary: a burst of events of one change."""

RETRY_SECONDS = (1.0, 300.0)
"""First and longest pause after a failure. Arbitrary: at once, and then so rarely that nobody minds."""

_log = logging.getLogger(__name__)


class Queue:
    """Calls `look(key)` for each key that was asked for. It returns after how many seconds to look again, or None."""

    def __init__(self, look: Callable[[Key], Awaitable[float | None]]) -> None:
        self._look = look
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._due: asyncio.Queue[Key] = asyncio.Queue()  # bounded by the Workspaces: each is in it once
        self._waiting: set[Key] = set()
        self._running: set[Key] = set()
        self._again: set[Key] = set()
        self._failures: dict[Key, int] = {}

    @property
    def length(self) -> int:
        """How many are due."""
        return len(self._waiting)

    def ask(self, key: Key, after_seconds: float = SETTLE_SECONDS) -> None:
        """Have a Workspace looked at; an earlier time that stands already is kept."""
        if key in self._waiting:
            return
        if key in self._running:
            self._again.add(key)
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None and timer.when() <= loop.time() + after_seconds:
            return
        if timer is not None:
            timer.cancel()
        self._timers[key] = loop.call_later(after_seconds, self._ripen, key)

    async def run(self) -> None:
        """Look until cancelled."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(WORKERS):
                workers.create_task(self._work())

    def close(self) -> None:
        """Forget what is to come."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _ripen(self, key: Key) -> None:
        self._timers.pop(key, None)
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._due.put_nowait(key)

    async def _work(self) -> None:
        while True:
            key = await self._due.get()
            self._waiting.discard(key)
            self._running.add(key)
            try:
                after = await self._attempt(key)
            finally:
                self._running.discard(key)
            if key in self._again:
                self._again.discard(key)
                self.ask(key)
            elif after is not None:
                self.ask(key, after)

    async def _attempt(self, key: Key) -> float | None:
        try:
            after = await self._look(key)
        except Exception as error:  # noqa: BLE001 - one Workspace that can't be looked at must not stop the others
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            first, longest = RETRY_SECONDS
            pause = min(first * float(2 ** min(failures - 1, 10)), longest)
            is_foreseen = isinstance(error, TurnkeeperError)
            _log.warning("Workspace %s/%s: %s; tried again in %.0f s", *key, error, pause, exc_info=not is_foreseen)
            return pause * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
        self._failures.pop(key, None)
        return after

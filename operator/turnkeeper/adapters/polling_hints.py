"""Hints within a process at once, and between processes by a short poll of the watched threads' heads.

Costs no I/O while no thread is watched, and one statement a poll however many are. What is owed has no head to poll:
who waits for news of it has a poll of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict

from turnkeeper.errors import TurnkeeperError
from turnkeeper.ports import OWED, Clock, Journal

POLL_SECONDS = 0.1
"""Between two polls. Arbitrary: below what a person feels, and ten small statements a second at most."""

_log = logging.getLogger(__name__)


class PollingWatch:
    """See `ports.Watch`."""

    def __init__(self, hints: PollingHints, thread_id: str) -> None:
        self._hints = hints
        self._thread_id = thread_id
        self.has_news = asyncio.Event()

    async def news(self, timeout_seconds: float) -> bool:
        """See `ports.Watch`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self.has_news.wait()
        told = self.has_news.is_set()
        self.has_news.clear()
        return told

    def close(self) -> None:
        """See `ports.Watch`."""
        self._hints.forget(self._thread_id, self)


class PollingHints:
    """See `ports.Hints`."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._watches: defaultdict[str, dict[PollingWatch, None]] = defaultdict(dict)  # told in the order they came
        self._heads: dict[str, int] = {}
        self._has_watches = asyncio.Event()

    @property
    def poll_seconds(self) -> float:
        """Between two polls."""
        return POLL_SECONDS

    def watch(self, thread_id: str) -> PollingWatch:
        """See `ports.Hints`."""
        watch = PollingWatch(self, thread_id)
        self._watches[thread_id][watch] = None
        if thread_id != OWED:
            self._has_watches.set()
        return watch

    def forget(self, thread_id: str, watch: PollingWatch) -> None:
        """Drop a watch that was closed."""
        self._watches[thread_id].pop(watch, None)
        if not self._watches[thread_id]:
            del self._watches[thread_id]
            self._heads.pop(thread_id, None)
        if not self._watches.keys() - {OWED}:
            self._has_watches.clear()

    def tell(self, thread_id: str) -> None:
        """See `ports.Hints`."""
        for watch in self._watches.get(thread_id, ()):
            watch.has_news.set()

    async def run(self) -> None:
        """See `ports.Hints`."""
        while True:
            await self._has_watches.wait()
            await self._clock.sleep(self.poll_seconds)
            try:
                heads = await self._journal.heads(list(self._watches.keys() - {OWED}))
            except TurnkeeperError as error:
                _log.warning("news of other processes is late: %s", error)
                continue
            for thread_id, head in heads.items():
                if thread_id in self._watches and self._heads.get(thread_id) != head:
                    self._heads[thread_id] = head
                    self.tell(thread_id)

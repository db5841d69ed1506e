"""People who read a thread's stream along, at one process after another, and what they must have seen (StreamIsLog)."""

from __future__ import annotations

import asyncio
import random

from tests.sim.process import Life
from tests.sim.virtual import pause
from tests.sim.workload import Place
from turnkeeper.core.values import Entry
from turnkeeper.errors import TurnkeeperError

AGAIN_SECONDS = 0.2
"""Before a reader connects anew. Arbitrary."""


class Reader:
    """Reads one thread from its first entry, and goes on after the last that it has seen wherever it connects."""

    def __init__(self, place: Place, rng: random.Random, thread_id: str) -> None:
        self.breaches: list[str] = []
        self._place = place
        self._rng = rng
        self._thread_id = thread_id
        self._seen: list[Entry] = []

    async def read(self) -> None:
        """Read for as long as the simulation lasts."""
        while True:
            lives = self._place.up()
            if lives:
                await self._read_at(self._rng.choice(lives))
            await pause(AGAIN_SECONDS)

    async def _read_at(self, life: Life) -> None:
        following = asyncio.ensure_future(self._follow(life))
        dying = asyncio.ensure_future(life.gone.wait())
        await asyncio.wait((following, dying), return_when=asyncio.FIRST_COMPLETED)
        dying.cancel()
        if not following.done():
            following.cancel()
        elif not following.cancelled() and (error := following.exception()) is not None:
            if not isinstance(error, TurnkeeperError):
                raise error
            self._place.say("reader", f"of {self._thread_id} at {life.name}: {type(error).__name__}")

    async def _follow(self, life: Life) -> None:
        async for entry in life.runner.watch(self._thread_id, len(self._seen), follow=True):
            if entry is None:
                continue
            if entry.seq != len(self._seen) + 1:
                self.breaches.append(f"StreamIsLog: {self._thread_id}: {entry.seq} came after {len(self._seen)}")
            self._seen.append(entry)

    def left(self) -> list[str]:
        """Return what the reader has not seen of the log, or saw otherwise."""
        kept = self._place.journal.threads.get(self._thread_id)
        entries = kept.entries if kept is not None else []
        if self._seen == entries:
            return []
        return [f"StreamIsLog: {self._thread_id}: read {len(self._seen)} of {len(entries)} entries"]

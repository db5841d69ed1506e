"""The same load for every system: keys that are kept busy, and messages that are due at a set rate.

Nothing but the standard library is imported here: it runs in the project's environment, and in the peers' own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

Send = Callable[[str, str], Awaitable[None]]
"""Sends a text to a key, and returns once it is accepted durably."""

KEYS = 32
MESSAGES_PER_SECOND = 100
ACCEPT_KEYS = 200
"""Messages at a set rate go round these keys, so that each is idle again when its next comes."""

TEXT = "hello"


class BusyKeys:
    """Keeps each key at `window` messages that were sent and not yet taken, and counts what is taken.

    Of a window of one, each turn is waited for before its key's next message; of more, a message always waits.
    """

    def __init__(self, window: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._room = {f"key-{number}": asyncio.Semaphore(window) for number in range(KEYS)}
        self._taken = 0

    def took(self, key: str) -> None:
        """Say that a turn of the key has ended; from any thread."""
        self._loop.call_soon_threadsafe(self._count, key)

    def _count(self, key: str) -> None:
        self._taken += 1
        self._room[key].release()

    async def turns_per_second(self, send: Send, warm_seconds: float, seconds: float) -> float:
        """Keep the keys busy for a while, and return what was taken a second after the warm-up."""

        async def feed(key: str) -> None:
            while True:
                await self._room[key].acquire()
                await send(key, TEXT)

        feeders = [asyncio.create_task(feed(key)) for key in self._room]
        try:
            await _meanwhile(feeders, warm_seconds)
            taken, began = self._taken, time.perf_counter()
            await _meanwhile(feeders, seconds)
            return (self._taken - taken) / (time.perf_counter() - began)
        finally:
            for feeder in feeders:
                feeder.cancel()
            await asyncio.gather(*feeders, return_exceptions=True)


async def _meanwhile(tasks: list[asyncio.Task[None]], seconds: float) -> None:
    """Wait, and raise what one of the tasks raises meanwhile."""
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    for task in done:
        task.result()


async def accepted_milliseconds(send: Send, seconds: float) -> list[float]:
    """Send at the set rate, open loop, and return how long after it was due each message was accepted."""
    taken: list[float] = []

    async def one(number: int, due: float) -> None:
        await send(f"key-{number % ACCEPT_KEYS}", TEXT)
        taken.append((time.perf_counter() - due) * 1000)

    async def rate(messages: int) -> None:
        began = time.perf_counter()
        async with asyncio.TaskGroup() as sends:
            for number in range(messages):
                due = began + number / MESSAGES_PER_SECOND
                await asyncio.sleep(due - time.perf_counter())
                sends.create_task(one(number, due))

    await rate(2 * ACCEPT_KEYS)  # makes the keys, and warms what has a cache
    taken.clear()
    await rate(int(seconds * MESSAGES_PER_SECOND))
    return taken

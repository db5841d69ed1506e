"""Turns per second of one runner, beside the bare floor of the same commits, in alternating rounds.

A turn here: `Runner.send`, the run starts, the no-op handler returns, the run ends; then the thread's next message. 32
threads do so at once, in one process with the runner. The rounds alternate, so that noise hits both.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable

import uvloop

from bench.databases import DATABASES, Place, place
from bench.floors import Floor, next_seq, open_floor
from bench.workspace import SeeingObserver, open_workspace
from turnkeeper.adapters.sql_database import POOL_SIZE
from turnkeeper.core.cursor import NewMessage
from turnkeeper.runner.service import Runner

Turn = Callable[[int], Awaitable[None]]

THREADS = 32
WIDE_POOL = THREADS
"""The floor's second pool on PostgreSQL: a connection for each thread, the most that the commits alone could have."""


async def measure_round(one_turn: Turn, seconds: float) -> dict[str, float]:
    """Run turns on all threads for a while. Only turns that ended within the time count.

    The processor's time of this process says what a turn costs even where others use the machine; the database's own
    process is not in it.
    """
    began = time.perf_counter()
    processor_began = time.process_time()
    deadline = began + seconds

    async def thread(number: int) -> int:
        turns = 0
        while True:
            await one_turn(number)
            if time.perf_counter() > deadline:
                return turns
            turns += 1

    turns = sum(await asyncio.gather(*(thread(number) for number in range(THREADS))))
    processor_seconds = time.process_time() - processor_began
    return {
        "turns_per_second": turns / seconds,
        "processor_milliseconds": processor_seconds * 1000 / (turns + THREADS),
    }


def turn_of(runner: Runner, observer: SeeingObserver) -> Turn:
    """Return a turn through the runner."""

    async def one_turn(number: int) -> None:
        thread_id = f"thread-{number}"
        ended = observer.ended.setdefault(thread_id, asyncio.Event())
        ended.clear()
        await runner.send(thread_id, NewMessage(message_id=uuid.uuid4().hex, content="hello"))
        await ended.wait()

    return one_turn


def floor_turn_of(floor: Floor) -> Turn:
    """Return a turn's bare commits."""

    async def one_turn(number: int) -> None:
        seq = next_seq()
        for commit in floor:
            await commit(number, seq)

    return one_turn


async def measure(where: Place, *, rounds: int, seconds: float) -> dict[str, list[dict[str, float]]]:
    """Return each round of `turnkeeper`, `floor`, and on PostgreSQL `floor_wide`."""
    observer = SeeingObserver()
    rounds_of: dict[str, list[dict[str, float]]] = {}
    async with (
        open_workspace(where, observer) as runner,
        open_floor(where, THREADS, POOL_SIZE) as floor,
        open_floor(where, THREADS, WIDE_POOL) as wide_floor,
    ):
        sides = {"turnkeeper": turn_of(runner, observer), "floor": floor_turn_of(floor)}
        if where.database == "postgresql":
            sides["floor_wide"] = floor_turn_of(wide_floor)
        for one_turn in sides.values():
            await measure_round(one_turn, min(seconds, 1.0))  # warms caches, statements and files
        for _ in range(rounds):
            for name, one_turn in sides.items():
                rounds_of.setdefault(name, []).append(await measure_round(one_turn, seconds))
    return rounds_of


def run(*, quick: bool) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Measure both databases."""
    rounds, seconds = (2, 1.0) if quick else (5, 4.0)
    found = {}
    for database in DATABASES:
        with place(database) as where:
            found[database] = uvloop.run(measure(where, rounds=rounds, seconds=seconds))
    return found

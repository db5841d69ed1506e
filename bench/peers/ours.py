"""turnkeeper and the bare floor under the very load that the peers get, on PostgreSQL."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import uvloop

from bench import accept, takeover, turns
from bench.databases import Place
from bench.floors import open_floor
from bench.peers.load import BusyKeys
from bench.peers.takeovers import Case, quickly, told
from bench.processes import Served, serving
from bench.workspace import SeeingObserver, open_workspace
from turnkeeper.adapters.sql_database import POOL_SIZE
from turnkeeper.core.cursor import NewMessage
from turnkeeper.core.words import Mode

SYSTEM = "turnkeeper"
TIMER_LANES = 10
"""Trials that wait for a ttl of half a minute, all at once."""

CASES: tuple[tuple[Case, tuple[str, ...], Mapping[str, str]], ...] = (
    (Case("default"), (), {}),
    (
        Case("default, peers off: the timer alone", lanes=TIMER_LANES, trials=1, phase_seconds=10.0),
        (),
        takeover.TIMER_ALONE,
    ),
    (
        Case(f"the timer alone, claim ttl {takeover.TTL_SECONDS:.0f} s", fast=True),
        takeover.FLAGS,
        takeover.TIMER_ALONE,
    ),
)
"""How turnkeeper is set up, with the flags and the environment that say so."""


class CountingObserver(SeeingObserver):
    """The metrics of a deployed runner, and a count of the turns that ended."""

    def __init__(self, busy: BusyKeys) -> None:
        super().__init__()
        self._busy = busy

    def acted(self, action: str, thread_id: str, verdict: str, seconds: float) -> None:
        """See `ports.Observer`."""
        super().acted(action, thread_id, verdict, seconds)
        if action == "end" and verdict == "Ended":
            self._busy.took(thread_id)


async def _turns(where: Place, window: int, warm_seconds: float, seconds: float) -> float:
    busy = BusyKeys(window)

    async with open_workspace(where, CountingObserver(busy)) as runner:

        async def send(key: str, text: str) -> None:
            await runner.send(key, NewMessage(message_id=uuid.uuid4().hex, content=text, mode=Mode.QUEUE))

        return await busy.turns_per_second(send, warm_seconds, seconds)


def turns_per_second(where: Place, window: int, warm_seconds: float, seconds: float) -> float:
    """Return turns a second of a runner in this process; each message is a turn of its own."""
    return uvloop.run(_turns(where, window, warm_seconds, seconds))


async def _floor(where: Place, seconds: float) -> float:
    async with open_floor(where, turns.THREADS, POOL_SIZE) as floor:
        one_turn = turns.floor_turn_of(floor)
        await turns.measure_round(one_turn, 1.0)
        return (await turns.measure_round(one_turn, seconds))["turns_per_second"]


def floor_per_second(where: Place, seconds: float) -> float:
    """Return how often a second the three bare commits of a turn can be made."""
    return uvloop.run(_floor(where, seconds))


def accepted_milliseconds(where: Place, seconds: float) -> list[float]:
    """Return each message's latency over HTTP, as `bench/accept.py` measures it."""
    with serving(where) as served:
        return uvloop.run(accept.measure(served.address, seconds))


def _lane(where: Place, case: Case, flags: tuple[str, ...], environment: Mapping[str, str]) -> list[float | None]:
    """Run trials one after the other in a workspace of their own; the taker stays."""
    flags += ("--workspace", uuid.uuid4().hex)

    def trial(taker: Served) -> float:
        never = ("--echo-delay", takeover.NEVER_SECONDS)
        with serving(where, *flags, *never, environment=environment) as holder:
            thread_id = takeover.occupy(holder)
            time.sleep(takeover.ACQUAINTED_SECONDS + random.random() * case.phase_seconds)
            killed = holder.kill()
        return float(takeover.nth_start(taker, thread_id, 2)["created_ms"]) / 1000 - killed

    with serving(where, *flags, environment=environment) as taker:
        return [trial(taker) for _ in range(case.trials)]


def takeovers(where: Place, *, quick: bool) -> list[dict[str, Any]]:
    """Return the trials of each case."""
    found = []
    for case, flags, environment in CASES:
        tried = quickly(case) if quick else case
        with ThreadPoolExecutor(tried.lanes) as threads:
            lanes = [threads.submit(_lane, where, tried, flags, environment) for _ in range(tried.lanes)]
            found.append(told(SYSTEM, tried, lanes))
    return found

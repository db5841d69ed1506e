"""The sweep of a journal with a thousand threads and with a million, a hundred of them owed.

A runner with the no-op handler is up and idle. Another process's part is played by a second journal on the same
database, which accepts a message on each of a hundred threads and takes none. Then the runner is asked to recover, and
the time counts from the call to the commit of the first start. Nothing else told it of these threads.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

import uvloop

from bench.databases import DATABASES, Place, place
from bench.filled import WORKSPACE, fill
from bench.plans import plan_of, scans, statements_seen
from bench.workspace import SeeingObserver, open_workspace
from turnkeeper.adapters.sql_journal import open_journal
from turnkeeper.core import cursor
from turnkeeper.core.cursor import NewMessage
from turnkeeper.core.words import ThreadState
from turnkeeper.ports import Journal
from turnkeeper.runner.service import Runner

OWED = 100
SIZES = (1_000, 1_000_000)
QUICK_SIZES = (1_000, 100_000)
SCANNED_MAX = 10_000
"""A table below this may be scanned with right: it is a few pages."""

SETTINGS = {"recover": {"interval_seconds": 3600.0}}  # the one at its start is done before; no other comes between


async def owe(journal: Journal) -> None:
    """Let a hundred new threads be owed a turn."""
    named = [f"owed-{uuid.uuid4().hex}" for _ in range(OWED)]
    new = NewMessage(message_id="m", content="hello")
    await asyncio.gather(*(journal.transact(cursor.accept(new, name, time.time_ns() // 1_000_000)) for name in named))


async def until_idle(journal: Journal) -> None:
    """Wait until no turn is coming or running."""
    while await journal.owed(ThreadState.OWED, None, 1) or await journal.owed(ThreadState.RUNNING, None, 1):  # noqa: ASYNC110 - a journal has no event for it
        await asyncio.sleep(0.01)


async def sweep_once(runner: Runner, observer: SeeingObserver, other: Journal) -> dict[str, float] | None:
    """Return one sweep's figures in milliseconds, and how many runs it started itself.

    None where the runner's own look for owed threads, each second, came first: that was no trial of a sweep.
    """
    await until_idle(other)
    observer.starts.clear()
    await owe(other)
    began = time.perf_counter()
    listed = await other.owed(ThreadState.OWED, None, OWED)
    listed_at = time.perf_counter()
    is_first = not observer.starts
    recovered = await runner.recover()
    swept_at = time.perf_counter()
    if not is_first or not recovered.started:
        return None
    return {
        "listed": len(listed),
        "list_milliseconds": (listed_at - began) * 1000,
        "first_start_milliseconds": (observer.starts[0] - listed_at) * 1000,
        "sweep_milliseconds": (swept_at - listed_at) * 1000,
        "started": len(recovered.started),
    }


async def sweep_often(runner: Runner, observer: SeeingObserver, other: Journal, trials: int) -> list[dict[str, float]]:
    """Return the figures of so many sweeps."""
    found: list[dict[str, float]] = []
    while len(found) < trials:
        if trial := await sweep_once(runner, observer, other):
            found.append(trial)
    return found


async def measure(where: Place, threads: int, trials: int) -> dict[str, Any]:
    """Fill a journal and return its trials and plans."""
    other = await open_journal(where.url if where.database == "postgresql" else f"sqlite:///{where.url}", WORKSPACE)
    await fill(where, threads)
    observer = SeeingObserver()
    async with open_workspace(where, observer, SETTINGS) as runner:
        await runner.recover()  # what a first sweep prepares and compiles is not what grows with the threads
        found = await sweep_often(runner, observer, other, trials)
    with statements_seen() as seen:
        for state in (ThreadState.OWED, ThreadState.RUNNING):
            for after in (None, (1, "owed")):  # the first page, and those behind it
                await other.owed(state, after, OWED)
    selects = [statement for statement in seen if statement[0].startswith("SELECT threads")]
    plans = [await plan_of(where, statement) for statement in selects]
    await other.aclose()
    assert threads < SCANNED_MAX or not any(scans(plan) for plan in plans), plans
    return {"threads": threads, "trials": found, "plans": plans}


def run(*, quick: bool) -> dict[str, list[dict[str, Any]]]:
    """Measure both databases at each size."""
    found: dict[str, list[dict[str, Any]]] = {}
    for database in DATABASES:
        for threads in QUICK_SIZES if quick else SIZES:
            with place(database) as where:
                found.setdefault(database, []).append(uvloop.run(measure(where, threads, 3 if quick else 15)))
    return found

"""S07: a frozen process wakes up after its session's end."""

import asyncio
import time
from pathlib import Path

import httpx
import pytest

from tests.scenarios.harness import World, send
from tests.scenarios.real_runners import Runners, real_runners
from tests.soak.books import locked
from tests.soak.nursery import Nursery
from tests.soak.waiting import pause, until
from turnkeeper.core.values import Json
from turnkeeper.core.words import Kind, Outcome
from turnkeeper.ports import Turn

ROUNDS = 5
THREADS = 10
LOCKED_SECONDS = 0.2
"""Five freezes with ten turns writing in each: fifty runs are frozen somewhere in their midst."""


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_a_frozen_runner_writes_nothing_after_it_was_taken_over(
    kept_nursery: Nursery, database_url: str, tmp_path: Path
) -> None:
    """It wakes to a new life: its runs are refused, its successors' claims stand, and it takes new work soon."""
    async with real_runners(kept_nursery, database_url, tmp_path, 2) as runners:
        for number in range(ROUNDS):
            await _freeze_and_thaw(runners, number)
        dumps = await runners.settle()
        frozen = [run for dump in dumps for run in dump.runs if run.outcome is Outcome.ABANDONED]
        assert len(frozen) >= ROUNDS * THREADS // 2


async def _freeze_and_thaw(runners: Runners, number: int) -> None:
    holder, other = runners.processes
    threads = [f"round-{number}-{each}" for each in range(THREADS)]
    await asyncio.gather(*(runners.send(holder, thread, {"do": "write", "seconds": 30}, "held") for thread in threads))
    if runners.url.startswith("sqlite"):  # a process frozen with the one writer's lock would freeze every other
        async with locked(runners.url, threads):
            await pause(LOCKED_SECONDS)
            holder.freeze()
    else:
        holder.freeze()
    began = time.monotonic()
    with pytest.raises(httpx.HTTPError):
        await runners.http.post(f"{holder.url}/v1/threads/{threads[0]}/messages", json=_hung(number), timeout=1.0)
    await runners.send(other, threads[0], "go", _hung(number)["message_id"])
    for thread in threads:
        await runners.until_outcomes(thread, 1)
    holder.thaw()
    assert time.monotonic() - began > 1.0
    await runners.send(holder, f"woken-{number}", "go", "new work")
    assert await runners.until_outcomes(f"woken-{number}", 1) == [Outcome.COMPLETED]

    async def all_taken() -> bool:
        return not await runners.books.unsettled()

    await until(all_taken, "everything of the round is taken", seconds=60)


def _hung(number: int) -> dict[str, str]:
    return {"message_id": f"hung-{number}", "content": "go"}


async def test_a_write_that_was_on_its_way_during_the_takeover_is_refused(world: World) -> None:
    """The journal alone refuses it: nothing in the runner knows yet that the thread is another's."""
    late, taken = asyncio.Event(), asyncio.Event()

    async def write(turn: Turn) -> Json:
        await turn.emit(f"first of {turn.attempt}")
        if turn.attempt == 1:
            late.set()
        else:
            await written.wait()
        await turn.emit(f"second of {turn.attempt}")
        return turn.attempt

    written = asyncio.Event()

    async def delay(point: str, thread_id: str) -> None:
        del thread_id
        if point == "before:append" and late.is_set():
            await taken.wait()
        if point in {"after:append", "after:end"} and taken.is_set():
            written.set()

    first = await world.start(write, is_deaf=True, claim_ttl_seconds=30.0)
    first.hooks.append(delay)
    await send(first, "thread", "go")
    await late.wait()
    other = await world.start(write)
    await other.claims.close_session(first.session)
    await world.until_kind("thread", Kind.RUN_STARTED, 2)
    taken.set()
    async with asyncio.timeout(60):
        await written.wait()
    await world.settled()
    await world.check()
    events = [entry.body["event"] for entry in await world.entries("thread", Kind.EVENT)]
    assert events == ["first of 1", "first of 2", "second of 2"]
    assert await world.outcomes("thread") == [Outcome.ABANDONED, Outcome.COMPLETED]
    assert first.observer.acts["append", "Superseded"] + first.observer.acts["end", "Superseded"] >= 1

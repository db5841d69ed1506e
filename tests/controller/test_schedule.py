"""When Workspaces are swept and looked at, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from turnkeeper.controller.queue import Queue
from turnkeeper.controller.schedule import OVERDUE_SECONDS, SWEEP_SECONDS, Schedule
from turnkeeper.controller.view import Key
from turnkeeper.errors import UnavailableError

pytestmark = pytest.mark.looptime

A, B = ("people", "a"), ("people", "b")


class Sweeps:
    """Counts sweeps, and does in each what it is told."""

    def __init__(self) -> None:
        self.times: list[tuple[Key, float]] = []
        self.at_once: Counter[Key] = Counter()
        self.most_at_once: Counter[Key] = Counter()
        self.does: Callable[[Key], Awaitable[bool]] | None = None

    async def sweep(self, key: Key) -> bool:
        """One sweep."""
        self.times.append((key, asyncio.get_running_loop().time()))
        self.at_once[key] += 1
        self.most_at_once[key] = max(self.most_at_once[key], self.at_once[key])
        try:
            return await self.does(key) if self.does else True
        finally:
            self.at_once[key] -= 1

    def count(self, key: Key) -> int:
        """How many there were."""
        return sum(swept == key for swept, _ in self.times)


@contextlib.asynccontextmanager
async def running(work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Run a loop for the time of a block."""
    task = asyncio.ensure_future(work())
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_new_workspace_is_swept_at_once_and_then_on_its_interval() -> None:
    """With jitter: a minute of an interval of ten seconds has five to seven sweeps."""
    sweeps = Sweeps()
    schedule = Schedule(sweeps.sweep)
    async with running(schedule.run):
        schedule.plan(A, 10)
        await asyncio.sleep(1.01)
        assert sweeps.count(A) == 1
        await asyncio.sleep(60)
        assert 6 <= sweeps.count(A) <= 8
        gaps = {round(late - early, 3) for (_, early), (_, late) in itertools.pairwise(sweeps.times)}
        assert len(gaps) > 1, "no jitter"


async def test_who_asks_gets_a_sweep_that_begins_after() -> None:
    """Also while one runs: what it has read already may be what the asker knows better."""
    sweeps, go = Sweeps(), asyncio.Event()

    async def wait(_: Key) -> bool:
        await go.wait()
        return True

    schedule = Schedule(sweeps.sweep)
    async with running(schedule.run):
        schedule.plan(A, 3600)
        await asyncio.sleep(2)
        schedule.ask(A)
        await asyncio.sleep(0.1)
        assert sweeps.count(A) == 2
        sweeps.does = wait
        schedule.ask(A)
        await asyncio.sleep(0.1)
        for _ in range(5):
            schedule.ask(A)
        go.set()
        await asyncio.sleep(0.1)
        assert sweeps.count(A) == 4
        assert sweeps.most_at_once[A] == 1


async def test_a_sweep_that_left_something_is_followed_by_another_soon() -> None:
    """Until nothing is left; also where it failed."""
    sweeps = Sweeps()
    answers: Iterator[bool | UnavailableError] = iter([False, UnavailableError("away"), True])

    async def answer(_: Key) -> bool:
        found = next(answers)
        if isinstance(found, UnavailableError):
            raise found
        return found

    sweeps.does = answer
    schedule = Schedule(sweeps.sweep)
    async with running(schedule.run):
        schedule.plan(A, 3600)
        await asyncio.sleep(20)
        assert sweeps.count(A) == 3


async def test_one_that_hangs_keeps_nobody_and_is_cut() -> None:
    """The others are swept, and it is tried again."""
    sweeps = Sweeps()

    async def hang(key: Key) -> bool:
        if key == A:
            await asyncio.Event().wait()
        return True

    sweeps.does = hang
    schedule = Schedule(sweeps.sweep)
    async with running(schedule.run):
        schedule.plan(A, 10)
        schedule.plan(B, 10)
        await asyncio.sleep(SWEEP_SECONDS + 20)
        assert sweeps.count(B) >= 5
        assert sweeps.count(A) == 2
        assert schedule.overdue() == []


async def test_sweeps_that_do_not_come_are_seen() -> None:
    """By whoever judges whether this process should be left running; a Workspace that is gone is not missed."""
    schedule = Schedule(Sweeps().sweep)
    schedule.plan(A, 10)  # and nobody runs the schedule
    await asyncio.sleep(OVERDUE_SECONDS + 20)
    assert schedule.overdue() == []
    await asyncio.sleep(2)
    assert schedule.overdue() == [A]
    schedule.forget(A)
    assert schedule.overdue() == []


async def test_a_workspace_that_is_gone_is_swept_no_more() -> None:
    """Nor one that is suspended; planned again, it is swept at once."""
    sweeps = Sweeps()
    schedule = Schedule(sweeps.sweep)
    async with running(schedule.run):
        schedule.plan(A, 10)
        await asyncio.sleep(2)
        schedule.forget(A)
        await asyncio.sleep(100)
        assert sweeps.count(A) == 1
        schedule.plan(A, 10)
        await asyncio.sleep(1.1)
        assert sweeps.count(A) == 2


async def test_a_shorter_interval_counts_at_once() -> None:
    """Who shortens it from an hour does not wait for that hour."""
    sweeps = Sweeps()
    schedule = Schedule(sweeps.sweep)
    async with running(schedule.run):
        schedule.plan(A, 3600)
        await asyncio.sleep(2)
        schedule.plan(A, 5)
        await asyncio.sleep(6)
        assert sweeps.count(A) == 2


async def test_a_burst_of_events_is_one_look() -> None:
    """And what comes in the middle of a look is looked at after it, once."""
    looks: list[float] = []
    go = asyncio.Event()

    async def look(_: Key) -> None:
        looks.append(asyncio.get_running_loop().time())
        await go.wait()

    queue = Queue(look)
    async with running(queue.run):
        for _ in range(20):
            queue.ask(A)
        await asyncio.sleep(0.1)
        assert len(looks) == 1
        for _ in range(20):
            queue.ask(A)
        go.set()
        await asyncio.sleep(0.2)
        assert len(looks) == 2
    queue.close()


async def test_a_look_that_fails_is_tried_again_ever_more_rarely() -> None:
    """No hot loop; and an event in between is looked at at once."""
    looks: list[float] = []

    async def look(_: Key) -> None:
        looks.append(asyncio.get_running_loop().time())
        raise UnavailableError("away")

    queue = Queue(look)
    async with running(queue.run):
        queue.ask(A)
        await asyncio.sleep(120)
        gaps = [late - early for early, late in itertools.pairwise(looks)]
        assert 5 <= len(looks) <= 9
        assert gaps[-1] > gaps[0]
        seen = len(looks)
        queue.ask(A)
        await asyncio.sleep(0.1)
        assert len(looks) == seen + 1
    queue.close()

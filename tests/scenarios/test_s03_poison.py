"""S03: a message that kills its runner, and one whose answer can't be kept."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.scenarios.real_runners import Runners, real_runners
from tests.soak.nursery import Nursery
from tests.soak.processes import RunnerProcess
from tests.soak.waiting import pause, until
from turnkeeper.core.values import Json, Parked
from turnkeeper.core.words import Fate, Outcome

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

NEIGHBOURS = 9
MAX_ATTEMPTS = 3


@asynccontextmanager
async def restarted(processes: Sequence[RunnerProcess]) -> AsyncIterator[list[str]]:
    """Start again whatever dies, as a cluster would; yield the names of those that died, as they do."""
    deaths: list[str] = []

    async def watch() -> None:
        while True:
            for process in processes:
                if not process.is_alive:
                    deaths.append(process.name)
                    process.start()
                    await process.ready()
            await pause(0.1)

    watching = asyncio.create_task(watch())
    try:
        yield deaths
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _until_parked(runners: Runners, thread_id: str, count: int = 1) -> Parked:
    async def parked() -> Parked | None:
        found = await runners.books.parked(thread_id)
        return found[-1] if len(found) >= count else None

    found = await until(parked, f"the turn of {thread_id} is parked", seconds=150)
    assert found is not None
    return found


async def test_a_turn_that_kills_its_runners_is_set_aside(
    kept_nursery: Nursery, database_url: str, tmp_path: Path
) -> None:
    """After three deaths at most: what was sent after it runs, its neighbours lose nothing, a person decides."""
    async with (
        real_runners(kept_nursery, database_url, tmp_path, 3) as runners,
        restarted(runners.processes) as deaths,
    ):
        first, second, third = runners.processes
        for number in range(NEIGHBOURS):
            content: Json = {"do": "write", "seconds": 6.0}
            await runners.send(runners.processes[number % 3], f"neighbour-{number}", content, "m")
        await runners.send(first, "poison", {"do": "exit"}, "poison")
        await runners.send(second, "poison", "follow-up", "follow-up")
        parked = await _until_parked(runners, "poison")
        assert "died" in parked.reason
        assert len(deaths) <= MAX_ATTEMPTS
        await runners.settle()
        follow_up = await runners.books.message("poison", "follow-up")
        assert follow_up is not None
        assert follow_up.fate is Fate.STARTED
        for number in range(NEIGHBOURS):
            assert (await runners.outcomes(f"neighbour-{number}"))[-1] == Outcome.COMPLETED
            assert await runners.books.parked(f"neighbour-{number}") == []
        (tmp_path / "cure").touch()
        for action, fate in (("retry", Fate.STARTED), ("drop", Fate.DROPPED)):
            await _decide(runners, third, action, fate, tmp_path)
        await runners.settle()


async def _decide(runners: Runners, asked: RunnerProcess, action: str, fate: Fate, folder: Path) -> None:
    """Retry the first poison, which is cured by now; let a second one be parked, and drop it."""
    if action == "drop":
        (folder / "cure").unlink()
        await runners.send(asked, "poison", {"do": "exit"}, "again")
    parked = await _until_parked(runners, "poison")
    process = next(each for each in runners.processes if each.is_ready and each.is_alive)
    await process.ready()
    answer = await runners.http.post(f"{process.url}/v1/threads/poison/parked/{parked.seq}", json={"action": action})
    assert answer.status_code == 202, answer.text
    again = await runners.http.post(f"{process.url}/v1/threads/poison/parked/{parked.seq}", json={"action": action})
    assert again.status_code == 409, again.text

    async def is_decided() -> bool:
        message = await runners.books.message("poison", "poison" if action == "retry" else "again")
        return message is not None and message.fate is fate

    await until(is_decided, f"{action} is done", seconds=60)


async def test_an_answer_that_is_too_large_fails_its_run_and_no_more(
    kept_nursery: Nursery, database_url: str, tmp_path: Path
) -> None:
    """Twenty mebibytes: the run fails with the rule in its reason, once, and the thread goes on."""
    async with real_runners(kept_nursery, database_url, tmp_path, 1) as runners:
        (runner,) = runners.processes
        await runners.send(runner, "thread", {"do": "too large"}, "m")
        await runners.until_outcomes("thread", 1)
        await runners.send(runner, "thread", "next", "n")
        assert await runners.until_outcomes("thread", 2) == [Outcome.FAILED, Outcome.COMPLETED]
        await runners.settle()
        assert runner.is_alive

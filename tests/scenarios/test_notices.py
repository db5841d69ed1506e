"""A runner that is killed beside others: they notice, and nobody waits for its ttl."""

import asyncio
import time
from pathlib import Path

import pytest

from tests.scenarios.real_runners import real_runners
from tests.soak.nursery import Nursery
from tests.soak.waiting import pause
from turnkeeper.core.values import Json
from turnkeeper.core.words import Outcome

LONG_TTL = 60.0
"""No test waits for it: whatever is taken over within the test was noticed."""


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_killed_runners_turns_go_on_elsewhere_without_any_ttl(
    kept_nursery: Nursery, database_url: str, tmp_path: Path
) -> None:
    """What it ran, and what others were refused because of it."""
    async with real_runners(kept_nursery, database_url, tmp_path, 3, ttl=LONG_TTL) as runners:
        holder, *others = runners.processes
        threads = [f"thread-{number}" for number in range(5)]
        hold: Json = {"do": "write", "seconds": 300}
        await asyncio.gather(*(runners.send(holder, thread, hold, "held") for thread in threads))
        await runners.send(others[0], threads[0], "go", "waiting")
        await pause(LONG_TTL / 30 * 1.5)  # they have polled, and hold their connections by then
        began = time.monotonic()
        holder.kill()
        for thread in threads:
            assert (await runners.until_outcomes(thread, 1))[0] == Outcome.ABANDONED
        assert time.monotonic() - began < LONG_TTL / 2

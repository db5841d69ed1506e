"""S06 (i) and (ii): a handler that blocks its runner's loop, or the whole interpreter."""

from pathlib import Path

import pytest

from tests.scenarios.real_runners import TTL, real_runners
from tests.soak.nursery import Nursery
from turnkeeper.core.words import Kind, Outcome

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def test_a_blocked_loop_costs_no_claim(kept_nursery: Nursery, database_url: str, tmp_path: Path) -> None:
    """A handler blocks its loop for four ttls: nobody takes the thread over, and its answer stands."""
    async with real_runners(kept_nursery, database_url, tmp_path, 2) as runners:
        holder, other = runners.processes
        await runners.send(holder, "thread", {"do": "hold the loop", "seconds": 4 * TTL}, "held")
        await runners.send(other, "thread", "behind", "behind")
        await runners.until_outcomes("thread", 1)
        (dump,) = await runners.settle()
        assert {run.outcome for run in dump.runs} == {Outcome.COMPLETED}
        assert [run.attempt for run in dump.runs] == [1] * len(dump.runs)
        assert holder.is_alive


async def test_a_held_interpreter_costs_at_most_one_takeover(
    kept_nursery: Nursery, database_url: str, tmp_path: Path
) -> None:
    """No sign of life can come: another takes over, and what the first writes when it is back is refused."""
    async with real_runners(kept_nursery, database_url, tmp_path, 2) as runners:
        holder, other = runners.processes
        await runners.send(holder, "thread", {"do": "hold the lock", "seconds": 2 * TTL}, "held")
        await runners.send(other, "thread", "behind", "behind")
        await runners.until_outcomes("thread", 1)
        await runners.settle()
        begun = await runners.kinds("thread", Kind.RUN_STARTED)
        outcomes = await runners.outcomes("thread")
        assert [body["attempt"] for body in begun if body["turn_id"] == begun[0]["turn_id"]] in ([1], [1, 2])
        assert outcomes.count(Outcome.ABANDONED) + outcomes.count(Outcome.INTERRUPTED) <= 1
        assert outcomes[-1] == Outcome.COMPLETED
        await runners.send(holder, "woken", "go", "new work")
        assert await runners.until_outcomes("woken", 1) == [Outcome.COMPLETED]

"""Many threads whose holder dies at once: taken a few at a time, and seldom by two who both want the same."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from tests.runner.world import Process, World, echo
from turnkeeper.core.turn import Started
from turnkeeper.ports import Turn
from turnkeeper.runner.looks import AT_ONCE

pytestmark = pytest.mark.looptime

THREADS = 200
CLAIM_SECONDS = 0.05
"""What a claim costs here."""


async def forever(turn: Turn) -> None:
    """Never end by itself."""
    del turn
    await asyncio.Event().wait()


@dataclass
class Counted:
    """How many claims a process tried for, and how many at once at most."""

    tried: int = 0
    at_once: int = 0
    most_at_once: int = 0


def count_claims(process: Process) -> Counted:
    """Let each claim of a process take its time, and count them."""
    counted, claim = Counted(), process.claims.claim

    async def slow(thread_id: str, session: str, nonce: str, journal_token: int) -> object:
        counted.tried += 1
        counted.at_once += 1
        counted.most_at_once = max(counted.most_at_once, counted.at_once)
        await asyncio.sleep(CLAIM_SECONDS)
        counted.at_once -= 1
        return await claim(thread_id, session, nonce, journal_token)

    process.claims.claim = slow  # type: ignore[assignment, method-assign] # the claims' own, in its time
    return counted


async def test_a_herd_is_shared_and_nobody_runs_into_the_other(world: World) -> None:
    """Each of two runners has a look at each thread; the threads are claimed little more than once in all."""
    holder = await world.start(forever, max_turns=THREADS)
    others = [await world.start(echo, max_turns=THREADS, sweep_interval_seconds=None) for _ in range(2)]
    threads = [f"t{number}" for number in range(THREADS)]
    for thread_id in threads:
        await world.send(holder, thread_id, "hello")
        for other in others:
            await world.send(other, thread_id, "more")
    counted = [count_claims(other) for other in others]
    await holder.kill()
    await world.until(lambda: all(world.outcomes(thread_id)[-1:] == ["completed"] for thread_id in threads))
    for other, each in zip(others, counted, strict=True):
        assert each.most_at_once <= AT_ONCE
        assert other.observer.acts["start", Started.__name__] + other.observer.acts["start", "TakenOver"] > THREADS / 4
    assert THREADS <= sum(each.tried for each in counted) < 1.2 * THREADS
    assert all(world.outcomes(thread_id).count("abandoned") == 1 for thread_id in threads)

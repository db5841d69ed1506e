"""Schedules found by the soak: a runner's look at the sessions fails once, and what it was about must not be lost."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from tests.scenarios.harness import SWEEP_SECONDS, World, send
from turnkeeper.adapters.memory import MemoryClaims, MemoryStore
from turnkeeper.core.claim import SessionRecord
from turnkeeper.core.values import Json
from turnkeeper.core.words import Kind, Outcome
from turnkeeper.errors import UnavailableError, UnknownOutcomeError
from turnkeeper.ports import Turn
from turnkeeper.runner import service
from turnkeeper.runner.presence import Presence

pytestmark = pytest.mark.timeout(120)


async def last_at_first(turn: Turn) -> Json:
    """Let the first attempt last for ever."""
    if turn.attempt == 1:
        await asyncio.Event().wait()
    return "done"


def failing(
    sessions: Callable[[], Coroutine[Any, Any, Sequence[SessionRecord]]], calls: range
) -> Callable[[], Coroutine[Any, Any, Sequence[SessionRecord]]]:
    """Let these calls fail, counted from 0."""
    made = 0

    async def read() -> Sequence[SessionRecord]:
        nonlocal made
        made += 1
        if made - 1 in calls:
            raise UnavailableError("the store can't be reached now")
        return await sessions()

    return read


@pytest.mark.parametrize("interval_seconds", [None, 3600.0])
async def test_a_sweep_that_could_not_see_the_sessions_is_made_again_soon(
    world: World,
    interval_seconds: float | None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """1. A runner dies alone. 2. The next one's sweep can't read the sessions. 3. No other sweep is due for an hour."""
    monkeypatch.setattr(service, "RESWEEP_SECONDS", SWEEP_SECONDS)
    first = await world.start(last_at_first)
    await send(first, "thread", "go")
    await world.until_kind("thread", Kind.RUN_STARTED)
    await first.kill()
    second = world.make(last_at_first, sweep_interval_seconds=interval_seconds)
    second.claims.sessions = failing(second.claims.sessions, range(1, 6))  # type: ignore[method-assign]  # the fault goes in here
    await second.runner.start()
    await world.settled(30)
    await world.check()
    assert "the sweep leaves running threads out" in caplog.text
    assert await world.outcomes("thread") == [Outcome.ABANDONED, Outcome.COMPLETED]


class StandingClock:
    """A clock that is set by hand."""

    seconds = 0.0

    def monotonic(self) -> float:
        """See `ports.Clock`."""
        return self.seconds

    def wall_ms(self) -> int:
        """See `ports.Clock`."""
        return 0

    async def sleep(self, seconds: float) -> None:
        """See `ports.Clock`."""
        self.seconds += seconds


async def test_an_end_that_was_seen_is_told_though_another_can_not_be_declared() -> None:
    """1. One session is gone, another has expired. 2. Declaring that one dead fails. 3. The first is not seen again."""
    claims, clock = MemoryClaims("test", MemoryStore()), StandingClock()
    told: list[str] = []

    async def tell(session: str) -> None:
        told.append(session)

    async def declare_dead(record: SessionRecord) -> bool:
        del record
        raise UnknownOutcomeError("no answer")

    presence = Presence(claims, clock, 3.0, tell)
    await claims.open_session("gone", "a", 60.0)
    await claims.open_session("silent", "b", 0.2)
    for _ in range(4):
        await presence.poll()
        await clock.sleep(0.15)
    assert told == ["silent"], "the plain case"
    await claims.open_session("silent again", "b", 0.2)
    for _ in range(2):
        await presence.poll()
        await clock.sleep(0.15)
    await claims.close_session("gone")
    claims.declare_dead = declare_dead  # type: ignore[method-assign]  # the fault goes in here
    for _ in range(2):
        with contextlib.suppress(UnknownOutcomeError):
            await presence.poll()
        await clock.sleep(0.15)
    assert told == ["silent", "gone"]

"""S06: renewal and work share their fate, and neither starves the other. Blocked loops are in `test_s06_blocked.py`."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import create_async_engine

from tests.scenarios.harness import TTL, World, send
from tests.soak.waiting import pause, until_true
from turnkeeper.adapters import sql_database, sql_journal
from turnkeeper.core.values import Json
from turnkeeper.core.words import Kind, Outcome
from turnkeeper.ports import Turn

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@contextlib.asynccontextmanager
async def locked(world: World) -> AsyncIterator[None]:
    """Hold what each write of a turn must wait for: the thread's row, or the one writer's place of a SQLite file."""
    url = make_url(world.url)
    if world.dialect == "sqlite":
        with contextlib.closing(sqlite3.connect(url.database or "", timeout=30, isolation_level=None)) as held:
            held.execute("BEGIN EXCLUSIVE")
            yield
            held.execute("ROLLBACK")
        return
    engine = create_async_engine(url.set(drivername="postgresql+asyncpg"))
    async with engine.connect() as connection:
        await connection.execute(text("SELECT * FROM threads FOR UPDATE"))
        yield
    await engine.dispose()


async def test_a_write_that_hangs_ends_its_claim_in_bounded_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal is locked for longer than every deadline: the turn is given up, and goes on once it is free."""
    monkeypatch.setattr(sql_journal, "DEADLINE_SECONDS", 1.0)
    monkeypatch.setattr(sql_database, "BUSY_SECONDS", 0.5)
    begun, going = asyncio.Event(), asyncio.Event()

    async def write(turn: Turn) -> Json:
        begun.set()
        await going.wait()
        await turn.emit(f"of attempt {turn.attempt}")
        return turn.attempt

    lives = [await world.start(write) for _ in range(2)]
    await send(lives[0], "thread", "go")
    await begun.wait()
    async with locked(world):
        going.set()
        await until_true(
            lambda: not any(life.runner._taker.drives for life in lives),
            "the turn whose write hangs is given up",
            seconds=60,
        )
        await pause(TTL / 2)
    await world.settled()
    await world.check()
    outcomes = await world.outcomes("thread")
    assert outcomes[-1] == Outcome.COMPLETED
    assert set(outcomes[:-1]) <= {Outcome.INTERRUPTED, Outcome.ABANDONED}
    assert outcomes[:-1], "it was not given up"


async def test_a_handler_that_waits_for_ever_is_ended_by_its_progress_deadline(world: World) -> None:
    """It ends timed out, and the thread takes its next message, while a turn that moves goes on."""

    async def hang(turn: Turn) -> Json:
        if turn.prompts[0].content == "hang":
            await asyncio.Event().wait()
        for number in range(8):
            await turn.emit(number)
            await pause(0.25)
        return "done"

    life = await world.start(hang, turn_progress_seconds=4.0)
    await send(life, "thread", "hang")
    await send(life, "another", "move")
    await world.until_kind("thread", Kind.RUN_ENDED)
    await send(life, "thread", "next")
    await world.settled()
    await world.check()
    assert await world.outcomes("thread") == [Outcome.TIMED_OUT, Outcome.COMPLETED]
    assert await world.outcomes("another") == [Outcome.COMPLETED]

"""Hints between processes over PostgreSQL: they arrive, and where they do not the poll is as quick as without them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio
from sqlalchemy import make_url, text

from tests.contract.play import send
from tests.soak.waiting import until_true
from turnkeeper.adapters import postgres_hints
from turnkeeper.adapters.machine_clock import MachineClock
from turnkeeper.adapters.polling_hints import POLL_SECONDS
from turnkeeper.adapters.postgres_hints import PostgresHints
from turnkeeper.adapters.sql_journal import SqlJournal, open_journal

CUT_OFF = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = :name")
NEVER_SECONDS = 3_600.0

Start = Callable[[], PostgresHints]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let silence be noticed soon, and let the poll be no help while hints arrive."""
    monkeypatch.setattr(postgres_hints, "HEARTBEAT_SECONDS", 0.2)
    monkeypatch.setattr(postgres_hints, "SILENT_SECONDS", 2.0)
    monkeypatch.setattr(postgres_hints, "HEARING_POLL_SECONDS", NEVER_SECONDS)


@pytest_asyncio.fixture
async def journal(postgresql_url: str) -> AsyncIterator[SqlJournal]:
    """A journal with one thread."""
    journal = await open_journal(postgresql_url, "w")
    await send(journal, "t")
    yield journal
    await journal.aclose()


@pytest_asyncio.fixture
async def start(postgresql_url: str, journal: SqlJournal) -> AsyncIterator[Start]:
    """Starts the hints of a process."""
    tasks: list[asyncio.Task[None]] = []

    def start() -> PostgresHints:
        hints = PostgresHints(journal, MachineClock(), make_url(postgresql_url), "w")
        tasks.append(asyncio.create_task(hints.run()))
        return hints

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def two(start: Start) -> tuple[PostgresHints, PostgresHints]:
    """Return two processes that know of each other."""
    one, other = start(), start()
    await until_true(lambda: len(one._heard) == len(other._heard) == 2, "both have heard of both")
    return one, other


async def test_what_one_process_writes_another_hears_of(start: Start) -> None:
    """Without the poll; and who watches something else hears nothing."""
    one, other = await two(start)
    watch, elsewhere = other.watch("t"), other.watch("another")
    one.tell("t")
    assert await watch.news(20.0)
    assert not elsewhere.has_news.is_set()
    watch.close()
    elsewhere.close()
    assert not other._by_hash


async def test_a_burst_of_news_names_every_thread(start: Start) -> None:
    """More threads than one notification holds."""
    one, other = await two(start)
    watches = [other.watch(f"t{number}") for number in range(3 * postgres_hints.NAMED_MAX)]
    for number in range(len(watches)):
        one.tell(f"t{number}")
    assert all(await asyncio.gather(*(watch.news(20.0) for watch in watches)))


async def test_a_process_alone_notifies_nobody(start: Start) -> None:
    """It costs the database nothing but a sign of life."""
    alone = start()
    await until_true(lambda: alone.is_hearing, "it hears itself")
    alone.tell("t")
    assert not alone._told


async def test_a_listener_that_is_cut_off_polls_and_comes_back(start: Start, journal: SqlJournal) -> None:
    """The connection is ended by the server: until it is there again, threads are polled as if there were no hints."""
    one, other = await two(start)
    named = {"name": postgres_hints.APPLICATION_NAME}
    await journal.database.write(lambda connection: connection.execute(CUT_OFF, named))
    await until_true(lambda: not other.is_hearing or not one.is_hearing, "it is noticed")
    assert min(one.poll_seconds, other.poll_seconds) == POLL_SECONDS
    await until_true(lambda: one.is_hearing and other.is_hearing, "both hear again")
    watch = other.watch("t")
    await until_true(lambda: len(one._heard) == len(other._heard) == 2, "both have heard of both")
    one.tell("t")
    assert await watch.news(20.0)


async def test_who_does_not_hear_itself_polls(start: Start) -> None:
    """As behind a pooler that lends a connection out for each transaction: what is listened for never comes."""
    one, _ = await two(start)
    assert one.poll_seconds == NEVER_SECONDS
    one._channel = "elsewhere"
    await until_true(lambda: not one.is_hearing, "it is noticed")
    assert one.poll_seconds == POLL_SECONDS


async def test_a_server_that_is_away_breaks_nothing(journal: SqlJournal) -> None:
    """Hints of a database that can't be reached: the process goes on, and tries again."""
    hints = PostgresHints(journal, MachineClock(), make_url("postgresql://localhost:1/none"), "w")
    task = asyncio.create_task(hints.run())
    watch = hints.watch("t")
    await send(journal, "t", "m2")
    assert await watch.news(20.0)  # by the poll
    assert not task.done()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task

"""How a journal is read to be checked: in bounded pages, each of one moment, beside writers, and nothing is changed."""

from __future__ import annotations

import asyncio
import sqlite3
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError

from tests.contract.play import begin, emit, finish, send
from tests.verify.journals import check, make, plant, run, told
from turnkeeper.adapters import sql_audit, sql_entries
from turnkeeper.adapters.sql_audit import SqlAudit
from turnkeeper.adapters.sql_database import Transaction
from turnkeeper.adapters.sql_entries import EntryReader, Page
from turnkeeper.adapters.sql_journal import open_journal
from turnkeeper.adapters.sql_readonly import ReadOnly, open_readonly
from turnkeeper.core.invariants import Rows
from turnkeeper.core.thread_check import ThreadCheck
from turnkeeper.core.values import Entry, Message, Run, Thread
from turnkeeper.core.words import Fate, Kind, Mode, Outcome
from turnkeeper.errors import SettingsError, UnavailableError

TURNS = 20_000


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages so small that every thread and table is cut into several."""
    monkeypatch.setattr(sql_entries, "PAGE", 4)
    monkeypatch.setattr(sql_entries, "KEYS", 2)
    monkeypatch.setattr(sql_entries, "BODY_MAX", 70)
    monkeypatch.setattr(sql_audit, "BATCH_ENTRIES", 8)
    monkeypatch.setattr(sql_audit, "BATCH_THREADS", 2)
    monkeypatch.setattr(sql_audit, "RUNS_PAGE", 3)


@pytest.mark.usefixtures("small_pages")
async def test_pages_change_nothing_and_none_is_longer(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No list ever holds a whole thread or a whole journal."""
    sizes: list[int] = []
    feed = Page.feed

    def count(page: Page, checks: dict[int, ThreadCheck]) -> int:
        sizes.append(len(page.entries))
        assert len(checks) <= 2
        return feed(page, checks)

    monkeypatch.setattr(Page, "feed", count)
    await make(database_url)
    findings = await check(database_url)
    assert told(findings) == set()
    assert (findings.threads, findings.entries, findings.messages, findings.runs) == (5, 45, 13, 12)
    assert max(sizes) == 4
    await plant(
        database_url,
        [
            "UPDATE messages SET run_id = 'r5' WHERE thread_key = {t} AND message_id = 'm1'",
            "DELETE FROM runs WHERE run_id = 'r9'",
        ],
    )
    assert told(await check(database_url)) == {("SentIsTaken", "t", 1), ("OneEnd", "t", 27), ("OneEnd", "t", 28)}


def _long_log() -> Iterator[tuple[Entry, Message | None, Run | None]]:
    for turn in range(TURNS):
        seq, run_id = 4 * turn + 1, f"run-{turn}"
        body = {"message_id": f"m-{turn}", "sender": "a", "mode": "steer"}
        names: dict[str, Any] = {"turn_id": run_id, "run_id": run_id}
        message = Message(
            **names,
            message_id=f"m-{turn}",
            seq=seq,
            sender="a",
            mode=Mode.STEER,
            digest="",
            created_ms=1,
            fate=Fate.STARTED,
        )
        run = Run(
            **names,
            attempt=1,
            token=turn + 1,
            session="s",
            started_seq=seq + 1,
            started_ms=1,
            outcome=Outcome.COMPLETED,
            ended_seq=seq + 3,
        )
        of_run: dict[str, Any] = {"created_ms": 1, "run_id": run_id, "token": turn + 1}
        yield Entry(seq=seq, kind=Kind.MESSAGE, created_ms=1, body=body), message, None
        yield Entry(seq=seq + 1, kind=Kind.RUN_STARTED, body={"turn_id": run_id, "prompts": [seq]}, **of_run), None, run
        yield Entry(seq=seq + 2, kind=Kind.EVENT, **of_run), None, None
        yield Entry(seq=seq + 3, kind=Kind.RUN_ENDED, body={"outcome": "completed", "used": []}, **of_run), None, run


def test_a_long_log_is_checked_in_little_memory() -> None:
    """What a check carries from entry to entry does not grow with the log."""
    row = Thread(thread_id="t", last_seq=4 * TURNS, asked=4 * TURNS - 3, taken=4 * TURNS - 3, token=TURNS, session="s")
    checker = ThreadCheck(Rows(thread=row, open_questions=0, parked=0, receipts=TURNS), at_rest=True)
    tracemalloc.start()
    try:
        for entry, message, run in _long_log():
            checker.entry(entry, message, run)
        checker.close()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert checker.drain() == []
    assert peak < 300_000


@pytest.mark.usefixtures("small_pages")
async def test_a_journal_is_clean_while_it_is_written(database_url: str) -> None:
    """Messages, runs and ends in the middle of the check, in new threads and in the ones being read."""
    await make(database_url)
    journal = await open_journal(database_url, "w")

    async def converse(thread_id: str) -> None:
        for number in range(12):
            await send(journal, thread_id, f"m{number}", sender="a")
            started = await begin(journal, thread_id, f"{thread_id}-{number}", number + 1)
            await emit(journal, started, 0)
            await send(journal, thread_id, f"n{number}", sender="b")
            await finish(journal, started)

    writing = asyncio.gather(*(converse(f"live{number}") for number in range(4)))
    checks = 0
    while not writing.done():
        assert told(await check(database_url)) == set()
        checks += 1
    await writing
    await journal.aclose()
    assert checks > 1
    assert told(await check(database_url)) == set()


@pytest.mark.usefixtures("small_pages")
async def test_a_long_thread_is_of_one_moment(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written between two of its pages is not seen before the next check."""
    await make(database_url)
    pages = EntryReader.pages
    done: list[bool] = []

    def meddle(reader: EntryReader) -> Iterator[Page]:
        for page in pages(reader):
            yield page
            if not done:
                done.append(True)
                with ThreadPoolExecutor(1) as thread:
                    lost = plant(database_url, ["DELETE FROM entries WHERE thread_key = {t} AND seq = 12"])
                    thread.submit(run, lost).result()

    monkeypatch.setattr(EntryReader, "pages", meddle)
    assert told(await check(database_url, "w")) & {("GapFree", "t", 13)} == set()
    assert done
    assert ("GapFree", "t", 13) in told(await check(database_url, "w"))


class _Meddling:
    """A database in which a hand changes something before one of the reads."""

    def __init__(self, database: ReadOnly, url: str, before: int, statement: str) -> None:
        self._database = database
        self._url = url
        self._before = before
        self._statement = statement
        self._reads = 0

    async def read(self, transaction: Transaction[Any]) -> Any:  # noqa: ANN401 - whatever the transaction returns
        self._reads += 1
        if self._reads == self._before:
            await plant(self._url, [self._statement])
        return await self._database.read(transaction)

    async def aclose(self) -> None:
        await self._database.aclose()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE threads SET taken = 1 WHERE thread_id = 't'",
        "UPDATE threads SET token = 1 WHERE thread_id = 't'",
        "DELETE FROM threads WHERE thread_id = 't'",
    ],
)
async def test_a_row_that_goes_back_while_it_is_checked_is_named(sqlite_url: str, statement: str) -> None:
    """Each thread's row is read again when its log was checked."""
    await make(sqlite_url)
    database = _Meddling(open_readonly(make_url(sqlite_url)), sqlite_url, 3, statement)
    findings = await SqlAudit(database, "w", at_rest=False).run()
    await database.aclose()
    assert ("CursorsForward", "t", None) in told(findings)


async def test_nothing_can_be_written(database_url: str) -> None:
    """The database itself refuses, whatever a check would do."""
    await make(database_url)
    database = open_readonly(make_url(database_url))
    for statement in ("DELETE FROM entries", "CREATE TABLE new (number INTEGER)"):
        with pytest.raises((DBAPIError, UnavailableError), match=r"read-?\s?only|readonly"):
            await database.read(lambda connection, statement=statement: connection.exec_driver_sql(statement))  # type: ignore[misc]  # bound at once
    await database.aclose()
    assert told(await check(database_url)) == set()


def test_a_missing_file_is_not_made(tmp_path: Path) -> None:
    """A wrong path is told, not turned into an empty journal."""
    with pytest.raises(UnavailableError, match="there is no journal at"):
        run(check(f"sqlite:///{tmp_path / 'none.db'}"))
    assert list(tmp_path.iterdir()) == []


async def test_a_file_of_any_name_is_read(tmp_path: Path) -> None:
    """What means something in a URL means nothing in a path."""
    url = make_url("sqlite://").set(database=str(tmp_path / "a b?mode=rw#%20é.db")).render_as_string()
    await make(url)
    assert (await check(url)).threads == 5


async def test_a_database_without_a_journal_is_refused(database_url: str) -> None:
    """No tables, or tables of another revision: told, not checked as empty."""
    if database_url.startswith("sqlite"):
        with closing(sqlite3.connect(make_url(database_url).database or "")) as other:
            other.execute("CREATE TABLE other (number INTEGER)")
    with pytest.raises(SettingsError, match="no tables of turnkeeper"):
        await check(database_url)
    await make(database_url)
    await plant(database_url, ["UPDATE turnkeeper_revision SET version_num = '9999'"])
    with pytest.raises(SettingsError, match="revision 9999"):
        await check(database_url)


async def test_a_workspace_that_is_not_there_is_refused(sqlite_url: str) -> None:
    """A typing error must not look like a clean journal."""
    await make(sqlite_url)
    with pytest.raises(SettingsError, match="no thread in the workspace 'W'; it has: 'w'"):
        await check(sqlite_url, "W")

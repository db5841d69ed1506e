"""What a sweep, a takeover and a list of what is owed cost: never a walk over the threads that are at rest."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from sqlalchemy import Connection, event, text

from tests.contract.play import asking, begin, finish, send, try_start
from tests.contract.stores import SqlStore
from turnkeeper.adapters.sql_database import Database
from turnkeeper.adapters.sql_journal import SqlJournal
from turnkeeper.adapters.sql_tables import claims, entries, messages, questions, runs, threads
from turnkeeper.core.values import Fence
from turnkeeper.core.words import Mode, ThreadState

AT_REST = 3_000
"""Arbitrary: so many threads that no planner prefers to read them all."""

Read = Callable[[SqlJournal], Awaitable[object]]

READS: dict[str, Read] = {
    "owed": lambda journal: journal.owed(ThreadState.OWED, None, 10),
    "owed, a later page": lambda journal: journal.owed(ThreadState.OWED, (1, "t"), 10),
    "running": lambda journal: journal.owed(ThreadState.RUNNING, None, 10),
    "ran_by": lambda journal: journal.ran_by("s1"),
    "heads": lambda journal: journal.heads(["a", "b"]),
    "overdue": lambda journal: journal.overdue(10**13, 10),
    "paused threads": lambda journal: journal.threads(ThreadState.PAUSED, "", 10),
    "a thread": lambda journal: journal.thread("a"),
    "a run": lambda journal: journal.run("r1"),
    "what waits": lambda journal: journal.waiting("a", 0, 10),
    "a log": lambda journal: journal.log("a", 0, 10),
    "a receipt": lambda journal: journal.message("a", "m1"),
    "the counts": lambda journal: journal.stats(),
    "messages to two threads": lambda journal: asyncio.gather(send(journal, "a"), send(journal, "b")),
    "a start": lambda journal: try_start(journal, "late", "r9", Fence(9, "s9")),
}


def fill(connection: Connection) -> None:
    """Make many threads that were asked and answered long ago, each with a run and a message."""
    numbers = range(AT_REST)
    connection.execute(
        threads.insert(),
        [
            {"key": 10_000 + n, "workspace": "w", "thread_id": f"rest{n}", "last_seq": 3, "asked": 1, "taken": 1}
            for n in numbers
        ],
    )
    of_thread = [{"thread_key": 10_000 + n} for n in numbers]
    message = {"seq": 1, "sender": "", "mode": "steer", "digest": "", "created_ms": 1, "fate": "started"}
    connection.execute(messages.insert(), [{**row, **message, "message_id": "m1"} for row in of_thread])
    connection.execute(entries.insert(), [{**row, "seq": 1, "kind": "message", "created_ms": 1} for row in of_thread])
    run = {"turn_id": "x", "outcome": "abandoned", "session": "old"}
    connection.execute(runs.insert(), [{**row, **run, "run_id": f"rest{n}"} for n, row in enumerate(of_thread)])
    question = {"turn_id": "x", "ask": "free", "detail": "null", "resolution": "answered", "answer": "1", "text": '""'}
    connection.execute(questions.insert(), [{**row, **question, "question_id": "q"} for row in of_thread])
    connection.execute(
        claims.insert(),
        [{"workspace": "w", "thread_id": f"rest{n}", "session": "s", "nonce": "n"} for n in numbers],
    )


async def busy_journal(store: SqlStore) -> tuple[SqlJournal, Database]:
    """Return a journal with a few threads in each state among many at rest, and a way past it."""
    journal, database = await store.journal(), await store.database()
    await database.write(fill)
    for thread_id in ("a", "b", "late"):
        await send(journal, thread_id)
    started = await begin(journal, "b", "r1")
    await finish(journal, started, asking(started, "q", expires_ms=5))
    await begin(journal, "a", "r2")
    await begin(journal, "late", "r3", session="s3")
    await database.write(lambda connection: connection.execute(text("ANALYZE")))
    return journal, database


def scans(connection: Connection, statement: str, parameters: object) -> list[str]:
    """Return the steps of a statement's plan that read a whole table or a whole index."""
    if connection.dialect.name == "sqlite":
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)  # type: ignore[arg-type]  # as the driver had it
        steps = [str(row[3]) for row in plan]
        return [step for step in steps if re.match(r"SCAN (?!CONSTANT ROW|\(|first|anon)\w+", step)]
    plan = connection.exec_driver_sql(f"EXPLAIN {statement}", parameters)  # type: ignore[arg-type]  # as the driver had it
    return [str(row[0]).strip() for row in plan if "Seq Scan" in str(row[0])]


@pytest.mark.parametrize("name", READS)
async def test_no_read_walks_over_what_is_at_rest(sql_store: SqlStore, name: str) -> None:
    """Each statement of it finds its rows by an index; what is at rest is not touched."""
    journal, database = await busy_journal(sql_store)
    said: list[tuple[str, object]] = []

    def note(_connection: object, _cursor: object, statement: str, parameters: object, *_: object) -> None:
        said.append((statement, parameters))

    engines = _engines(journal._database)
    for engine in engines:
        event.listen(engine, "before_cursor_execute", note)
    await READS[name](journal)
    for engine in engines:
        event.remove(engine, "before_cursor_execute", note)
    selects = [(statement, parameters) for statement, parameters in said if statement.lstrip().startswith("SELECT")]
    assert selects
    for statement, parameters in selects:
        found = await database.read(partial(scans, statement=statement, parameters=parameters))
        assert found == [], f"{name}: {statement}"


def _engines(database: Database) -> list[object]:
    found = [getattr(database, name, None) for name in ("_reader", "_writer", "_engine")]
    return [getattr(engine, "sync_engine", engine) for engine in found if engine is not None]


async def test_a_walk_over_everything_is_noticed(sql_store: SqlStore) -> None:
    """The check can fail: a statement that no index serves is reported."""
    _, database = await busy_journal(sql_store)
    walk = "SELECT count(*) FROM threads WHERE last_seq = 77"
    assert await database.read(partial(scans, statement=walk, parameters=())) != []


MANY_WAITING = 5_000


async def test_a_take_reads_no_more_of_a_long_queue_than_it_can_use(sqlite_url: str) -> None:
    """What a turn costs does not grow with how many messages wait in its thread."""
    store = SqlStore(sqlite_url)
    few, many = await queue_of(store, "few", 200), await queue_of(store, "many", MANY_WAITING)
    await store.aclose()
    assert many < 2 * few, f"{few} steps of SQLite's machine for 200 that wait, {many} for {MANY_WAITING}"


async def queue_of(store: SqlStore, thread_id: str, length: int) -> int:
    """Let messages wait in a thread, start a turn, and return how many hundreds of steps SQLite needed for it."""
    journal = await store.journal()
    await asyncio.gather(*(send(journal, thread_id, f"m{number}", mode=Mode.QUEUE) for number in range(length)))
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    def watch(connection: Connection) -> None:
        connection.connection.driver_connection.set_progress_handler(step, 100)  # type: ignore[union-attr]  # it is there while the connection is open

    await journal.database.write(watch)
    await begin(journal, thread_id, f"r-{thread_id}")
    return steps

"""The bare floor of a turn: the three commits that no design can leave out, by raw drivers with minimal statements.

    commit 1   insert the message, update its thread
    commit 2   insert the run
    commit 3   update the run, update the thread

No claim, no fence, no receipt, no log, no batching: what is measured against it is what these cost.
"""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from bench.databases import Place, raw_pool

Commit = Callable[[int, int], Awaitable[None]]
Floor = tuple[Commit, Commit, Commit]
Statements = Sequence[tuple[str, Callable[[int, int], tuple[object, ...]]]]

TABLES = (
    "CREATE TABLE IF NOT EXISTS floor_threads (key BIGINT PRIMARY KEY, asked BIGINT, taken BIGINT)",
    "CREATE TABLE IF NOT EXISTS floor_messages (thread BIGINT, seq BIGINT, body TEXT, PRIMARY KEY (thread, seq))",
    "CREATE TABLE IF NOT EXISTS floor_runs (thread BIGINT, seq BIGINT, outcome TEXT, PRIMARY KEY (thread, seq))",
)
BODY = '{"message_id": "m", "sender": "", "mode": "steer", "content": "hello"}'

SENT: Statements = (
    ("INSERT INTO floor_messages VALUES ($1, $2, $3)", lambda thread, seq: (thread, seq, BODY)),
    ("UPDATE floor_threads SET asked = $1 WHERE key = $2", lambda thread, seq: (seq, thread)),
)
STARTED: Statements = (("INSERT INTO floor_runs VALUES ($1, $2, NULL)", lambda thread, seq: (thread, seq)),)
ENDED: Statements = (
    ("UPDATE floor_runs SET outcome = 'completed' WHERE thread = $1 AND seq = $2", lambda thread, seq: (thread, seq)),
    ("UPDATE floor_threads SET taken = $1 WHERE key = $2", lambda thread, seq: (seq, thread)),
)

_numbers = itertools.count(1)


def next_seq() -> int:
    """Return a number that no turn had before, so that rounds share their tables."""
    return next(_numbers)


@asynccontextmanager
async def open_floor(place: Place, threads: int, pool_size: int) -> AsyncIterator[Floor]:
    """Yield the three commits of a turn as functions of (thread, seq). pool_size: of PostgreSQL's connections."""
    opening = _sqlite_floor(place, threads) if place.database == "sqlite" else _pg_floor(place, threads, pool_size)
    async with opening as floor:
        yield floor


@asynccontextmanager
async def _sqlite_floor(place: Place, threads: int) -> AsyncIterator[Floor]:
    """One writer thread with one connection, as SQLite has one writer; the same durability as the journal's."""
    writer = ThreadPoolExecutor(1)
    loop = asyncio.get_running_loop()
    connection = sqlite3.connect(f"{place.url}.floor", isolation_level=None, check_same_thread=False)
    for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", *TABLES):
        connection.execute(statement)
    for thread in range(threads):
        connection.execute("INSERT OR IGNORE INTO floor_threads VALUES (?, 0, 0)", (thread,))

    def commit_of(statements: Statements) -> Commit:
        texts = [(text.replace("$1", "?1").replace("$2", "?2").replace("$3", "?3"), of) for text, of in statements]

        def write(thread: int, seq: int) -> None:
            connection.execute("BEGIN IMMEDIATE")
            for text, of in texts:
                connection.execute(text, of(thread, seq))
            connection.execute("COMMIT")

        async def commit(thread: int, seq: int) -> None:
            await loop.run_in_executor(writer, write, thread, seq)

        return commit

    try:
        yield commit_of(SENT), commit_of(STARTED), commit_of(ENDED)
    finally:
        await loop.run_in_executor(writer, connection.close)
        writer.shutdown()


@asynccontextmanager
async def _pg_floor(place: Place, threads: int, pool_size: int) -> AsyncIterator[Floor]:
    """A pool of raw connections; every task takes one for each commit. asyncpg prepares each statement once."""
    async with raw_pool(place, pool_size) as pool:
        for statement in TABLES:
            await pool.execute(statement)
        for thread in range(threads):
            await pool.execute("INSERT INTO floor_threads VALUES ($1, 0, 0) ON CONFLICT DO NOTHING", thread)

        def commit_of(statements: Statements) -> Commit:
            async def commit(thread: int, seq: int) -> None:
                async with pool.acquire() as connection, connection.transaction():
                    for text, of in statements:
                        await connection.execute(text, *of(thread, seq))

            return commit

        yield commit_of(SENT), commit_of(STARTED), commit_of(ENDED)

"""The journal under the runners' feet: read directly, by a reader of the soak's own."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncIterator

from sqlalchemy import make_url, select
from sqlalchemy.ext.asyncio import create_async_engine

from tests.soak.waiting import until
from turnkeeper.adapters.sql_claims import SqlClaims
from turnkeeper.adapters.sql_database import open_database
from turnkeeper.adapters.sql_reads import SqlReads
from turnkeeper.adapters.sql_tables import claims, threads
from turnkeeper.core.values import Thread

WORKSPACE = "default"
PAGE = 1000


class Books(SqlReads):
    """What stands in the database, whatever the runners say."""

    async def runners(self) -> dict[str, str]:
        """Return the sessions that exist, by session, with their runners' names."""
        held = SqlClaims(self._database, WORKSPACE, deadline_seconds=30.0)
        return {record.session: record.runner for record in await held.sessions()}

    async def end_session(self, session: str) -> None:
        """Remove a session, as a peer does that takes its runner for dead."""
        await SqlClaims(self._database, WORKSPACE, deadline_seconds=30.0).close_session(session)

    async def sessions_of(self, pid: int) -> list[str]:
        """Return the sessions of a process; it may have lost one and opened another."""
        return [session for session, runner in (await self.runners()).items() if runner.endswith(f"-{pid}")]

    async def claimed(self) -> dict[str, str]:
        """Return the claims that stand: thread ids with sessions."""
        query = select(claims.c.thread_id, claims.c.session).where(claims.c.workspace == WORKSPACE)
        return {row.thread_id: row.session for row in await self._rows(query)}

    async def unsettled(self) -> list[Thread]:
        """Return the threads that are owed a turn or have a run open."""
        found: list[Thread] = []
        after = ""
        while page := await self.threads(None, after, PAGE):
            found += [thread for thread in page if thread.is_owed or thread.run is not None]
            after = page[-1].thread_id
        return found

    async def until_settled(self, seconds: float) -> list[Thread]:
        """Wait until nothing is owed; return what still is after so long."""

        async def is_settled() -> bool:
            return not await self.unsettled()

        with contextlib.suppress(AssertionError):
            await until(is_settled, "nothing is owed", seconds=seconds, poll_seconds=0.2)
        return await self.unsettled()


@contextlib.asynccontextmanager
async def open_books(url: str) -> AsyncIterator[Books]:
    """Open the books of a journal whose tables are there already."""
    database = open_database(url)
    try:
        yield Books(database, WORKSPACE)
    finally:
        await database.aclose()


@contextlib.asynccontextmanager
async def locked(url: str, thread_ids: list[str]) -> AsyncIterator[None]:
    """Hold what a write to these threads must wait for: their rows, or the one writer's place of a SQLite file."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        with contextlib.closing(sqlite3.connect(parsed.database or "", timeout=30, isolation_level=None)) as held:
            held.execute("BEGIN IMMEDIATE")
            yield
            held.execute("ROLLBACK")
        return
    engine = create_async_engine(parsed.set(drivername="postgresql+asyncpg"))
    try:
        async with engine.connect() as connection:
            rows = select(threads.c.key).where(threads.c.thread_id.in_(thread_ids)).order_by(threads.c.thread_id)
            await connection.execute(rows.with_for_update())
            yield
            await connection.rollback()
    finally:
        await engine.dispose()

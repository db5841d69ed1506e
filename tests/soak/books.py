"""The journal under the runners' feet: read directly, by a reader of the soak's own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from sqlalchemy import select

from tests.soak.waiting import until
from turnkeeper.adapters.sql_claims import SqlClaims
from turnkeeper.adapters.sql_database import open_database
from turnkeeper.adapters.sql_reads import SqlReads
from turnkeeper.adapters.sql_tables import claims
from turnkeeper.core.values import Thread

WORKSPACE = "default"
PAGE = 1000


class Books(SqlReads):
    """What stands in the database, whatever the runners say."""

    async def runners(self) -> dict[str, str]:
        """Return the sessions that exist, by session, with their runners' names."""
        held = SqlClaims(self._database, WORKSPACE, deadline_seconds=30.0)
        return {record.session: record.runner for record in await held.sessions()}

    async def session_of(self, pid: int) -> str:
        """Return the newest session of a process, or an empty string."""
        found = [session for session, runner in (await self.runners()).items() if runner.endswith(f"-{pid}")]
        return found[-1] if found else ""

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

"""Journals made by real acts, and a hand that goes past every act; and what the checkers say of them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from sqlalchemy import Connection, make_url, select

from tests.contract.play import asking, begin, emit, finish, send, try_start
from turnkeeper.adapters.sql_audit import SqlAudit
from turnkeeper.adapters.sql_database import open_database
from turnkeeper.adapters.sql_journal import open_journal
from turnkeeper.adapters.sql_readonly import open_readonly
from turnkeeper.adapters.sql_tables import threads
from turnkeeper.core.ending import Ending
from turnkeeper.core.invariants import Findings
from turnkeeper.core.parking import ParkedAction, resolve_parked
from turnkeeper.core.questions import answer
from turnkeeper.core.values import Fence
from turnkeeper.core.words import Mode, Outcome, Resolution
from turnkeeper.ports import Journal

T = TypeVar("T")

WORKSPACE = "w"


async def rest(journal: Journal, by: str = "") -> None:
    """Let a thread live through all that can happen to it, and come to rest.

    Its log: m1 at 1 is taken by r1 (2 to 5), which uses m2 at 4. m3 at 6 is taken by r2 (7 to 8), which dies, and r3 (9
    to 10). m4 at 11 is taken by r4 (12 to 13), which asks (14) and is answered (15); r5 (16 to 17) goes on. A note at
    18. m5 at 19 is taken by r6 (20 to 21), which dies, and is set aside at 22; a person retries it at 23, and r8 (24 to
    25) takes it. m6 at 26 is taken by r9 (27 to 28), which dies, and is set aside at 29. `by` stands before the
    ids of runs and sessions.
    """
    await send(journal, "t", "m1", sender="a")
    first = await begin(journal, "t", f"{by}r1", 1, f"{by}s1")
    await emit(journal, first, 0)
    await send(journal, "t", "m2", sender="a")
    await finish(journal, first, Ending(outcome=Outcome.COMPLETED, answer="done", used_seq=4))
    await send(journal, "t", "m3", sender="b")
    await begin(journal, "t", f"{by}r2", 2, f"{by}s2")
    await finish(journal, await begin(journal, "t", f"{by}r3", 3, f"{by}s3"))
    await send(journal, "t", "m4", sender="a")
    paused = await begin(journal, "t", f"{by}r4", 4, f"{by}s4")
    await finish(journal, paused, asking(paused, "q1"))
    await journal.transact(answer("t", "q1", Resolution.ANSWERED, "yes", 5))
    await finish(journal, await begin(journal, "t", f"{by}r5", 5, f"{by}s5"))
    await send(journal, "t", "n1", sender="c", mode=Mode.NOTE)
    await send(journal, "t", "m5", sender="b")
    await begin(journal, "t", f"{by}r6", 6, f"{by}s6")
    await try_start(journal, "t", f"{by}r7", Fence(7, f"{by}s7"), max_attempts=1)
    await journal.transact(resolve_parked("t", 22, ParkedAction.RETRY, 6))
    await finish(journal, await begin(journal, "t", f"{by}r8", 8, f"{by}s8"))
    await send(journal, "t", "m6", sender="b")
    await begin(journal, "t", f"{by}r9", 9, f"{by}s9")
    await try_start(journal, "t", f"{by}r10", Fence(10, f"{by}s10"), max_attempts=1)


async def queue(journal: Journal, by: str = "") -> None:
    """Let one sender's two messages be taken by two turns."""
    for number in (1, 2):
        await send(journal, "queue", f"m{number}", sender="a", mode=Mode.QUEUE)
    for number in (1, 2):
        await finish(journal, await begin(journal, "queue", f"{by}queued{number}", number, f"{by}s1"))


async def busy(journal: Journal) -> None:
    """Leave a thread in each state that does not last: owed, running and paused."""
    await send(journal, "owed", "m1", sender="a")
    await send(journal, "running", "m1", sender="a")
    await emit(journal, await begin(journal, "running", "open", 1, "s1"), 0)
    await send(journal, "running", "m2", sender="a")
    await send(journal, "paused", "m1", sender="a")
    paused = await begin(journal, "paused", "asks", 1, "s1")
    await finish(journal, paused, asking(paused, "q1", "q2"))


async def make(url: str, *, is_busy: bool = True, workspace: str = WORKSPACE) -> None:
    """Make a healthy journal."""
    journal = await open_journal(url, workspace)
    by = "" if workspace == WORKSPACE else workspace
    await rest(journal, by)
    await queue(journal, by)
    if is_busy:
        await busy(journal)
    await journal.aclose()


async def plant(url: str, statements: Iterable[str]) -> None:
    """Change rows by hand; `{t}` in a statement is the key of the thread t."""
    database = open_database(url)

    def change(connection: Connection) -> None:
        keys = {row.thread_id: row.key for row in connection.execute(select(threads.c.key, threads.c.thread_id))}
        for statement in statements:
            keyed = statement
            for thread_id, key in keys.items():
                keyed = keyed.replace(f"{{{thread_id}}}", str(key))
            assert connection.exec_driver_sql(keyed).rowcount > 0, f"this changes nothing: {statement}"

    await database.write(change)
    await database.aclose()


async def check(url: str, workspace: str | None = None, *, at_rest: bool = False) -> Findings:
    """Check a journal."""
    database = open_readonly(make_url(url))
    try:
        return await SqlAudit(database, workspace, at_rest=at_rest).run()
    finally:
        await database.aclose()


def told(findings: Findings) -> set[tuple[str, str, int | None]]:
    """Return each breach's invariant, thread and seq."""
    return {(breach.invariant.value, breach.thread_id, breach.seq) for breach in findings.kept}


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from a test that is none, and leave the tests' own loop alone."""
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(work)

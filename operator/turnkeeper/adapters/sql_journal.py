"""The journal on SQLite and PostgreSQL: many threads' acts in one transaction, decided by the core.

Theory. An act is a pure decision over one thread's locked row, so acts of *different* threads can share a transaction:
lock their rows in one order, load what all of them need, decide each, store all changes, commit once. What waits while
one batch commits is the next batch, so under load the cost of a commit is shared, and alone an act commits at once. One
batch is in flight at a time: with two, each is half as large, and the processor that they share has twice the work.
Acts of one thread go in the order in which they came, one in a batch.

A batch never waits for a row: rows that another process has locked are skipped, and their acts run by themselves on a
connection of their own. An act whose transaction failed is run again, alone, until the deadline: acts know their own
repetition, so after a lost answer too.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import URL, Connection

from turnkeeper.adapters.sql_batch import run_batch
from turnkeeper.adapters.sql_database import Database, open_database
from turnkeeper.adapters.sql_reads import SqlReads
from turnkeeper.adapters.sql_schema import migrate
from turnkeeper.core.draft import Act
from turnkeeper.core.trace import verdict_name
from turnkeeper.errors import ClosedError, UnavailableError, UnknownOutcomeError
from turnkeeper.ports import Observer

T = TypeVar("T")

BATCH_MAX = 64
"""Most acts in one transaction. Arbitrary: past some dozens the commit's share of the cost is gone."""

QUEUE_MAX = 10_000
"""Most acts that wait. Beyond it callers are told so at once rather than after their deadline."""

DEADLINE_SECONDS = 10.0
"""How long an act is tried. A third of the default claim_ttl: what has not been written by then is told to the run."""

RETRY_SECONDS = (0.02, 0.5)
"""First and longest pause between tries, doubled and jittered. Arbitrary: a commit's time, and half a second."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Waiting:
    act: Act[Any]
    answer: asyncio.Future[Any]


class SqlJournal(SqlReads):
    """See `ports.Journal`. Owns its lane; `aclose` lets what was handed to them finish."""

    def __init__(self, database: Database, workspace: str, observer: Observer | None = None) -> None:
        super().__init__(database, workspace)
        self.database = database
        self._observer = observer
        self._queue: deque[_Waiting] = deque()
        self._busy_threads: set[str] = set()
        self._has_work = asyncio.Event()
        self._is_closed = False
        self._singles: set[asyncio.Task[None]] = set()
        self._lane = asyncio.create_task(self._run_lane())

    async def transact(self, act: Act[T]) -> T:
        """See `ports.Journal`."""
        if self._is_closed:
            msg = "the journal is closed: this process is stopping"
            raise ClosedError(msg)
        if len(self._queue) >= QUEUE_MAX:
            msg = f"the journal has {QUEUE_MAX} writes waiting; try again in some seconds"
            raise UnavailableError(msg)
        loop = asyncio.get_running_loop()
        waiting, began = _Waiting(act, loop.create_future()), loop.time()
        self._queue.append(waiting)
        self._has_work.set()
        try:
            async with asyncio.timeout(2 * DEADLINE_SECONDS):
                verdict: T = await waiting.answer
        except TimeoutError as error:
            msg = f"thread {act.thread_id!a}: no answer from the journal in {2 * DEADLINE_SECONDS:.0f} s"
            raise UnknownOutcomeError(msg) from error
        if self._observer is not None:
            for name, each in act.parts(verdict):
                self._observer.acted(name, act.thread_id, verdict_name(each), loop.time() - began)
        return verdict

    async def aclose(self) -> None:
        """See `ports.Journal`."""
        self._is_closed = True
        self._has_work.set()
        await asyncio.wait([self._lane, *self._singles], timeout=DEADLINE_SECONDS)
        for task in (self._lane, *self._singles):
            task.cancel()
        await asyncio.gather(self._lane, *self._singles, return_exceptions=True)
        for waiting in self._queue:
            _refuse(waiting, ClosedError("the journal was closed before this was written"))
        await self._database.aclose()

    async def _run_lane(self) -> None:
        while True:
            batch = self._next_batch()
            if batch:
                await self._commit(batch)
            elif self._is_closed and not self._queue:
                return
            else:
                self._has_work.clear()
                if not self._queue or self._busy_threads:
                    await self._has_work.wait()

    def _next_batch(self) -> list[_Waiting]:
        """Take the oldest waiting acts of threads that no other transaction is at, one of each thread."""
        batch: list[_Waiting] = []
        passed: deque[_Waiting] = deque()
        taken = set(self._busy_threads)
        while self._queue and len(batch) < BATCH_MAX:
            waiting = self._queue.popleft()
            if waiting.answer.done():
                continue
            if waiting.act.thread_id in taken:
                passed.append(waiting)
                taken.add(waiting.act.thread_id)
            else:
                batch.append(waiting)
                taken.add(waiting.act.thread_id)
        self._queue.extendleft(reversed(passed))
        self._busy_threads |= {waiting.act.thread_id for waiting in batch}
        return batch

    def _finish(self, batch: list[_Waiting]) -> None:
        self._busy_threads -= {waiting.act.thread_id for waiting in batch}
        self._has_work.set()

    async def _commit(self, batch: list[_Waiting]) -> None:
        """Run a batch; what it skipped, or all of it if it failed, is run act by act beside the lane."""
        acts = [waiting.act for waiting in batch]
        is_unknown = False
        try:
            verdicts = await self._database.write(self._transaction(acts, may_skip=True, repeated=False))
        except Exception as error:  # noqa: BLE001 - each act is tried alone next, and gets its own error then
            _log.info("a batch of %d acts failed and is tried act by act: %s", len(batch), error)
            is_unknown = isinstance(error, UnknownOutcomeError)
            verdicts = {}
        alone = [waiting for waiting in batch if waiting.act.thread_id not in verdicts]
        for waiting in batch:
            if waiting.act.thread_id in verdicts and not waiting.answer.done():
                waiting.answer.set_result(verdicts[waiting.act.thread_id])
        self._finish([waiting for waiting in batch if waiting.act.thread_id in verdicts])
        for waiting in alone:
            task = asyncio.create_task(self._commit_alone(waiting, repeated=is_unknown))
            self._singles.add(task)
            task.add_done_callback(self._singles.discard)

    async def _commit_alone(self, waiting: _Waiting, *, repeated: bool) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DEADLINE_SECONDS
        pause, longest = RETRY_SECONDS
        try:
            while True:
                try:
                    run = self._transaction([waiting.act], may_skip=False, repeated=repeated)
                    verdicts = await self._database.write(run)
                except UnavailableError as error:
                    repeated = repeated or isinstance(error, UnknownOutcomeError)
                    if loop.time() + pause > deadline:
                        raise (UnknownOutcomeError(str(error)) if repeated else error) from error
                    await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
                    pause = min(2 * pause, longest)
                else:
                    if not waiting.answer.done():
                        waiting.answer.set_result(verdicts[waiting.act.thread_id])
                    return
        except asyncio.CancelledError:
            _refuse(waiting, UnknownOutcomeError("the journal was closed while this was being written"))
            raise
        except Exception as error:  # noqa: BLE001 - it is the caller's, who waits for it
            _refuse(waiting, error)
        finally:
            self._finish([waiting])

    def _transaction(
        self, acts: list[Act[Any]], *, may_skip: bool, repeated: bool
    ) -> Callable[[Connection], dict[str, Any]]:
        def transaction(connection: Connection) -> dict[str, Any]:
            return run_batch(connection, self.workspace, acts, may_skip=may_skip, repeated=repeated)

        return transaction


def _refuse(waiting: _Waiting, error: Exception) -> None:
    if not waiting.answer.done():
        waiting.answer.set_exception(error)


async def open_journal(url: str | URL, workspace: str, observer: Observer | None = None) -> SqlJournal:
    """Open a workspace's journal, bringing its tables up to date under a lock.

    Raises SettingsError for a URL or a database that can't be used, UnavailableError where it can't be reached.
    """
    database = open_database(url)
    try:
        await database.write(migrate)
    except BaseException:
        await database.aclose()
        raise
    return SqlJournal(database, workspace, observer)

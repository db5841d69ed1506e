"""The journal's reads: each one statement on a reader's connection, in pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, func, literal_column, select, tuple_

from turnkeeper.adapters import sql_rows as rows
from turnkeeper.adapters.sql_database import Database
from turnkeeper.adapters.sql_lookup import Lookup
from turnkeeper.adapters.sql_tables import (
    CAN_EXPIRE,
    IS_NOT_IDLE,
    IS_PENDING,
    IS_RUNNING,
    IS_WAITING,
    entries,
    messages,
    parked,
    questions,
    runs,
    threads,
)
from turnkeeper.core.values import Entry, Message, Parked, Question, Run, Stats, Thread
from turnkeeper.core.words import Kind, Resolution, ThreadState

HEADS_MAX = 512
"""Threads asked about in one statement. Arbitrary: well under both databases' limits on parameters."""

_BY_ID = (threads.c.workspace, threads.c.thread_id)
_THREADS = Lookup(_BY_ID, lambda found: select(threads).where(found))
_HEADS = Lookup(_BY_ID, lambda found: select(threads.c.thread_id, threads.c.last_seq).where(found))

_HISTORY_KINDS = (Kind.MESSAGE.value, Kind.NOTE.value, Kind.RUN_ENDED.value)


class SqlReads:
    """The reading half of `SqlJournal`. See `ports.Journal` for each."""

    def __init__(self, database: Database, workspace: str) -> None:
        self._database = database
        self.workspace = workspace

    async def thread(self, thread_id: str) -> Thread | None:
        """See `ports.Journal`."""
        found = await self._database.read(lambda connection: _THREADS(connection, (self.workspace,), (thread_id,)))
        return rows.thread_from(found[0]) if found else None

    async def threads(self, state: ThreadState | None, after: str, limit: int) -> Sequence[Thread]:
        """See `ports.Journal`."""
        query = self._threads().where(threads.c.thread_id > after).order_by(threads.c.thread_id).limit(limit)
        if state is not None:
            query = query.where(_is_in(state))
        if state not in (None, ThreadState.IDLE):
            query = query.where(IS_NOT_IDLE)
        return [rows.thread_from(row) for row in await self._rows(query)]

    async def owed(self, state: ThreadState, after: tuple[int, str] | None, limit: int) -> Sequence[Thread]:
        """See `ports.Journal`."""
        order = (threads.c.owed_since_ms, threads.c.thread_id)
        query = self._threads().where(_is_in(state), IS_WAITING).order_by(*order).limit(limit)
        if after is not None:
            query = query.where(tuple_(*order) > tuple_(*after))
        return [rows.thread_from(row) for row in await self._rows(query)]

    async def ran_by(self, session: str) -> Sequence[str]:
        """See `ports.Journal`."""
        query = self._threads().where(threads.c.session == session, IS_RUNNING)
        return [row.thread_id for row in await self._rows(query)]

    async def log(self, thread_id: str, after: int, limit: int) -> Sequence[Entry]:
        """See `ports.Journal`."""
        query = self._of(thread_id, select(entries), entries.c.thread_key).where(entries.c.seq > after)
        return [rows.entry_from(row) for row in await self._rows(query.order_by(entries.c.seq).limit(limit))]

    async def history(self, thread_id: str, before: int, limit: int) -> Sequence[Entry]:
        """See `ports.Journal`."""
        query = self._of(thread_id, select(entries), entries.c.thread_key)
        query = query.where(entries.c.seq < before, entries.c.kind.in_(_HISTORY_KINDS))
        found = await self._rows(query.order_by(entries.c.seq.desc()).limit(limit))
        return [rows.entry_from(row) for row in reversed(found)]

    async def waiting(self, thread_id: str, after: int, limit: int) -> Sequence[Message]:
        """See `ports.Journal`."""
        joined = select(messages, entries.c.body).join(
            entries, and_(entries.c.thread_key == messages.c.thread_key, entries.c.seq == messages.c.seq)
        )
        query = self._of(thread_id, joined, messages.c.thread_key)
        query = query.where(IS_PENDING, messages.c.seq > after)
        return [rows.message_from(row) for row in await self._rows(query.order_by(messages.c.seq).limit(limit))]

    async def message(self, thread_id: str, message_id: str) -> Message | None:
        """See `ports.Journal`."""
        query = self._of(thread_id, select(messages), messages.c.thread_key)
        found = await self._rows(query.where(messages.c.message_id == message_id))
        return rows.message_from(found[0]) if found else None

    async def question(self, thread_id: str, question_id: str) -> Question | None:
        """See `ports.Journal`."""
        query = self._of(thread_id, select(questions), questions.c.thread_key)
        found = await self._rows(query.where(questions.c.question_id == question_id))
        return rows.question_from(found[0]) if found else None

    async def questions(self, thread_id: str) -> Sequence[Question]:
        """See `ports.Journal`."""
        query = self._of(thread_id, select(questions), questions.c.thread_key)
        query = query.where(questions.c.resolution == Resolution.OPEN.value).order_by(questions.c.question_id)
        return [rows.question_from(row) for row in await self._rows(query)]

    async def parked(self, thread_id: str) -> Sequence[Parked]:
        """See `ports.Journal`."""
        query = self._of(thread_id, select(parked), parked.c.thread_key).where(parked.c.resolved == "")
        return [rows.parked_from(row) for row in await self._rows(query.order_by(parked.c.seq))]

    async def run(self, run_id: str) -> tuple[str, Run] | None:
        """See `ports.Journal`."""
        query = select(runs, threads.c.thread_id).join(threads, threads.c.key == runs.c.thread_key)
        found = await self._rows(query.where(runs.c.run_id == run_id, threads.c.workspace == self.workspace))
        return (found[0].thread_id, rows.run_from(found[0])) if found else None

    async def heads(self, thread_ids: Sequence[str]) -> Mapping[str, int]:
        """See `ports.Journal`."""
        heads: dict[str, int] = {}
        for start in range(0, len(thread_ids), HEADS_MAX):
            heads |= await self._heads(thread_ids[start : start + HEADS_MAX])
        return heads

    async def _heads(self, page: Sequence[str]) -> Mapping[str, int]:
        found = await self._database.read(lambda connection: _HEADS(connection, (self.workspace,), page))
        return {row.thread_id: row.last_seq for row in found}

    async def overdue(self, now_ms: int, limit: int) -> Sequence[tuple[str, str]]:
        """See `ports.Journal`."""
        query = (
            select(threads.c.thread_id, questions.c.question_id)
            .join(threads, threads.c.key == questions.c.thread_key)
            .where(CAN_EXPIRE, questions.c.expires_ms <= now_ms, threads.c.workspace == self.workspace)
            .order_by(questions.c.expires_ms)
            .limit(limit)
        )
        return [(row.thread_id, row.question_id) for row in await self._rows(query)]

    async def stats(self) -> Stats:
        """See `ports.Journal`."""
        counts = (
            select(threads.c.state, func.count().label("number"), func.sum(threads.c.parked).label("parked"))
            .where(threads.c.workspace == self.workspace, IS_NOT_IDLE)
            .group_by(threads.c.state)
        )
        oldest = select(func.min(threads.c.owed_since_ms)).where(
            threads.c.workspace == self.workspace, _is_in(ThreadState.OWED), IS_WAITING
        )

        def read(connection: Connection) -> Stats:
            found = {row.state: row for row in connection.execute(counts)}
            number = {state: int(found[state].number) if state in found else 0 for state in ThreadState}
            return Stats(
                owed=number[ThreadState.OWED],
                running=number[ThreadState.RUNNING],
                paused=number[ThreadState.PAUSED],
                parked=int(sum(row.parked or 0 for row in found.values())),
                oldest_owed_ms=connection.scalar(oldest),
            )

        return await self._database.read(read)

    def _threads(self) -> Select[Any]:
        return select(threads).where(threads.c.workspace == self.workspace)

    def _of(self, thread_id: str, query: Select[Any], key: Any) -> Select[Any]:  # noqa: ANN401 - a column of any table
        where = (threads.c.workspace == self.workspace, threads.c.thread_id == thread_id)
        return query.where(key == select(threads.c.key).where(*where).scalar_subquery())

    async def _rows(self, query: Select[Any]) -> Sequence[Row[Any]]:
        return await self._database.read(lambda connection: connection.execute(query).all())


def _is_in(state: ThreadState) -> ColumnElement[bool]:
    """Compare with a literal, not a parameter, so that the partial indexes can be used."""
    return threads.c.state == literal_column(f"'{state.value}'")

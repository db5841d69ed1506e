"""A whole journal given to the checkers of the core, in bounded memory and beside whoever writes to it.

Theory. Every act is one transaction, so what one transaction reads of a thread must agree at any time. Threads are read
in batches of some thousand entries, each batch in one transaction; a thread with more is a batch by itself, in pages of
that one transaction. Entries come in order, each with the rows that it names. Three things are asked the other way
round: runs whose entries are missing, a page in a statement; receipts, by their number; rows that belong to no thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, func, select

from turnkeeper.adapters import sql_rows as rows
from turnkeeper.adapters.sql_entries import EntryReader
from turnkeeper.adapters.sql_lookup import padded
from turnkeeper.adapters.sql_readonly import ReadOnly
from turnkeeper.adapters.sql_schema import check_revision
from turnkeeper.adapters.sql_tables import entries, messages, parked, questions, runs, steps, threads
from turnkeeper.core.invariants import KEPT_MAX, Breach, Findings, Invariant, Rows, cursors_forward
from turnkeeper.core.run_log import check_run
from turnkeeper.core.thread_check import ThreadCheck
from turnkeeper.core.words import Kind, Resolution
from turnkeeper.errors import SettingsError

BATCH_ENTRIES = 4000
"""Entries of a batch of threads, by their rows. Arbitrary: some megabytes, and a transaction of well under a second."""

BATCH_THREADS = 500
"""Threads of a batch. Arbitrary: well under both databases' limits on parameters."""

RUNS_PAGE = 1000
"""Runs looked at in one statement. Arbitrary: as above."""

_OWNED = (entries, messages, runs, questions, parked, steps)
_IS_MESSAGE = entries.c.kind.in_([Kind.MESSAGE.value, Kind.NOTE.value])


class SqlAudit:
    """Checks one workspace of a journal, or all of them. `findings` grows as it goes."""

    def __init__(self, database: ReadOnly, workspace: str | None, *, at_rest: bool) -> None:
        self._database = database
        self._workspace = workspace
        self._at_rest = at_rest
        self.findings = Findings()

    async def run(self) -> Findings:
        """Check everything once.

        Raises UnavailableError where the database can't be reached, SettingsError where it is no journal that this
        version knows, or has no such workspace.
        """
        await self._database.read(check_revision)
        after: int | None = 0
        while after is not None:
            after = await self._check_threads(after)
        run_id: str | None = ""
        while run_id is not None:
            run_id = await self._check_runs(run_id)
        if self._workspace is None:
            await self._database.read(self._check_owners)
        elif not self.findings.threads:
            await self._database.read(self._check_workspace)
        return self.findings

    async def _check_threads(self, after: int) -> int | None:
        """Check the threads whose keys come after `after`; return the last one's, or None if there was none."""
        batch = await self._database.read(lambda connection: self._check_batch(connection, after))
        if not batch:
            return None
        query = select(threads).where(threads.c.key.in_(padded([row.key for row in batch])))
        again = {row.key: row for row in await self._database.read(lambda c: c.execute(query).all())}
        for before in batch:
            self.findings.add(_since(before, again.get(before.key)))
        return int(batch[-1].key)

    def _check_batch(self, connection: Connection, after: int) -> Sequence[Row[Any]]:
        query = self._in_workspace(select(threads)).where(threads.c.key > after)
        found = connection.execute(query.order_by(threads.c.key).limit(BATCH_THREADS)).all()
        batch: list[Row[Any]] = []
        size = 0
        for row in found:
            size += row.last_seq
            if batch and size > BATCH_ENTRIES:
                break
            batch.append(row)
        receipts = _counts(connection, select(messages.c.thread_key).where(_of(messages, [row.key for row in batch])))
        if sum(receipts.values()) > 2 * BATCH_ENTRIES:
            batch = batch[:1]  # more receipts than entries by the rows: such threads are read one by one
        if batch:
            self._check_logs(connection, batch, receipts)
        return batch

    def _check_logs(self, connection: Connection, batch: Sequence[Row[Any]], receipts: Mapping[int, int]) -> None:
        keys = [row.key for row in batch]
        open_questions = _counts(connection, select(questions.c.thread_key).where(_is_open(), _of(questions, keys)))
        waiting = _counts(connection, select(parked.c.thread_key).where(parked.c.resolved == "", _of(parked, keys)))
        checks: dict[int, ThreadCheck] = {}
        for row in batch:
            counted = Rows(
                thread=rows.thread_from(row),
                open_questions=open_questions.get(row.key, 0),
                parked=waiting.get(row.key, 0),
                receipts=receipts.get(row.key, 0),
                state=row.state,
            )
            checks[row.key] = ThreadCheck(counted, at_rest=self._at_rest)
        for page in EntryReader(connection, keys).pages():
            self.findings.entries += page.feed(checks)
            for row in batch:
                self.findings.add(checks[row.key].drain(row.workspace))
        for row in batch:
            check = checks[row.key]
            if check.messages != receipts.get(row.key, 0):
                for seq in connection.scalars(_strays(row.key)):
                    check.stray_receipt(seq)
            check.close()
            self.findings.threads += 1
            self.findings.messages += check.messages
            self.findings.add(check.drain(row.workspace))

    async def _check_runs(self, after: str) -> str | None:
        started, ended = entries.alias("started"), entries.alias("ended")
        query = (
            self._in_workspace(
                select(
                    runs,
                    threads.c.workspace,
                    threads.c.thread_id,
                    threads.c.run_id.label("held"),
                    started.c.kind.label("started_kind"),
                    started.c.run_id.label("started_run"),
                    ended.c.kind.label("ended_kind"),
                    ended.c.run_id.label("ended_run"),
                )
            )
            .select_from(runs)
            .join(threads, threads.c.key == runs.c.thread_key)
            .outerjoin(started, and_(started.c.thread_key == runs.c.thread_key, started.c.seq == runs.c.started_seq))
            .outerjoin(ended, and_(ended.c.thread_key == runs.c.thread_key, ended.c.seq == runs.c.ended_seq))
            .where(runs.c.run_id > after)
            .order_by(runs.c.run_id)
            .limit(RUNS_PAGE)
        )
        page = await self._database.read(lambda connection: connection.execute(query).all())
        for row in page:
            began, end = (row.started_kind, row.started_run), (row.ended_kind, row.ended_run)
            try:
                breaches = check_run(rows.run_from(row), row.thread_id, row.held, began, end)
            except ValueError as error:
                what = f"the row of run {row.run_id} can't be read: {error}"
                breaches = [_breach(Invariant.ROWS_AGREE, row, what, row.started_seq)]
            self.findings.add(replace(breach, workspace=row.workspace) for breach in breaches)
        self.findings.runs += len(page)
        return page[-1].run_id if page else None

    def _check_owners(self, connection: Connection) -> None:
        """Find rows of threads that are not there. A thread whose row is gone would be missed by all else."""
        for table in _OWNED:
            is_owned = select(threads.c.key).where(threads.c.key == table.c.thread_key).exists()
            query = select(table.c.thread_key, func.count().label("number")).where(~is_owned)
            for row in connection.execute(query.group_by(table.c.thread_key).limit(KEPT_MAX)):
                what = f"{row.number} rows of {table.name} are of the thread with key {row.thread_key}, which is gone"
                self.findings.add([Breach(invariant=Invariant.ROWS_AGREE, thread_id="", what=what)])

    def _check_workspace(self, connection: Connection) -> None:
        known = list(connection.scalars(select(threads.c.workspace).distinct().order_by(threads.c.workspace).limit(10)))
        if known:
            named = ", ".join(ascii(name) for name in known)
            raise SettingsError(f"the journal has no thread in the workspace {self._workspace!a}; it has: {named}")

    def _in_workspace(self, query: Select[Any]) -> Select[Any]:
        return query if self._workspace is None else query.where(threads.c.workspace == self._workspace)


def _is_open() -> Any:  # noqa: ANN401 - the libraries' own word for a condition is as wide
    return questions.c.resolution == Resolution.OPEN.value


def _of(table: Any, keys: Sequence[int]) -> Any:  # noqa: ANN401 - any table with a thread's key
    return table.c.thread_key.in_(padded(keys))


def _counts(connection: Connection, query: Select[Any]) -> dict[int, int]:
    key = query.selected_columns.thread_key
    counting = query.add_columns(func.count().label("number")).group_by(key)
    return {row.thread_key: row.number for row in connection.execute(counting)}


def _strays(key: int) -> Select[Any]:
    """Return the seqs of receipts that no message in the log has."""
    is_there = and_(entries.c.thread_key == messages.c.thread_key, entries.c.seq == messages.c.seq, _IS_MESSAGE)
    query = select(messages.c.seq).outerjoin(entries, is_there)
    return query.where(messages.c.thread_key == key, entries.c.seq.is_(None)).limit(KEPT_MAX)


def _since(before: Row[Any], after: Row[Any] | None) -> list[Breach]:
    if after is None:
        return [_breach(Invariant.CURSORS_FORWARD, before, "the thread's row is gone since it was checked")]
    moved = cursors_forward(rows.thread_from(before), rows.thread_from(after))
    return [_breach(breach.invariant, before, breach.what) for breach in moved]


def _breach(invariant: Invariant, row: Row[Any], what: str, seq: int | None = None) -> Breach:
    return Breach(invariant=invariant, workspace=row.workspace, thread_id=row.thread_id, what=what, seq=seq)

"""One transaction of a journal: lock the rows, load, decide, store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, select
from sqlalchemy.dialects import postgresql, sqlite

from turnkeeper.adapters import sql_rows as rows
from turnkeeper.adapters.sql_load import Wanted, load
from turnkeeper.adapters.sql_lookup import Lookup
from turnkeeper.adapters.sql_save import save
from turnkeeper.adapters.sql_tables import threads
from turnkeeper.core.draft import Act, Seen

_OF_WORKSPACE = (threads.c.workspace, threads.c.thread_id)


def _locking(*, skip: bool) -> Lookup:
    """Lock rows in the order of their ids: two batches that have some in common then can't block each other."""
    return Lookup(
        _OF_WORKSPACE,
        lambda found: select(threads).where(found).order_by(threads.c.thread_id).with_for_update(skip_locked=skip),
    )


_LOCKED = _locking(skip=False)
_WITHOUT_LOCKED = _locking(skip=True)
_EXISTING = Lookup(_OF_WORKSPACE, lambda found: select(threads.c.thread_id).where(found))


def run_batch(
    connection: Connection, workspace: str, acts: Sequence[Act[Any]], *, may_skip: bool, repeated: bool
) -> dict[str, Any]:
    """Run acts of different threads and return their verdicts by thread id.

    may_skip: leave out acts whose row another transaction has locked; they are missing from the answer. repeated: the
    answer to an earlier try was lost.
    """
    locked, skipped = _lock(connection, workspace, acts, may_skip=may_skip)
    wanted = [Wanted(act, row.key, rows.thread_from(row)) for act in acts if (row := locked.get(act.thread_id))]
    load(connection, workspace, wanted)
    verdicts: dict[str, Any] = {}
    changes = []
    for want in wanted:
        verdicts[want.act.thread_id], change = want.act.decide(want.seen(repeated=repeated))
        if change is not None:
            changes.append((want.key, change))
    for act in acts:
        if act.thread_id not in locked and act.thread_id not in skipped:
            verdicts[act.thread_id], _ = act.decide(Seen(repeated=repeated))
    if changes:
        save(connection, workspace, changes)
    return verdicts


def _lock(
    connection: Connection, workspace: str, acts: Sequence[Act[Any]], *, may_skip: bool
) -> tuple[dict[str, Row[Any]], set[str]]:
    """Lock the acts' rows in the order of their ids, making those that are missing; tell which were skipped."""
    rows_of = _WITHOUT_LOCKED if may_skip else _LOCKED
    thread_ids = sorted(act.thread_id for act in acts)
    locked = {row.thread_id: row for row in rows_of(connection, (workspace,), thread_ids)}
    missing = [thread_id for thread_id in thread_ids if thread_id not in locked]
    if not missing:
        return locked, set()
    creating = {act.thread_id for act in acts if act.creates}
    if new := [thread_id for thread_id in missing if thread_id in creating]:
        _make(connection, workspace, new)
        locked |= {row.thread_id: row for row in rows_of(connection, (workspace,), new)}
    unlocked = [thread_id for thread_id in missing if thread_id not in locked]
    if not unlocked or not may_skip or connection.dialect.name == "sqlite":
        return locked, set()
    return locked, {row.thread_id for row in _EXISTING(connection, (workspace,), unlocked)}


def _make(connection: Connection, workspace: str, thread_ids: Sequence[str]) -> None:
    insert = sqlite.insert(threads) if connection.dialect.name == "sqlite" else postgresql.insert(threads)
    values = [{"workspace": workspace, "thread_id": thread_id} for thread_id in thread_ids]
    connection.execute(insert.on_conflict_do_nothing(), values)

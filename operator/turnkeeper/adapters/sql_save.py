"""The changes of a batch of decisions, stored with one statement for each table."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, Insert, Table, bindparam, delete, update
from sqlalchemy.dialects import postgresql, sqlite

from turnkeeper.adapters import sql_rows as rows
from turnkeeper.adapters.sql_rows import Values
from turnkeeper.adapters.sql_tables import claims, entries, messages, parked, questions, runs, steps, threads
from turnkeeper.core.draft import Change


def save(connection: Connection, workspace: str, changes: Sequence[tuple[int, Change]]) -> None:
    """Store the changes; each comes with its thread's key."""
    _insert(connection, entries, [rows.entry_values(key, entry) for key, c in changes for entry in c.entries])
    _upsert(connection, messages, [rows.message_values(key, message) for key, c in changes for message in c.messages])
    _upsert(connection, runs, [rows.run_values(key, run) for key, c in changes for run in c.runs])
    _upsert(connection, questions, [rows.question_values(key, q) for key, c in changes for q in c.questions])
    _upsert(connection, steps, [rows.step_values(key, step) for key, c in changes for step in c.steps])
    _upsert(connection, parked, [rows.parked_values(key, p) for key, c in changes for p in c.parked])
    _save_claims(connection, workspace, [change for _, change in changes if change.claim_changes])
    updated = [{"b_key": key, **rows.thread_values(change.thread)} for key, change in changes]
    connection.execute(_UPDATE_THREAD, updated)


_FIXED = {"key", "workspace", "thread_id"}
_UPDATE_THREAD = (
    update(threads)
    .where(threads.c.key == bindparam("b_key"))
    .values({name: bindparam(name) for name in [column.name for column in threads.c] if name not in _FIXED})
)

_RELEASE = delete(claims).where(
    claims.c.workspace == bindparam("b_workspace"),
    claims.c.thread_id == bindparam("b_thread_id"),
    claims.c.session == bindparam("b_session"),
)


def _save_claims(connection: Connection, workspace: str, changes: Sequence[Change]) -> None:
    made = [rows.claim_values(workspace, c.thread.thread_id, c.claim) for c in changes if c.claim is not None]
    _upsert(connection, claims, made)
    released = [
        {"b_workspace": workspace, "b_thread_id": c.thread.thread_id, "b_session": c.thread.session}
        for c in changes
        if c.claim is None
    ]
    if released:
        connection.execute(_RELEASE, released)


def _insert(connection: Connection, table: Table, values: list[Values]) -> None:
    if values:
        connection.execute(table.insert(), values)


def _upsert(connection: Connection, table: Table, values: list[Values]) -> None:
    if values:
        connection.execute(_UPSERTS[connection.dialect.name, table.name], values)


def _upsert_of(dialect: str, table: Table) -> Insert:
    insert: sqlite.Insert | postgresql.Insert
    insert = sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)
    keys = list(table.primary_key.columns)
    return insert.on_conflict_do_update(
        index_elements=keys,
        set_={column.name: insert.excluded[column.name] for column in table.columns if column not in keys},
    )


_UPSERTS = {
    (dialect, table.name): _upsert_of(dialect, table)
    for dialect in ("sqlite", "postgresql")
    for table in (messages, runs, questions, steps, parked, claims)
}

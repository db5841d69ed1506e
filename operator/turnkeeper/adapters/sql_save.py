"""The changes of a batch of decisions, stored with one statement for each table.

The statements are compiled once, as this module is loaded, and go to the driver as text: compiling each again for each
batch, and each row's values by name, took more of a turn's time than the databases did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Delete, Dialect, Insert, Table, Update, bindparam, delete, update
from sqlalchemy.dialects import postgresql, sqlite

from turnkeeper.adapters import sql_rows as rows
from turnkeeper.adapters.sql_lookup import DIALECTS
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
    _UPDATE_THREAD[connection.dialect.name](connection, updated)


def _save_claims(connection: Connection, workspace: str, changes: Sequence[Change]) -> None:
    made = [rows.claim_values(workspace, c.thread.thread_id, c.claim) for c in changes if c.claim is not None]
    _upsert(connection, claims, made)
    released = [
        {"b_workspace": workspace, "b_thread_id": c.thread.thread_id, "b_session": c.claim_of or c.thread.session}
        for c in changes
        if c.claim is None
    ]
    _RELEASE[connection.dialect.name](connection, released)


def _insert(connection: Connection, table: Table, values: list[Values]) -> None:
    _INSERTS[connection.dialect.name, table.name](connection, values)


def _upsert(connection: Connection, table: Table, values: list[Values]) -> None:
    _UPSERTS[connection.dialect.name, table.name](connection, values)


class _Compiled:
    """A statement as the driver takes it. Rows are given by the names of their columns or parameters."""

    def __init__(self, statement: Insert | Update | Delete, dialect: Dialect) -> None:
        compiled = statement.compile(dialect=dialect)
        self._text = str(compiled)
        names: list[str] = list(compiled.positiontup or ())
        self._in_order: Callable[[Values], tuple[Any, ...]] = itemgetter(*names)

    def __call__(self, connection: Connection, values: Sequence[Values]) -> None:
        """Run the statement for each row; for none, do nothing."""
        if values:
            connection.exec_driver_sql(self._text, [self._in_order(row) for row in values])


def _upsert_of(dialect: str, table: Table) -> Insert:
    insert: sqlite.Insert | postgresql.Insert
    insert = sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)
    keys = list(table.primary_key.columns)
    return insert.on_conflict_do_update(
        index_elements=keys,
        set_={column.name: insert.excluded[column.name] for column in table.columns if column not in keys},
    )


_INSERTS = {(name, entries.name): _Compiled(entries.insert(), dialect) for name, dialect in DIALECTS.items()}

_UPSERTS = {
    (name, table.name): _Compiled(_upsert_of(name, table), dialect)
    for name, dialect in DIALECTS.items()
    for table in (messages, runs, questions, steps, parked, claims)
}

_FIXED = {"key", "workspace", "thread_id"}
_CHANGING = [column.name for column in threads.c if column.name not in _FIXED]
_UPDATE = update(threads).where(threads.c.key == bindparam("b_key"))
_UPDATE_THREAD = {
    name: _Compiled(_UPDATE.values({column: bindparam(column) for column in _CHANGING}), dialect)
    for name, dialect in DIALECTS.items()
}

_RELEASE = {
    name: _Compiled(
        delete(claims).where(
            claims.c.workspace == bindparam("b_workspace"),
            claims.c.thread_id == bindparam("b_thread_id"),
            claims.c.session == bindparam("b_session"),
        ),
        dialect,
    )
    for name, dialect in DIALECTS.items()
}

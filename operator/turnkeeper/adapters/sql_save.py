"""The changes of a batch of decisions, stored with few statements: one a table on SQLite, one in all on PostgreSQL.

On PostgreSQL each statement is a round trip, and those were most of an act's time; so all tables' rows go to it as JSON
in one statement, whose parts it carries out together. Both kinds are compiled once and go to the driver as text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any

from sqlalchemy import Column, Connection, Delete, Dialect, Insert, Table, Update, bindparam, delete, update
from sqlalchemy.dialects import sqlite

from turnkeeper.adapters import sql_rows as rows
from turnkeeper.adapters.sql_lookup import DIALECTS
from turnkeeper.adapters.sql_rows import Values
from turnkeeper.adapters.sql_tables import claims, entries, messages, parked, questions, runs, steps, threads
from turnkeeper.core.draft import Change

RELEASED = "released"
"""The part of a save that gives claims back; the others have their tables' names."""


def save(connection: Connection, workspace: str, changes: Sequence[tuple[int, Change]]) -> None:
    """Store the changes; each comes with its thread's key."""
    parts = {name: values for name, values in _parts(workspace, changes).items() if values}
    if connection.dialect.name == "sqlite":
        for name, values in parts.items():
            _SQLITE[name](connection, values)
    else:
        _save_at_once(connection, parts)


def _parts(workspace: str, changes: Sequence[tuple[int, Change]]) -> dict[str, list[Values]]:
    claiming = [change for _, change in changes if change.claim_changes]
    return {
        entries.name: [rows.entry_values(key, entry) for key, c in changes for entry in c.entries],
        messages.name: [rows.message_values(key, message) for key, c in changes for message in c.messages],
        runs.name: [rows.run_values(key, run) for key, c in changes for run in c.runs],
        questions.name: [rows.question_values(key, q) for key, c in changes for q in c.questions],
        steps.name: [rows.step_values(key, step) for key, c in changes for step in c.steps],
        parked.name: [rows.parked_values(key, p) for key, c in changes for p in c.parked],
        claims.name: [
            rows.claim_values(workspace, c.thread.thread_id, c.claim) for c in claiming if c.claim is not None
        ],
        RELEASED: [
            {"b_workspace": workspace, "b_thread_id": c.thread.thread_id, "b_session": c.claim_of or c.thread.session}
            for c in claiming
            if c.claim is None
        ],
        threads.name: [{"b_key": key, **rows.thread_values(change.thread)} for key, change in changes],
    }


# ---- SQLite


class _Compiled:
    """A statement as the driver takes it. Rows are given by the names of their columns or parameters."""

    def __init__(self, statement: Insert | Update | Delete, dialect: Dialect) -> None:
        compiled = statement.compile(dialect=dialect)
        self._text = str(compiled)
        names: list[str] = list(compiled.positiontup or ())
        self._in_order: Callable[[Values], tuple[Any, ...]] = itemgetter(*names)

    def __call__(self, connection: Connection, values: Sequence[Values]) -> None:
        """Run the statement for each row."""
        connection.exec_driver_sql(self._text, [self._in_order(row) for row in values])


def _upsert(table: Table) -> Insert:
    insert = sqlite.insert(table)
    keys = list(table.primary_key.columns)
    return insert.on_conflict_do_update(
        index_elements=keys,
        set_={column.name: insert.excluded[column.name] for column in table.columns if column not in keys},
    )


_UPSERTED = (messages, runs, questions, steps, parked, claims)
_FIXED = {"key", "workspace", "thread_id"}
_CHANGING = [column for column in threads.c if column.name not in _FIXED]
_RELEASE = {"b_workspace": claims.c.workspace, "b_thread_id": claims.c.thread_id, "b_session": claims.c.session}

_STATEMENTS: dict[str, Insert | Update | Delete] = {
    entries.name: entries.insert(),
    **{table.name: _upsert(table) for table in _UPSERTED},
    RELEASED: delete(claims).where(*(column == bindparam(name) for name, column in _RELEASE.items())),
    threads.name: update(threads)
    .where(threads.c.key == bindparam("b_key"))
    .values({column.name: bindparam(column.name) for column in _CHANGING}),
}
_SQLITE = {name: _Compiled(statement, DIALECTS["sqlite"]) for name, statement in _STATEMENTS.items()}


# ---- PostgreSQL


def _save_at_once(connection: Connection, parts: Mapping[str, list[Values]]) -> None:
    statement = _statement(tuple(parts))
    connection.exec_driver_sql(statement, tuple(json.dumps(values) for values in parts.values()))


@cache  # of the nine parts few come together
def _statement(names: tuple[str, ...]) -> str:
    """Return the statement that stores these parts, the last of which is the threads'; each takes its rows as JSON."""
    *others, last = (_PARTS[name](f"json_to_recordset(CAST(${place} AS json))") for place, name in enumerate(names, 1))
    inner = ", ".join(f"part_{place} AS ({part})" for place, part in enumerate(others))
    return f"WITH {inner} {last}" if inner else last


def _rows_of(source: str, columns: Mapping[str, Column[Any]]) -> str:
    """Return a table of the columns' types that a function makes of JSON."""
    told = (f"{name} {column.type.compile(DIALECTS['postgresql'])}" for name, column in columns.items())
    return f"{source} AS given({', '.join(told)})"


def _names(table: Table) -> list[str]:
    return [column.name for column in table.columns]


def _insert_text(table: Table, source: str) -> str:
    names = ", ".join(_names(table))
    return f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {_rows_of(source, dict(table.c))}"  # noqa: S608 - names of our own tables


def _upsert_text(table: Table, source: str) -> str:
    keys = [column.name for column in table.primary_key.columns]
    new = ", ".join(f"{name} = excluded.{name}" for name in _names(table) if name not in keys)
    return f"{_insert_text(table, source)} ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {new}"


def _release_text(source: str) -> str:
    found = " AND ".join(f"claims.{column.name} = given.{name}" for name, column in _RELEASE.items())
    return f"DELETE FROM claims USING {_rows_of(source, _RELEASE)} WHERE {found}"  # noqa: S608 - names of our own tables


def _update_text(source: str) -> str:
    new = ", ".join(f"{column.name} = given.{column.name}" for column in _CHANGING)
    given = _rows_of(source, {"b_key": threads.c.key, **{column.name: column for column in _CHANGING}})
    return f"UPDATE threads SET {new} FROM {given} WHERE threads.key = given.b_key"  # noqa: S608 - names of our own tables


def _upserting(table: Table) -> Callable[[str], str]:
    return lambda source: _upsert_text(table, source)


_PARTS: Mapping[str, Callable[[str], str]] = {
    entries.name: lambda source: _insert_text(entries, source),
    **{table.name: _upserting(table) for table in _UPSERTED},
    RELEASED: _release_text,
    threads.name: _update_text,
}

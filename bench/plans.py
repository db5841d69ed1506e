"""The statements that a call sends to the database, and how the database says it would run them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
from sqlalchemy import Engine, event

from bench.databases import Place

Statement = tuple[str, tuple[object, ...]]


@contextmanager
def statements_seen() -> Iterator[list[Statement]]:
    """Yield a list that fills with the statements of every engine of this process."""
    seen: list[Statement] = []

    def note(_connection: Any, _cursor: Any, text: str, values: Any, *_: object) -> None:  # noqa: ANN401 - SQLAlchemy's own signature
        seen.append((text, tuple(values)))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", note)


async def plan_of(where: Place, statement: Statement) -> list[str]:
    """Return the database's plan for a statement, a line for each step."""
    text, values = statement
    if where.database == "sqlite":
        connection = sqlite3.connect(where.url)
        steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", values)]
        connection.close()
        return steps
    client = await asyncpg.connect(where.driver_url)
    try:
        rows = await client.fetch(f"EXPLAIN (COSTS OFF) {text}", *values)
    finally:
        await client.close()
    return [row[0] for row in rows]


def scans(steps: list[str]) -> bool:
    """Whether a plan reads the whole of a table: SQLite says SCAN, PostgreSQL Seq Scan."""
    return any(("SCAN " in step and "USING INDEX" not in step and "CONSTANT" not in step) or "Seq Scan" in step for step in steps)

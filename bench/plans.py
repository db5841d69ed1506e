"""The statements that a call sends to the database, and how the database says it would run them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, event

from bench.databases import Place, raw_connection

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
        file = sqlite3.connect(where.url)
        steps = [row[3] for row in file.execute(f"EXPLAIN QUERY PLAN {text}", values)]
        file.close()
        return steps
    async with raw_connection(where) as connection:
        rows = await connection.fetch(f"EXPLAIN (COSTS OFF) {text}", *values)
    return [row[0] for row in rows]


def scans(steps: list[str]) -> bool:
    """Whether a plan reads all of a table or index: SQLite says SCAN, PostgreSQL Seq Scan."""
    return any(step.startswith("SCAN") or "Seq Scan" in step for step in steps)

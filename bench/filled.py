"""Journals with many idle threads, each as one finished turn leaves it, written by the database itself."""

from __future__ import annotations

import sqlite3

from bench.databases import Place, raw_connection

WORKSPACE = "default"
"""The settings' default."""

# Each thread: one message, one completed run, and the three entries of both.
FILL = """
INSERT INTO threads (workspace, thread_id, last_seq, asked, taken, token, session)
    SELECT 'default', 'idle-' || n, 3, 1, 1, 1, 'gone' FROM numbers;
INSERT INTO messages (thread_key, message_id, seq, sender, mode, digest, created_ms, fate, turn_id, run_id)
    SELECT key, 'm', 1, '', 'steer', 'd', 1, 'started', 'run-' || key, 'run-' || key FROM threads;
INSERT INTO runs (run_id, thread_key, turn_id, attempt, token, session, started_seq, outcome, ended_seq)
    SELECT 'run-' || key, key, 'run-' || key, 1, 1, 'gone', 2, 'completed', 3 FROM threads;
INSERT INTO entries (thread_key, seq, kind, created_ms, run_id, token, body)
    SELECT key, 1, 'message', 1, '', 0, '{"content": "hello"}' FROM threads;
INSERT INTO entries (thread_key, seq, kind, created_ms, run_id, token, body)
    SELECT key, 2, 'run_started', 1, 'run-' || key, 1, '{"attempt": 1}' FROM threads;
INSERT INTO entries (thread_key, seq, kind, created_ms, run_id, token, body)
    SELECT key, 3, 'run_ended', 1, 'run-' || key, 1, '{"outcome": "completed"}' FROM threads
"""
NUMBERS = {
    "sqlite": "WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < {threads})"
    " SELECT n FROM counted",
    "postgresql": "SELECT n FROM generate_series(1, {threads}) AS n",
}


def statements(database: str, threads: int) -> list[str]:
    """Return what fills an empty journal."""
    numbers = NUMBERS[database].format(threads=threads)
    filled = FILL.replace("FROM numbers", f"FROM ({numbers}) AS numbers", 1)
    return filled.split(";\n")


async def fill(where: Place, threads: int) -> None:
    """Fill a journal whose tables are there, and let the database count them, as it does by itself in time."""
    if where.database == "sqlite":
        file = sqlite3.connect(where.url)
        for statement in statements(where.database, threads):
            file.execute(statement)
        file.commit()
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        file.close()
        return
    async with raw_connection(where) as connection:
        for statement in statements(where.database, threads):
            await connection.execute(statement)
        await connection.execute("VACUUM ANALYZE")
        await connection.execute("CHECKPOINT")

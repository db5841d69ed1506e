"""`turnkeeper verify` on journals of a million entries: in one thread, in a hundred thousand, and all of it waiting.

The journals are written by the database itself, each turn as real ones leave it: a message, a run's start, two events
and its end. Verify is a process of its own, and its peak is what the system counted of it.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

import uvloop

from bench.databases import DATABASES, Place, place, raw_connection
from bench.processes import ROOT
from bench.report import table
from bench.tables import NAMES, held
from turnkeeper.adapters.sql_journal import open_journal

ENTRIES = 1_000_000
QUICK_ENTRIES = 50_000
TURN_ENTRIES = 5
PEAK_MIB_MAX = 150.0

# {turns} finished turns in each of {threads} threads; `s` is the seq before the turn's first entry.
FINISHED = """
INSERT INTO threads (workspace, thread_id, last_seq, asked, taken, token, session)
    SELECT 'default', 'thread-' || n, 5 * {turns}, 5 * {turns} - 4, 5 * {turns} - 4, {turns}, 'gone' FROM {t_numbers};
CREATE TABLE turns AS SELECT key, n, 5 * (n - 1) AS s, key || '-' || n AS run_id FROM threads CROSS JOIN {numbers};
INSERT INTO messages (thread_key, message_id, seq, sender, mode, digest, created_ms, fate, turn_id, run_id)
    SELECT key, 'message-' || n, s + 1, 'somebody', 'steer', 'd', 1, 'started', run_id, run_id FROM turns;
INSERT INTO runs (run_id, thread_key, turn_id, attempt, token, session, started_seq, outcome, ended_seq)
    SELECT run_id, key, run_id, 1, n, 'gone', s + 2, 'completed', s + 5 FROM turns;
INSERT INTO entries (thread_key, seq, kind, created_ms, body)
    SELECT key, s + 1, 'message', 1, '{{"message_id":"message-' || n
        || '","sender":"somebody","mode":"steer","content":"What is the weather like, where you are?"}}' FROM turns;
INSERT INTO entries (thread_key, seq, kind, created_ms, run_id, token, body)
    SELECT key, s + 2, 'run_started', 1, run_id, n, '{{"turn_id":"' || run_id || '","attempt":1,"prompts":[' || (s + 1)
        || '],"runner":"runner-1","apart":false}}' FROM turns;
INSERT INTO entries (thread_key, seq, kind, created_ms, run_id, token, body)
    SELECT key, s + 3, 'event', 1, run_id, n, '{{"event":{{"text":"looking out of the window"}}}}' FROM turns;
INSERT INTO entries (thread_key, seq, kind, created_ms, run_id, token, body)
    SELECT key, s + 4, 'event', 1, run_id, n, '{{"event":{{"text":"still looking"}}}}' FROM turns;
INSERT INTO entries (thread_key, seq, kind, created_ms, run_id, token, body)
    SELECT key, s + 5, 'run_ended', 1, run_id, n, '{{"outcome":"completed","reason":"","used":[],"answer":"Grey."}}'
    FROM turns;
DROP TABLE turns
"""
# {turns} messages in one thread, and nobody took any.
WAITING = """
INSERT INTO threads (workspace, thread_id, last_seq, asked, state, owed_since_ms)
    VALUES ('default', 'waiting', {turns}, {turns}, 'owed', 1);
INSERT INTO messages (thread_key, message_id, seq, sender, mode, digest, created_ms, fate)
    SELECT key, 'message-' || n, n, 'sender-' || n, 'steer', 'd', 1, 'pending' FROM threads CROSS JOIN {numbers};
INSERT INTO entries (thread_key, seq, kind, created_ms, body)
    SELECT key, n, 'message', 1, '{{"message_id":"message-' || n || '","sender":"sender-' || n
        || '","mode":"steer","content":"Is anybody there?"}}' FROM threads CROSS JOIN {numbers}
"""
NUMBERS = {
    "sqlite": "(WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < {count})"
    " SELECT n FROM counted) AS numbers",
    "postgresql": "(SELECT n FROM generate_series(1, {count}) AS n) AS numbers",
}


def shapes(entries: int) -> dict[str, tuple[str, int, int]]:
    """Return each journal: its statements, how many threads it has, and how many turns or messages each of them."""
    per_thread = 2
    return {
        "many": (FINISHED, entries // TURN_ENTRIES // per_thread, per_thread),
        "one": (FINISHED, 1, entries // TURN_ENTRIES),
        "waiting": (WAITING, 1, entries),
    }


async def fill(where: Place, text: str, threads: int, turns: int) -> None:
    """Make the tables and fill them, and let the database count them, as it does by itself in time."""
    url = where.url if where.database == "postgresql" else f"sqlite:///{where.url}"
    journal = await open_journal(url, "default")
    await journal.aclose()
    numbers = {
        "t_numbers": NUMBERS[where.database].format(count=threads),
        "numbers": NUMBERS[where.database].format(count=turns),
    }
    statements = text.format(turns=turns, **numbers).split(";\n")
    if where.database == "sqlite":
        file = sqlite3.connect(where.url)
        for statement in statements:
            file.execute(statement)
        file.commit()
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        file.close()
        return
    async with raw_connection(where) as connection:
        for statement in statements:
            await connection.execute(statement)
        await connection.execute("VACUUM ANALYZE")


def verify(where: Place) -> dict[str, Any]:
    """Verify a journal in a process of its own, and return what it said, its seconds and its peak."""
    command = [sys.executable, "-m", "turnkeeper", "verify", "--journal", where.driver_url, "--json"]
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, said[-2000:]
    told: dict[str, Any] = json.loads(said.splitlines()[-1])
    processor = used.ru_utime + used.ru_stime
    wall = time.monotonic() - began
    return {**told, "wall_seconds": wall, "processor_seconds": processor, "peak_mib": used.ru_maxrss / 1024}


def run(*, quick: bool) -> dict[str, Any]:
    """Measure each journal on both databases, and what the same process needs on an empty one."""
    found: dict[str, Any] = {}
    for database in DATABASES:
        with place(database) as where:
            uvloop.run(fill(where, "SELECT 1", 1, 1))
            found.setdefault("empty", {})[database] = verify(where)
        for name, (text, threads, turns) in shapes(QUICK_ENTRIES if quick else ENTRIES).items():
            with place(database) as where:
                uvloop.run(fill(where, text, threads, turns))
                found.setdefault(name, {})[database] = verify(where)
    return found


def verify_table(figures: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Return what each journal took."""
    told = {
        "empty": "an empty journal",
        "many": "many threads of two turns",
        "one": "one thread of finished turns",
        "waiting": "one thread of waiting messages, each of another sender",
    }
    rows = []
    for shape, what in told.items():
        for database, one in figures[shape].items():
            counts = [f"{one[name]:,}" for name in ("threads", "entries", "runs")]
            taken = [f"{one[name]:.1f}" for name in ("seconds", "processor_seconds")]
            met = one["peak_mib"] <= PEAK_MIB_MAX
            cells = [f"{NAMES[database]}: {what}", *counts, *taken, f"{one['peak_mib']:.0f} MiB"]
            rows.append([*cells, f"≤ {PEAK_MIB_MAX:.0f} MiB", held(met=met)])
    return table(["", "threads", "entries", "runs", "seconds", "processor s", "peak", "limit (peak)", ""], rows)

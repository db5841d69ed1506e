"""A ledger in the runners' own database: what each transaction wrote, in the order in which they were committed.

Triggers write it, in the very transactions that they tell of, so that no line of turnkeeper knows of it. SQLite has one
writer at a time: the ledger's numbers are the order of the commits, of claims and sessions as of the log. (PostgreSQL
would order the acts of one thread, and not the end of a session against a claim elsewhere.)
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine

from turnkeeper.adapters.sql_schema import migrate


@dataclass(frozen=True, slots=True)
class Line:
    """One row that was written. what: entry, claimed, released, opened, gone; or act, the last row of each act."""

    what: str
    thread_id: str
    body: dict[str, Any]


_TRIGGERS = """
CREATE TABLE ledger (n INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT, thread_id TEXT, body TEXT);

CREATE TRIGGER ledger_entry AFTER INSERT ON entries BEGIN
    INSERT INTO ledger (what, thread_id, body)
    SELECT 'entry', thread_id, json_object(
        'seq', NEW.seq, 'kind', NEW.kind, 'run', NEW.run_id, 'token', NEW.token, 'body', NEW.body)
    FROM threads WHERE key = NEW.thread_key;
END;

CREATE TRIGGER ledger_claim_made AFTER INSERT ON claims BEGIN
    INSERT INTO ledger (what, thread_id, body)
    VALUES ('claimed', NEW.thread_id, json_object('session', NEW.session, 'token', NEW.token));
END;

CREATE TRIGGER ledger_claim_replaced AFTER UPDATE ON claims
WHEN OLD.session <> NEW.session OR OLD.token <> NEW.token BEGIN
    INSERT INTO ledger (what, thread_id, body)
    VALUES ('claimed', NEW.thread_id, json_object('session', NEW.session, 'token', NEW.token));
END;

CREATE TRIGGER ledger_claim_released AFTER DELETE ON claims BEGIN
    INSERT INTO ledger (what, thread_id, body)
    VALUES ('released', OLD.thread_id, json_object('session', OLD.session, 'token', OLD.token));
END;

CREATE TRIGGER ledger_session_opened AFTER INSERT ON sessions BEGIN
    INSERT INTO ledger (what, thread_id, body)
    VALUES ('opened', '', json_object('session', NEW.session, 'runner', NEW.runner));
END;

CREATE TRIGGER ledger_session_gone AFTER DELETE ON sessions BEGIN
    INSERT INTO ledger (what, thread_id, body) VALUES ('gone', '', json_object('session', OLD.session));
END;

CREATE TRIGGER ledger_act AFTER UPDATE ON threads BEGIN
    INSERT INTO ledger (what, thread_id, body)
    VALUES ('act', NEW.thread_id, json_object(
        'taken_before', OLD.taken, 'session_before', OLD.session,
        'asked', NEW.asked, 'taken', NEW.taken, 'token', NEW.token, 'session', NEW.session, 'seq', NEW.last_seq));
END;
"""


def begin(path: Path) -> None:
    """Make a journal's file, and have a ledger kept in it."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        migrate(connection)
    engine.dispose()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(_TRIGGERS)


def read(path: Path) -> list[Line]:
    """Return all lines, in their order."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT what, thread_id, body FROM ledger ORDER BY n").fetchall()
    return [Line(what, thread_id, json.loads(body)) for what, thread_id, body in rows]

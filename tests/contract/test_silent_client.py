"""A process that freezes in the midst of a transaction: PostgreSQL's own limits do not reach it, and others end it."""

import struct
import time
from collections.abc import AsyncIterator

import asyncpg  # type: ignore[import-untyped]  # it ships no types
import pytest
import pytest_asyncio
from sqlalchemy import make_url

from tests.contract.play import send
from turnkeeper.adapters import sql_database, sql_journal
from turnkeeper.adapters.sql_journal import SqlJournal, open_journal
from turnkeeper.core.cursor import Accepted
from turnkeeper.errors import UnavailableError

LIMIT_SECONDS = 0.5
"""In place of the seconds that a lock is waited for and a client may be silent: the order of events is the same."""

PATIENCE_SECONDS = 20.0


@pytest_asyncio.fixture
async def journal(postgresql_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqlJournal]:
    """A journal that soon loses its patience, with one thread in it."""
    for limit in ("BUSY_SECONDS", "STUCK_SECONDS"):
        monkeypatch.setattr(sql_database, limit, LIMIT_SECONDS)
    monkeypatch.setattr(sql_journal, "DEADLINE_SECONDS", 4 * LIMIT_SECONDS)
    journal = await open_journal(postgresql_url, "w")
    await send(journal, "t", "m1")
    yield journal
    await journal.aclose()


async def silent(url: str, application_name: str) -> asyncpg.Connection:
    """Lock the thread and send half of a request, as a process does that freezes between the two halves."""
    parsed = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    limits = {"statement_timeout": "200", "idle_in_transaction_session_timeout": "200"}
    connection = await asyncpg.connect(parsed, server_settings={"application_name": application_name, **limits})
    await connection.execute("BEGIN; UPDATE threads SET last_seq = last_seq WHERE thread_id = 't'")
    parse = b"half\0SELECT 1\0" + struct.pack("!h", 0)
    for kind, body in ((b"P", parse), (b"H", b"")):
        connection._transport.write(kind + struct.pack("!i", len(body) + 4) + body)
    return connection


async def accepted_at_last(journal: SqlJournal) -> None:
    """Send until the message is accepted."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            assert isinstance(await send(journal, "t", "m2"), Accepted)
        except UnavailableError:
            continue
        return
    pytest.fail("the thread stayed locked")


async def test_a_frozen_process_of_ours_does_not_keep_its_locks(postgresql_url: str, journal: SqlJournal) -> None:
    """Whoever waits for its lock in vain ends its transaction, and is let in at the next try."""
    frozen = await silent(postgresql_url, "turnkeeper")
    await accepted_at_last(journal)
    frozen.terminate()


async def test_a_transaction_of_another_application_is_left_alone(postgresql_url: str, journal: SqlJournal) -> None:
    """An operator's open transaction is not ours to end: the message is refused, and accepted once that is over."""
    operator = await silent(postgresql_url, "psql")
    with pytest.raises(UnavailableError):
        await send(journal, "t", "m2")
    operator.terminate()
    await accepted_at_last(journal)

"""A runner starts on a journal that another writer holds for a moment, however short its claim's ttl is."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import URL

from turnkeeper.adapters.prometheus import PrometheusObserver
from turnkeeper.adapters.sql_journal import SqlJournal, open_journal
from turnkeeper.ports import Observer
from turnkeeper.settings import Settings
from turnkeeper.settings.models import JournalSettings, SqliteSettings
from turnkeeper.wiring import parts


async def test_a_start_waits_for_another_writer_longer_than_a_renewal_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening a session is no renewal: nothing is held yet that a late answer could cost."""
    path = tmp_path / "journal.db"
    settings = Settings(journal=JournalSettings(sqlite=SqliteSettings(path=path)), claim_ttl_seconds=1.0)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:

        async def open_and_lock(url: URL, workspace: str, observer: Observer) -> SqlJournal:
            journal = await open_journal(url, workspace, observer)
            other.execute("BEGIN IMMEDIATE")
            asyncio.get_running_loop().call_later(1.5 * settings.claim_ttl_seconds, other.execute, "ROLLBACK")
            return journal

        monkeypatch.setattr(parts, "open_journal", open_and_lock)
        async with parts.open_runner(settings, PrometheusObserver()):
            assert not other.in_transaction

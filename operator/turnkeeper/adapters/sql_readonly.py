"""A journal's database opened to be read and nothing else, beside whoever writes to it.

A read here is one transaction over one moment of the database, however many statements it has: REPEATABLE READ on
PostgreSQL, a read transaction on SQLite, which in WAL mode neither waits for writers nor holds them up. The database
itself refuses a write.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from sqlalchemy import URL, QueuePool, create_engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import create_async_engine

from turnkeeper.adapters.sql_database import BUSY_SECONDS, Transaction, for_asyncpg, sorted_error
from turnkeeper.errors import SettingsError, UnavailableError

T = TypeVar("T")

IDLE_SECONDS = 60
"""How long the server lets a transaction be idle. Arbitrary: a page is judged in milliseconds."""


class ReadOnly(Protocol):
    """Runs transactions that only read, one at a time."""

    async def read(self, transaction: Transaction[T]) -> T:
        """Run on one moment of the database. Raises UnavailableError where it can't be reached."""

    async def aclose(self) -> None:
        """Close the connection."""


def open_readonly(url: URL) -> ReadOnly:
    """Return the database of a journal's URL. Nothing is made or changed, not even a missing file."""
    if url.get_backend_name() == "sqlite":
        return _SqliteReadOnly(Path(url.database or ""))
    return _PostgresReadOnly(for_asyncpg(url))


class _SqliteReadOnly:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._engine = create_engine(
            "sqlite://", creator=self._connect, isolation_level="AUTOCOMMIT", poolclass=QueuePool, pool_size=1
        )
        self._thread = ThreadPoolExecutor(1, "turnkeeper-verify")

    def _connect(self) -> sqlite3.Connection:
        uri = f"{self._path.absolute().as_uri()}?mode=ro"
        is_alone = not Path(f"{self._path}-wal").exists() and not os.access(self._path.absolute().parent, os.W_OK)
        if is_alone:
            uri += "&immutable=1"  # no writer can be there, and what a reader shares with writers can't be made
        made = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        made.execute("PRAGMA query_only = ON")
        return made

    async def read(self, transaction: Transaction[T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, transaction)

    def _run(self, transaction: Transaction[T]) -> T:
        if not self._path.is_file():
            raise UnavailableError(f"there is no journal at {self._path}")
        with _errors_sorted(), self._engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            try:
                return transaction(connection)
            finally:
                connection.exec_driver_sql("ROLLBACK")

    async def aclose(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._engine.dispose)
        self._thread.shutdown(wait=False)


class _PostgresReadOnly:
    def __init__(self, url: URL) -> None:
        settings = {
            "application_name": "turnkeeper verify",
            "default_transaction_read_only": "on",
            "idle_in_transaction_session_timeout": str(IDLE_SECONDS * 1000),
            "jit": "off",  # compiling costs more than these statements take
        }
        self._engine = create_async_engine(
            url,
            pool_size=1,
            max_overflow=0,
            isolation_level="REPEATABLE READ",
            connect_args={"server_settings": settings, "timeout": BUSY_SECONDS},
        )

    async def read(self, transaction: Transaction[T]) -> T:
        try:
            connection = await self._engine.connect()
        except Exception as error:
            # The driver has a class of its own for each reason, from a closed port to a password.
            raise UnavailableError(f"the journal can't be reached: {type(error).__name__}: {error}"[:300]) from error
        try:
            with _errors_sorted():
                return await connection.run_sync(transaction)
        finally:
            await connection.close()

    async def aclose(self) -> None:
        await self._engine.dispose()


@contextmanager
def _errors_sorted() -> Iterator[None]:
    try:
        yield
    except (DBAPIError, OSError, SQLAlchemyError) as error:
        told = str(error.orig) if isinstance(error, DBAPIError) else str(error)
        if "not a database" in told:
            raise SettingsError("the journal's file is no SQLite database") from error
        raise sorted_error(error) from error

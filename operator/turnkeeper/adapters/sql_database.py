"""A database as the adapters need it: transactions run off the event loop, and errors sorted by what may stand.

Two kinds. SQLite: one writer thread and one reader thread, each with a connection of its own; a transaction is one hop
to its thread, not one a statement. PostgreSQL: a small pool of asyncpg connections. In both a transaction is a plain
function over a SQLAlchemy connection, so there is one text of every statement.

What an error says. UnavailableError: the transaction was rolled back or never began, and trying again may help.
UnknownOutcomeError: the connection broke while committing. Anything else is a defect and is raised as it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from turnkeeper.errors import SettingsError, UnavailableError, UnknownOutcomeError

_log = logging.getLogger(__name__)

T = TypeVar("T")
Transaction = Callable[[Connection], T]

BUSY_SECONDS = 5.0
"""How long a transaction waits for another writer. Arbitrary: a thousand commits' worth, within a person's patience."""

STATEMENT_SECONDS = 10.0
"""Longest statement. Ours take milliseconds; one that takes this long is stuck behind a lock or a dead connection."""

STUCK_SECONDS = 10.0
"""A transaction whose client has been silent for so long, with locks that others wait for, is ended by them."""

_LOCK_TIMEOUT = "55P03"

_END_STUCK = text(
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
    " WHERE application_name = :name AND datname = current_database() AND usename = current_user"
    " AND wait_event = 'ClientRead' AND xact_start < clock_timestamp() - make_interval(secs => :seconds)"
)
"""Ends our own kind's transactions that wait for their client.

The server's time limits do not reach all of them: a process frozen between the parsing of a statement and its use
counts as active and not as idle, and while the server reads from a client no statement's time runs out.
"""

_NAME = "turnkeeper"

POOL_SIZE = 5
"""Connections of one process: two writers, a few readers. Turns share them; none holds one while it waits."""

_PASSING_STATES = frozenset({"40001", "40P01", "55P03", "57014", "25P03", "53300", "57P01", "57P02", "57P03", "25006"})
"""PostgreSQL's codes for conflicts, deadlocks, lock and statement timeouts, too many connections, shutdown, standby."""


class Database(Protocol):
    """Runs transactions. `write` takes its locks at once; `read` may see a state that is already old."""

    dialect: str

    async def write(self, transaction: Transaction[T]) -> T:
        """Run and commit."""

    async def read(self, transaction: Transaction[T]) -> T:
        """Run on a connection that writes nothing."""

    async def aclose(self) -> None:
        """Close every connection."""


def open_database(url: str | URL, *, executor: Executor | None = None) -> Database:
    """Return the database of a URL: `sqlite:///path` or `postgresql://…`.

    executor: what runs SQLite's transactions, for a simulation that must not leave its thread. Raises SettingsError for
    another kind of URL.
    """
    try:
        parsed = make_url(url)
    except SQLAlchemyError as error:
        msg = "the journal's URL can't be read: write sqlite:///path/to/file.db or postgresql://user@host/name"
        raise SettingsError(msg) from error
    if parsed.get_backend_name() == "sqlite":
        return SqliteDatabase(parsed, executor)
    if parsed.get_backend_name() == "postgresql":
        return PostgresDatabase(for_asyncpg(parsed))
    msg = f"journals live in SQLite or PostgreSQL, not in {parsed.get_backend_name()!a}"
    raise SettingsError(msg)


def for_asyncpg(url: URL) -> URL:
    """Take a URL as PostgreSQL's own tools write it: asyncpg calls `sslmode` `ssl`."""
    query = {("ssl" if name == "sslmode" else name): value for name, value in url.query.items()}
    return url.set(drivername="postgresql+asyncpg", query=query)


class SqliteDatabase:
    """One file: WAL, synchronous FULL, one writer at a time."""

    dialect = "sqlite"

    def __init__(self, url: URL, executor: Executor | None = None) -> None:
        if not url.database or url.database == ":memory:":
            msg = "SQLite journals need a file: in memory nothing would outlive the process"
            raise SettingsError(msg)
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
        self._writer = _sqlite_engine(url, "BEGIN IMMEDIATE")
        self._reader = _sqlite_engine(url, "BEGIN")
        self._write_thread = executor or ThreadPoolExecutor(1, "turnkeeper-write")
        self._read_thread = executor or ThreadPoolExecutor(1, "turnkeeper-read")

    async def write(self, transaction: Transaction[T]) -> T:
        """See `Database`."""
        return await asyncio.get_running_loop().run_in_executor(self._write_thread, _commit, self._writer, transaction)

    async def read(self, transaction: Transaction[T]) -> T:
        """See `Database`."""
        return await asyncio.get_running_loop().run_in_executor(self._read_thread, _commit, self._reader, transaction)

    async def aclose(self) -> None:
        """See `Database`."""
        for thread, engine in ((self._write_thread, self._writer), (self._read_thread, self._reader)):
            await asyncio.get_running_loop().run_in_executor(thread, engine.dispose)
            thread.shutdown(wait=False)


def _sqlite_engine(url: URL, begin: str) -> Engine:
    # The driver's own transaction handling is off: it would begin late, and a read that becomes a write can't wait.
    # check_same_thread is off since a pool's connection is made in one thread and disposed of in another.
    engine = create_engine(url, isolation_level="AUTOCOMMIT", connect_args={"check_same_thread": False})

    def configure(connection: Any, _record: object) -> None:  # noqa: ANN401 - the driver's own type, which has no stub
        connection.isolation_level = None
        for pragma in (
            f"busy_timeout = {int(BUSY_SECONDS * 1000)}",
            "journal_mode = WAL",
            "synchronous = FULL",
        ):
            connection.execute(f"PRAGMA {pragma}")

    event.listen(engine, "connect", configure)
    engine.update_execution_options(turnkeeper_begin=begin)
    return engine


def _commit(engine: Engine, transaction: Transaction[T]) -> T:
    """Run a transaction in this thread. SQLite's commit either stands or does not, unless its disk fails."""
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql(engine.get_execution_options()["turnkeeper_begin"])
            try:
                result = transaction(connection)
            except BaseException:
                connection.exec_driver_sql("ROLLBACK")
                raise
            _commit_statement(connection)
            return result
    except DBAPIError as error:
        raise sorted_error(error) from error


def _commit_statement(connection: Connection) -> None:
    try:
        connection.exec_driver_sql("COMMIT")
    except DBAPIError as error:
        msg = f"the journal's commit failed: {error.orig}"
        raise UnknownOutcomeError(msg) from error


class PostgresDatabase:
    """A pool of asyncpg connections, with the server's own time limits as well as ours."""

    dialect = "postgresql"

    def __init__(self, url: URL) -> None:
        limits = {
            "application_name": _NAME,
            "statement_timeout": str(int(STATEMENT_SECONDS * 1000)),
            "lock_timeout": str(int(BUSY_SECONDS * 1000)),
            "idle_in_transaction_session_timeout": str(int(STATEMENT_SECONDS * 1000)),
        }
        self._engine: AsyncEngine = create_async_engine(
            url,
            pool_size=POOL_SIZE,
            max_overflow=0,
            pool_timeout=BUSY_SECONDS,
            pool_use_lifo=True,
            isolation_level="READ COMMITTED",
            connect_args={"server_settings": limits, "timeout": BUSY_SECONDS, "command_timeout": STATEMENT_SECONDS},
        )

    async def write(self, transaction: Transaction[T]) -> T:
        """See `Database`."""
        is_committing = False
        try:
            async with self._engine.connect() as connection:
                result = await connection.run_sync(transaction)
                is_committing = True
                await connection.commit()
                return result
        except (DBAPIError, OSError, TimeoutError, SQLAlchemyError) as error:
            if is_committing:
                msg = f"the connection broke while committing: {_short(error)}"
                raise UnknownOutcomeError(msg) from error
            if _sqlstate(error) == _LOCK_TIMEOUT:
                await self._end_stuck()
            raise sorted_error(error) from error

    async def _end_stuck(self) -> None:
        """Free what a frozen process has locked. A failure is logged: the transaction that waited has failed anyhow."""
        try:
            async with self._engine.connect() as connection:
                ended = await connection.scalar(_END_STUCK, {"name": _NAME, "seconds": STUCK_SECONDS})
        except (OSError, TimeoutError, SQLAlchemyError) as error:
            _log.warning("a lock is held too long, and its holder can't be looked for: %s", _short(error))
            return
        if ended:
            _log.warning("%d transactions of a process silent for %g s held locks and were ended", ended, STUCK_SECONDS)

    async def read(self, transaction: Transaction[T]) -> T:
        """See `Database`."""
        try:
            async with self._engine.connect() as connection:
                return await connection.run_sync(transaction)
        except (DBAPIError, OSError, TimeoutError, SQLAlchemyError) as error:
            raise sorted_error(error) from error

    async def aclose(self) -> None:
        """See `Database`."""
        await self._engine.dispose()


def sorted_error(error: Exception) -> Exception:
    """Return UnavailableError for what passes, else the error itself: a defect must not look like an outage."""
    if not isinstance(error, DBAPIError):
        is_passing = not isinstance(error, SQLAlchemyError) or "QueuePool limit" in str(error)
    elif error.connection_invalidated:
        is_passing = True
    else:
        state = _sqlstate(error)
        name = type(error.orig).__name__
        is_sqlite = name == "OperationalError" and "no such" not in str(error.orig)
        is_broken = state is None and name in {"InterfaceError", "InternalClientError"}
        is_passing = is_sqlite or is_broken or state in _PASSING_STATES or (state or "").startswith(("08", "53"))
    return UnavailableError(f"the journal can't be reached now: {_short(error)}") if is_passing else error


def _sqlstate(error: Exception) -> str | None:
    return getattr(error.orig, "sqlstate", None) if isinstance(error, DBAPIError) else None


def _short(error: Exception) -> str:
    cause = error.orig if isinstance(error, DBAPIError) else error
    return f"{type(cause).__name__}: {cause}"[:200]

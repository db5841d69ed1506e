"""The databases that the benchmarks run on: a SQLite file on a real disk, and a PostgreSQL that syncs its commits."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it ships no types, and no stubs of it keep pace

from tests.postgres_server import postgres_server
from turnkeeper.settings.models import JournalSettings, PostgresSettings, SqliteSettings

DATABASES = ("sqlite", "postgresql")


@dataclass(frozen=True)
class Place:
    """One database. `url` is what `turnkeeper run --journal` takes: a file, or a URL of PostgreSQL."""

    database: str
    url: str

    @property
    def settings(self) -> JournalSettings:
        """The place as the settings name it."""
        if self.database == "sqlite":
            return JournalSettings(sqlite=SqliteSettings(path=Path(self.url)))
        return JournalSettings.model_validate({"postgres": PostgresSettings.model_validate({"url": self.url})})

    @property
    def driver_url(self) -> str:
        """The URL as asyncpg takes it."""
        return self.url.replace("postgresql+asyncpg://", "postgresql://")


@contextmanager
def place(database: str) -> Iterator[Place]:
    """Yield a new, empty database, and remove it."""
    if database == "sqlite":
        with tempfile.TemporaryDirectory(prefix="turnkeeper-bench-") as folder:
            yield Place(database, str(Path(folder) / "journal.sqlite"))
    else:
        with postgres_server(durable=True) as url:
            yield Place(database, url)


@asynccontextmanager
async def raw_connection(where: Place) -> AsyncIterator[Any]:
    """Yield a bare asyncpg connection."""
    connection = await asyncpg.connect(where.driver_url)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def raw_pool(where: Place, size: int) -> AsyncIterator[Any]:
    """Yield a bare asyncpg pool, all of it connected."""
    async with asyncpg.create_pool(where.driver_url, min_size=size, max_size=size) as pool:
        yield pool

"""A world for each test: on SQLite and on PostgreSQL, or on the one that is asked for."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.scenarios.harness import World, open_world


@pytest_asyncio.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    """Runners over a fresh database of each kind in turn."""
    made = await open_world(database_url)
    yield made
    await made.aclose()


@pytest_asyncio.fixture
async def postgresql_world(postgresql_url: str) -> AsyncIterator[World]:
    """Runners over a fresh PostgreSQL."""
    made = await open_world(postgresql_url)
    yield made
    await made.aclose()

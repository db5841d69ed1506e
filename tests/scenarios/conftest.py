"""A world for each test: on SQLite and on PostgreSQL, or on the one that is asked for."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.scenarios.harness import World, open_world
from tests.soak.nursery import Nursery, nursery


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


@pytest.fixture(scope="session")
def kept_nursery() -> Iterator[Nursery]:
    """What forks real runners, one for each test process."""
    with nursery() as made:
        yield made

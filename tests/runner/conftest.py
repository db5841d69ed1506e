"""The world of a test, closed behind it."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.runner.world import World


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    """No process yet, on an empty store."""
    world = World()
    yield world
    await world.aclose()

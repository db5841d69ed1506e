"""One server for the whole folder: each test has a thread of its own in it."""

import uuid
from collections.abc import Iterator

import httpx
import pytest

from tests.api.served import Served, serving


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    """A server without tokens, over a journal in memory."""
    with serving() as server:
        yield server


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    """A client of it."""
    with httpx.Client(base_url=served.url, trust_env=False, timeout=20) as http:
        yield http


@pytest.fixture
def thread() -> str:
    """A thread that nobody else uses."""
    return f"thread-{uuid.uuid4().hex}"

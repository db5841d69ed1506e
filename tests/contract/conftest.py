"""The stores that every port's suite runs on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from tests.conftest import GIVEN_CLUSTER
from tests.contract.stores import LeaseStore, MemoryStores, SqlStore, Store, fused, two_step
from turnkeeper.ports import Claims, Journal, Taking

MakeTaking = Callable[[Journal, Claims], Taking]


WITH_LEASES = bool(GIVEN_CLUSTER)
"""Leases join where a cluster is given; `make test` needs none."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Try no journal on Leases: what stands there is the journal in memory, which has its own turn."""
    items[:] = [item for item in items if "test_journal" not in item.nodeid or "[leases" not in item.nodeid]


def make_store(kind: str, request: pytest.FixtureRequest) -> Store:
    """Return an empty store of a kind."""
    if kind == "memory":
        return MemoryStores()
    if kind == "leases":
        return LeaseStore(request.getfixturevalue("kubeconfig"), request.getfixturevalue("namespace"))
    return SqlStore(request.getfixturevalue(f"{kind}_url"))


@pytest.fixture(params=["memory", "sqlite", "postgresql", *(["leases"] if WITH_LEASES else [])])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """Each kind of store in turn, empty."""
    made = make_store(request.param, request)
    yield made
    await made.aclose()


@pytest.fixture
async def sql_store(database_url: str) -> AsyncIterator[SqlStore]:
    """Each kind of database in turn, empty."""
    made = SqlStore(database_url)
    yield made
    await made.aclose()


@pytest.fixture
async def journal(store: Store) -> Journal:
    """A journal on each kind of store."""
    return await store.journal()


@pytest.fixture
async def claims(store: Store) -> Claims:
    """Claims on each kind of store."""
    return await store.claims()


@pytest.fixture(
    params=[
        "memory two_step",
        "sqlite two_step",
        "sqlite fused",
        "postgresql two_step",
        "postgresql fused",
        *(["leases two_step"] if WITH_LEASES else []),
    ]
)
async def taken(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Store, MakeTaking]]:
    """Each store with each way of taking that it allows."""
    kind, way = request.param.split()
    made = make_store(kind, request)
    yield made, fused if way == "fused" else two_step
    await made.aclose()

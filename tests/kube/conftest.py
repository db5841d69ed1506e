"""A real API server, and a way to it that has faults. Left out, but for what needs no cluster, where none is given."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conftest import GIVEN_CLUSTER
from tests.contract.stores import LeaseStore
from tests.kube.fault_proxy import FaultProxy, fault_proxy, kubeconfig_for
from turnkeeper.adapters.kube.api import KubeApi, open_kube_api
from turnkeeper.adapters.kube.lease_claims import LeaseClaims
from turnkeeper.adapters.machine_clock import MachineClock

collect_ignore = (
    []
    if GIVEN_CLUSTER
    else [
        "test_access.py",
        "test_api.py",
        "test_hands.py",
        "test_herd.py",
        "test_lost_answers.py",
        "test_owners.py",
        "test_refusals.py",
        "test_requests.py",
        "test_renewals.py",
        "test_watching.py",
    ]
)

REQUEST_SECONDS = 3.0
CALL_SECONDS = 8.0
"""Deadlines of what goes through the proxy: short, so that a hang is seen, and long for a machine that is busy."""


@pytest.fixture
async def store(kubeconfig: Path, namespace: str) -> AsyncIterator[LeaseStore]:
    """Leases of an empty namespace, and clients with no trouble on their way."""
    made = LeaseStore(kubeconfig, namespace)
    yield made
    await made.aclose()


@pytest.fixture
async def api(store: LeaseStore) -> KubeApi:
    """A client with no trouble on its way."""
    return await store.api()


@pytest.fixture
async def proxy(kubeconfig: Path) -> AsyncIterator[FaultProxy]:
    """A way to the API server that has faults."""
    async with fault_proxy(kubeconfig) as made:
        yield made


@pytest.fixture
async def troubled_api(proxy: FaultProxy, tmp_path: Path) -> AsyncIterator[KubeApi]:
    """A client that goes through the proxy."""
    made = await open_kube_api(deadline_seconds=REQUEST_SECONDS, kubeconfig=kubeconfig_for(proxy.url, tmp_path))
    yield made
    await made.aclose()


@pytest.fixture
async def troubled(store: LeaseStore, troubled_api: KubeApi) -> LeaseClaims:
    """Sessions and claims through the proxy."""
    return LeaseClaims(troubled_api, store.place(), MachineClock(), deadline_seconds=CALL_SECONDS)

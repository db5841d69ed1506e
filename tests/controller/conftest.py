"""A real API server with the definition of Workspaces, and controllers that run against it.

Left out where no cluster is given: what is made of a Workspace, and what it says, is tried without one.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.conftest import GIVEN_CLUSTER
from tests.controller.cluster import Cluster, install_definition
from turnkeeper.adapters.kube.api import KubeApi, open_kube_api
from turnkeeper.controller.kopf_events import THREAD

collect_ignore = (
    []
    if GIVEN_CLUSTER
    else [
        "test_deletion_costs.py",
        "test_gate.py",
        "test_leases.py",
        "test_reconciling.py",
        "test_refused.py",
        "test_runner.py",
        "test_sweeps.py",
    ]
)


@pytest.fixture(scope="session", autouse=True)
def kopf_ends() -> Iterator[None]:
    """Let kopf's threads end before the tests do: they take some seconds, and close their connections in them."""
    yield
    for thread in threading.enumerate():
        if thread.name == THREAD:
            thread.join(30)


@pytest.fixture
async def api(kubeconfig: Path) -> AsyncIterator[KubeApi]:
    """A client of the API server, which knows Workspaces."""
    made = await open_kube_api(deadline_seconds=20.0, kubeconfig=kubeconfig)
    await install_definition(made)
    yield made
    await made.aclose()


@pytest.fixture
def cluster(api: KubeApi, namespace: str, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A namespace of its own."""
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))  # kopf looks there
    return Cluster(api, namespace)

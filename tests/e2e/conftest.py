"""The installed chart, and a namespace of its own with a database for each test.

Nothing here is collected but by `make e2e`: a cluster takes minutes at its first start, and root.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

from tests.e2e.releases import release_in
from tests.e2e.site import GIVEN, Site, site, taken_from
from tests.e2e.workspaces import Place

ASKED = os.environ.get("TURNKEEPER_E2E", "") == "1"

collect_ignore_glob = [] if ASKED else ["test_*.py"]


def pytest_configure(config: pytest.Config) -> None:
    """Tell of the marks by which `run` knows what may run beside what."""
    config.addinivalue_line("markers", "release: troubles the controller or its release; one of these at a time")
    config.addinivalue_line("markers", "alone: troubles the whole cluster; nothing runs beside it")


@pytest.fixture(scope="session")
def cluster_site() -> Iterator[Site]:
    """A cluster with both images in it: the one that `run` has made, or one for this run alone."""
    if given := os.environ.get(GIVEN, ""):
        yield taken_from(given)
    else:
        with site() as found:
            yield found


@pytest.fixture(scope="session")
def release(cluster_site: Site) -> Iterator[Site]:
    """The cluster with the chart in it."""
    if os.environ.get(GIVEN, ""):
        yield cluster_site
    else:
        with release_in(cluster_site):
            yield cluster_site


@pytest.fixture
def place(release: Site) -> Iterator[Place]:
    """A namespace of its own, with a PostgreSQL in it once one is needed; deleted afterwards with all that is in it."""
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    release.kubectl("create", "namespace", name)
    release.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
    there = Place(release, name)
    try:
        yield there
    finally:
        there.close()
        release.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")

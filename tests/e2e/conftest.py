"""The installed chart, and a namespace of its own with a database for each test.

Nothing here is collected but by `make e2e`: a cluster takes minutes at its first start, and root.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

from tests.e2e.releases import installed, uninstalled
from tests.e2e.site import RELEASE_NAMESPACE, Site, site
from tests.e2e.workspaces import Place

ASKED = os.environ.get("TURNKEEPER_E2E", "") == "1"

collect_ignore_glob = [] if ASKED else ["test_*.py"]


@pytest.fixture(scope="session")
def cluster_site() -> Iterator[Site]:
    """A cluster with both images in it."""
    with site() as found:
        yield found


@pytest.fixture(scope="session")
def release(cluster_site: Site) -> Iterator[Site]:
    """The cluster with the chart in it; uninstalled afterwards, and then the definition that it left."""
    installed(cluster_site, "replicas=2")
    yield cluster_site
    uninstalled(cluster_site)
    cluster_site.kubectl("delete", "namespace", RELEASE_NAMESPACE, "--timeout=2m")
    cluster_site.kubectl("delete", "customresourcedefinition", "workspaces.turnkeeper.dev", "--timeout=2m")


@pytest.fixture
def place(release: Site) -> Iterator[Place]:
    """A namespace of its own with a PostgreSQL in it, deleted afterwards with all that is in it."""
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    release.kubectl("create", "namespace", name)
    release.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
    there = Place(release, name)
    try:
        there.start_database()
        yield there
    finally:
        there.close()
        release.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")

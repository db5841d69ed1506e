"""The installed chart, and a namespace of its own with a database for each test.

Nothing here is collected but by `make e2e`: a cluster takes minutes at its first start, and root.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.site import RELEASE, RELEASE_NAMESPACE, Site, site
from tests.e2e.workspaces import Place

ASKED = os.environ.get("TURNKEEPER_E2E", "") == "1"
CHART = Path(__file__).parents[2] / "charts" / "turnkeeper"

collect_ignore_glob = [] if ASKED else ["test_*.py"]


@pytest.fixture(scope="session")
def cluster_site() -> Iterator[Site]:
    """A cluster with both images in it."""
    with site() as found:
        yield found


def installed(site: Site, *values: str) -> None:
    """Install the chart as a user does, or upgrade it, and return once its controller is ready."""
    repository, _, tag = site.image.rpartition(":")
    given = [f"image.repository={repository}", f"image.tag={tag}", *values]
    options = [part for value in given for part in ("--set", value)]
    where = ["--namespace", RELEASE_NAMESPACE, "--create-namespace"]
    site.helm("upgrade", "--install", RELEASE, str(CHART), *where, "--wait", "--timeout=3m", *options)


@pytest.fixture(scope="session")
def release(cluster_site: Site) -> Iterator[Site]:
    """The cluster with the chart in it; uninstalled afterwards, with the definition that a chart leaves."""
    installed(cluster_site, "replicas=2")
    yield cluster_site
    cluster_site.helm("uninstall", RELEASE, "--namespace", RELEASE_NAMESPACE, "--wait")
    cluster_site.kubectl("delete", "namespace", RELEASE_NAMESPACE, "--timeout=2m")
    cluster_site.kubectl("delete", "customresourcedefinition", "workspaces.turnkeeper.dev", "--timeout=2m")


@pytest.fixture
def place(release: Site) -> Iterator[Place]:
    """A namespace of its own with a PostgreSQL in it, gone afterwards with all that is in it."""
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    release.kubectl("create", "namespace", name)
    release.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
    there = Place(release, name)
    try:
        there.start_database()
        yield there
    finally:
        there.close()
        release.kubectl("delete", "namespace", name, "--timeout=3m")

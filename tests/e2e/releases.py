"""The chart in a cluster: installed as a user does, and taken away for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.site import RELEASE, RELEASE_NAMESPACE, Site

CHART = Path(__file__).parents[2] / "charts" / "turnkeeper"


def installed(site: Site, *values: str, chart: Path = CHART) -> None:
    """Install the chart as a user does, or upgrade it, and return once its controller is ready."""
    repository, _, tag = site.image.rpartition(":")
    given = [f"image.repository={repository}", f"image.tag={tag}", *values]
    options = [part for value in given for part in ("--set", value)]
    where = ["--namespace", RELEASE_NAMESPACE, "--create-namespace"]
    site.helm("upgrade", "--install", RELEASE, str(chart), *where, "--wait", "--timeout=3m", *options)


def uninstalled(site: Site) -> None:
    """Uninstall the chart; the definition of Workspaces stays, as a chart leaves it.

    With the release go its controllers' rights, often before one of them has given their Lease back: the next release
    would wait for a minute, and need not here.
    """
    site.helm("uninstall", RELEASE, "--namespace", RELEASE_NAMESPACE, "--wait")
    site.kubectl("delete", "lease", f"--namespace={RELEASE_NAMESPACE}", "--all")


@contextmanager
def release_in(site: Site) -> Iterator[None]:
    """Install the chart for the while; afterwards the definition that it leaves goes too."""
    installed(site, "replicas=2")
    try:
        yield
    finally:
        uninstalled(site)
        site.kubectl("delete", "namespace", RELEASE_NAMESPACE, "--timeout=2m")
        site.kubectl("delete", "customresourcedefinition", "workspaces.turnkeeper.dev", "--timeout=2m")


@contextmanager
def without_release(site: Site) -> Iterator[None]:
    """Uninstall the chart for the while."""
    uninstalled(site)
    try:
        yield
    finally:
        installed(site, "replicas=2")


@contextmanager
def without_controller(site: Site) -> Iterator[None]:
    """Scale the controller to none for the while."""
    where = [f"--namespace={RELEASE_NAMESPACE}", f"deployment/{RELEASE}"]
    site.kubectl("scale", *where, "--replicas=0")
    site.kubectl("wait", f"--namespace={RELEASE_NAMESPACE}", "--for=delete", "pod", "--all", "--timeout=90s")
    try:
        yield
    finally:
        site.kubectl("scale", *where, "--replicas=2")
        site.kubectl("rollout", "status", *where, "--timeout=120s")

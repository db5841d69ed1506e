"""Rollouts and drains under load (S18): short turns end, long ones are begun again, and nothing accepted is lost."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from functools import partial

import pytest

from tests.cluster.processes import wait_until
from tests.e2e.releases import installed
from tests.e2e.site import Site
from tests.e2e.test_changes import assert_all_answered, burst
from tests.e2e.test_deaths import started
from tests.e2e.traffic import traffic
from tests.e2e.workspaces import Json, Place, Workspace, is_ready, spec

SHORT_SECONDS = 3
LONG_SECONDS = 600
"""Turns that a drain waits for, and that none does: they give 5 s."""

UPGRADES = 3


def evicted(place: Place, pod: Json) -> bool:
    """Ask for a pod's eviction, as `kubectl drain` does; whether it was granted, or refused for the budget's sake."""
    name = pod["metadata"]["name"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": place.namespace}}
    path = f"/api/v1/namespaces/{place.namespace}/pods/{name}/eviction"
    try:
        place.kubectl("create", f"--raw={path}", "--filename=-", stdin=json.dumps(body))
    except subprocess.CalledProcessError as error:
        assert "disruption budget" in error.stderr  # noqa: PT017 - any other refusal is a fault
        return False
    return True


def test_a_drained_node_gives_up_one_runner_at_a_time(place: Place) -> None:
    """Both are evicted under load: the budget keeps one ready at each moment, and each message is answered."""
    workspace = place.apply("orders", spec(handler={"echo": {"delaySeconds": SHORT_SECONDS}})).wait_ready()
    wait_until(lambda: all(map(is_ready, workspace.runners())), "both are ready", seconds=60)
    before = workspace.runners()
    with traffic(workspace) as sent:
        wait_until(lambda: evicted(place, before[0]), "the budget knows that both are ready", seconds=30)
        assert not evicted(place, before[1])
        wait_until(lambda: evicted(place, before[1]), "the other one's turn has come", seconds=60)
        assert any(map(is_ready, workspace.runners()))
        wait_until(lambda: gone(workspace, before), "both are new", seconds=60)
    assert_all_answered(workspace, sent)


def gone(workspace: Workspace, before: list[Json]) -> bool:
    """Whether two runners are ready, and none of them is one of these."""
    old = {pod["metadata"]["uid"] for pod in before}
    now = workspace.runners()
    return len(now) == 2 and all(is_ready(pod) and pod["metadata"]["uid"] not in old for pod in now)


@pytest.fixture
def releases(place: Place) -> list[Site]:
    """The site under other names of its image: runners follow the controller's image, so each upgrade rolls them."""
    machine = place.site.machine
    if machine is None:
        pytest.skip("only where this machine is the node can an image be given another name")
    names = [f"{place.site.image}-{number}" for number in range(1, UPGRADES)]
    for name in names:
        tag = [*machine.node.ctr, "images", "tag", "--force", place.site.image, name]
        subprocess.run(tag, check=True, capture_output=True)
    return [*(replace(place.site, image=name) for name in names), place.site]


@pytest.mark.alone
def test_three_upgrades_in_a_row_lose_nothing(place: Place, releases: list[Site]) -> None:
    """`helm upgrade --wait` three times under load: all is answered, and a turn of minutes is not charged for it."""
    workspace = place.apply("orders", spec(handler={"echo": {"delaySeconds": SHORT_SECONDS}})).wait_ready()
    patient = place.apply("patient", spec(handler={"echo": {"delaySeconds": LONG_SECONDS}})).wait_ready()
    started(patient, "alice")
    with traffic(workspace) as sent:
        for upgraded in releases:
            installed(upgraded, "replicas=2")
        for rolled in (workspace, patient):
            wait_until(partial(runs, rolled, releases[-1].image), "the last image runs", seconds=120)
    assert_all_answered(workspace, sent | burst(workspace, 2, prefix="after"))
    patient.wait_state("alice", "running")
    told = patient.thread("alice")
    assert told["parked"] == 0


def runs(workspace: Workspace, image: str) -> bool:
    """Whether two runners are ready, each with this image."""
    now = workspace.runners()
    return len(now) == 2 and all(is_ready(pod) and pod["spec"]["containers"][0]["image"] == image for pod in now)

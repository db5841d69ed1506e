"""The chart's life: tested, upgraded, its controllers killed, gone before its Workspaces and back again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import yaml

from tests.cluster.processes import wait_until
from tests.e2e.releases import CHART, installed, without_controller, without_release
from tests.e2e.site import RELEASE, RELEASE_NAMESPACE, Site
from tests.e2e.test_changes import assert_all_answered, burst
from tests.e2e.victims import freeze, kill, thaw
from tests.e2e.workspaces import Json, Place, Workspace, spec

GATE_SECONDS = 60
"""How long a controller that died without a word keeps the others from acting: its Lease's duration."""

MANY = 50
LIVE = 5
"""Of many Workspaces, those with a runner: pods of a single node start one after the other."""

DEFINITION = "customresourcedefinition/workspaces.turnkeeper.dev"


def controllers(site: Site) -> list[Json]:
    """The pods of the controller."""
    where = [f"--namespace={RELEASE_NAMESPACE}", "--selector=app.kubernetes.io/component=controller"]
    found: list[Json] = json.loads(site.kubectl("get", "pods", *where, "--output=json"))["items"]
    return found


def acting_name(site: Site) -> str:
    """The name of the pod that holds the controllers' Lease; empty where none does."""
    where = [f"--namespace={RELEASE_NAMESPACE}", "lease/turnkeeper-controller"]
    return site.kubectl("get", *where, "--output=jsonpath={.spec.holderIdentity}").partition("_")[0]


def acting(site: Site) -> Json:
    """The controller that holds the Lease."""
    return next(pod for pod in controllers(site) if pod["metadata"]["name"] == acting_name(site))


def test_helm_test_passes(release: Site) -> None:
    """`helm test` asks the controller whether it is ready, as a user does after an install."""
    assert "Succeeded" in release.helm("test", RELEASE, f"--namespace={RELEASE_NAMESPACE}", "--timeout=2m")


def test_an_upgrade_brings_the_newer_definition(release: Site, tmp_path: Path) -> None:
    """From an older chart, whose Workspaces had a column less, `helm upgrade` changes the definition too."""
    older = tmp_path / "turnkeeper"
    shutil.copytree(CHART, older)
    template = older / "templates" / "workspace-crd.yaml"
    kept = [line for line in template.read_text("utf-8").splitlines() if "{{" in line]
    guard = next(line for line in kept if line.startswith("{{- if"))
    body = "\n".join(line for line in template.read_text("utf-8").splitlines() if "{{" not in line)
    definition = yaml.safe_load(body)
    columns = definition["spec"]["versions"][0]["additionalPrinterColumns"]
    gone = columns.pop()["name"]
    template.write_text("\n".join([guard, yaml.safe_dump(definition), "{{- end }}", ""]))

    def shown() -> set[str]:
        versions = json.loads(release.kubectl("get", DEFINITION, "--output=json"))["spec"]["versions"]
        return {column["name"] for column in versions[0]["additionalPrinterColumns"]}

    installed(release, "replicas=2", chart=older)
    assert gone not in shown()
    installed(release, "replicas=2")
    assert gone in shown()


def test_a_killed_controller_is_followed_by_the_other(place: Place) -> None:
    """The one that acts is killed without a word: once its Lease has run out, a new Workspace is looked after."""
    wait_until(lambda: len(controllers(place.site)) == 2, "there are two controllers", seconds=60)
    kill(place.site, acting(place.site))
    workspace = place.apply("orders", spec(handler={"echo": {}}))
    wait_until(
        lambda: workspace.get().get("status", {}).get("readyReplicas", 0) == 2,
        "a controller has brought it about",
        seconds=2 * GATE_SECONDS,
    )
    assert_all_answered(workspace.wait_ready(), burst(workspace, 2))


def test_a_controller_that_was_frozen_finds_itself_replaced(release: Site) -> None:
    """Frozen past its Lease, it wakes, or is ended by its probe, beside the one that acts now, and stands by anew."""
    wait_until(lambda: len(controllers(release)) == 2, "there are two controllers", seconds=60)
    wait_until(lambda: acting_name(release), "one of them acts", seconds=GATE_SECONDS)
    frozen = acting_name(release)
    pid = freeze(release, acting(release))
    try:
        wait_until(lambda: acting_name(release) not in {"", frozen}, "the other acts", seconds=2 * GATE_SECONDS)
    finally:
        thaw(pid)

    def restarted() -> bool:
        (pod,) = [pod for pod in controllers(release) if pod["metadata"]["name"] == frozen]
        status = pod["status"]["containerStatuses"][0]
        return bool(status["restartCount"] and status["ready"])

    wait_until(restarted, "the frozen one has begun anew", seconds=60)
    assert acting_name(release) != frozen


def test_many_workspaces_wait_for_a_controller_that_starts(place: Place) -> None:
    """Fifty are there as it starts: each is looked at, and the live ones answer what waits in them."""
    with without_controller(place.site):
        for number in range(MANY):
            place.apply(f"ws{number}", spec(handler={"echo": {}}, replicas=1 if number < LIVE else 0))

    def looked_at() -> bool:
        items = json.loads(place.kubectl("get", "workspaces", "--output=json"))["items"]
        return all(item.get("status", {}).get("observedGeneration") for item in items)

    wait_until(looked_at, "each has a status", seconds=90)
    for number in range(LIVE):
        workspace = Workspace(place, f"ws{number}").wait_ready()
        assert_all_answered(workspace, burst(workspace, 1))


def test_a_release_that_is_gone_first_leaves_its_workspaces_at_work(place: Place) -> None:
    """Uninstalled before its Workspaces: they answer, and are deleted whole; a new release finds what it needs."""
    workspace = place.apply("orders", spec(handler={"echo": {}})).wait_ready()
    other = place.apply("others", spec(handler={"echo": {}})).wait_ready()
    with without_release(place.site):
        assert_all_answered(workspace, burst(workspace, 3))
        place.kubectl("delete", "workspace", "others", "--timeout=60s")
        wait_until(lambda: "others-runner" not in place.kubectl("get", "pods"), "its pods are gone", seconds=90)
    place.kubectl("scale", "workspace", "orders", "--replicas=1")
    wait_until(lambda: len(workspace.runners()) == 1, "the new release looks after it", seconds=60)
    assert_all_answered(workspace, burst(workspace, 2, prefix="after"))
    assert other.name not in place.kubectl("get", "workspaces", "--output=name")

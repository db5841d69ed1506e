"""The chart's life: tested, upgraded, its controllers killed, gone before its Workspaces and back again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from tests.cluster.processes import wait_until
from tests.e2e.releases import CHART, installed, without_release
from tests.e2e.site import RELEASE, RELEASE_NAMESPACE, Site
from tests.e2e.test_changes import assert_all_answered, burst
from tests.e2e.test_deaths import started
from tests.e2e.workspaces import LONG_AT_FIRST, Place, spec

DEFINITION = "customresourcedefinition/workspaces.turnkeeper.dev"


@pytest.mark.release
def test_helm_test_passes(release: Site) -> None:
    """`helm test` asks the controller whether it is ready, as a user does after an install."""
    assert "Succeeded" in release.helm("test", RELEASE, f"--namespace={RELEASE_NAMESPACE}", "--timeout=2m")


@pytest.mark.release
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


@pytest.mark.alone
def test_a_release_that_is_gone_first_leaves_its_workspaces_at_work(place: Place) -> None:
    """Uninstalled before its Workspaces: they answer, and are deleted whole; a new release finds what it needs.

    And once their definition is deleted too, in mid-turn, nothing of them is left, and the release brings it back.
    """
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
    long = place.apply("long", spec(handler=LONG_AT_FIRST)).wait_ready()
    started(long, "alice")
    with without_release(place.site):
        place.kubectl("delete", DEFINITION, "--timeout=60s")
        wait_until(lambda: "-runner-" not in place.kubectl("get", "pods"), "no runner is left", seconds=90)
        wait_until(lambda: not place.kubectl("get", "leases", "--output=name"), "no Lease is left", seconds=60)
    again = place.apply("orders", spec(handler={"echo": {}})).wait_ready()
    assert_all_answered(again, burst(again, 1))

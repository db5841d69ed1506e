"""What the chart renders: whole, restricted, and with no right that has no reason."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.programs import programs
from tests.e2e.releases import CHART
from tests.e2e.site import run

OLDEST = "--kube-version=1.29.0"
"""The oldest that the chart takes: where helm asks no cluster, it takes one that is older still."""

EVERYTHING = {
    "replicas": 2,
    "networkPolicy": {"enabled": True, "metricsFrom": [{"namespaceSelector": {}}]},
    "metrics": {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True, "labels": {"team": "a"}}},
    "imagePullSecrets": [{"name": "registry"}],
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"operator": "Exists"}],
    "priorityClassName": "high",
    "podAnnotations": {"a": "b"},
    "podLabels": {"c": "d"},
    "serviceAccount": {"annotations": {"e": "f"}},
}

APPLIED = "get list watch create patch"
"""Made and mended, never deleted: that is left to the cluster, by owner references."""

WHY: dict[str, tuple[str, str]] = {
    "turnkeeper.dev/workspaces": ("get list watch", "reads what is asked for"),
    "turnkeeper.dev/workspaces/status": ("patch", "tells what was seen"),
    "/pods": ("get list watch patch", "sees runners start, fail and go; says which are idle before there are fewer"),
    "/secrets": ("get create", "makes the API tokens, and reads them to ask runners to recover"),
    "/services": (APPLIED, "each Workspace's address"),
    "/serviceaccounts": (APPLIED, "who its runners are"),
    "/events": ("create", "tells what happened"),
    "apps/deployments": (APPLIED, "runners on PostgreSQL"),
    "apps/statefulsets": (APPLIED, "the runner on SQLite, with its volume"),
    "policy/poddisruptionbudgets": (APPLIED, "one runner at a time is evicted"),
    "networking.k8s.io/networkpolicies": (APPLIED, "who reaches the runners"),
    "rbac.authorization.k8s.io/roles": (APPLIED, "what runners may do: no more than the controller itself"),
    "rbac.authorization.k8s.io/rolebindings": (APPLIED, "what gives it to them"),
    "coordination.k8s.io/leases": (
        "get list watch create update patch delete",
        "collects stale claims, ends sessions of stopped containers; and may give runners only what it has",
    ),
}
"""Everything that the controller may do, and why. What is missing here must not be in the chart."""


def helm(*arguments: str) -> str:
    """Run the built helm."""
    return run([str(programs("helm") / "helm"), *arguments])


def rendered(values: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """The chart's objects with these values."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    text = helm("template", "turnkeeper", str(CHART), "--namespace=there", OLDEST, f"--values={file}")
    return [found for found in yaml.safe_load_all(text) if found]


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The objects of a kind."""
    return [found for found in objects if found["kind"] == kind]


def rights(rules: list[dict[str, Any]]) -> dict[str, str]:
    """What rules allow, by group and resource."""
    return {
        f"{group}/{resource}": " ".join(rule["verbs"])
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


@pytest.mark.parametrize("values", [{}, EVERYTHING, {"watchNamespaces": ["one", "two"]}])
def test_helm_finds_nothing_to_complain_of(values: dict[str, Any], tmp_path: Path) -> None:
    """`helm lint --strict` passes with the defaults, with everything switched on, and for chosen namespaces."""
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART), OLDEST, f"--values={file}")
    assert of_kind(rendered(values, tmp_path), "Deployment")


@pytest.mark.parametrize(
    "wrong", [{"replica": 2}, {"replicas": 3}, {"image": {"tag": 1}}, {"watchNamespaces": ["No"]}, {"metrics": []}]
)
def test_a_value_that_means_nothing_is_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    """A slip of the pen is told before anything is installed."""
    with pytest.raises(subprocess.CalledProcessError) as raised:
        rendered(wrong, tmp_path)
    assert "values don't meet the specifications of the schema" in raised.value.stderr


def test_the_controller_may_do_what_it_needs_and_no_more(tmp_path: Path) -> None:
    """Each right has its reason in this file, for the cluster and for chosen namespaces alike."""
    expected = {name: verbs for name, (verbs, _) in WHY.items()}
    wide = {found["metadata"]["name"]: found for found in of_kind(rendered({}, tmp_path), "ClusterRole")}
    role = wide["turnkeeper-there"]
    assert rights(role["rules"]) == expected
    narrow = rendered({"watchNamespaces": ["one", "two"]}, tmp_path)
    roles = [found for found in of_kind(narrow, "Role") if found["metadata"]["namespace"] in {"one", "two"}]
    assert [rights(found["rules"]) for found in roles] == [expected, expected]
    assert of_kind(narrow, "ClusterRoleBinding") == []
    for found in (role, *roles):
        assert "*" not in json.dumps(found["rules"])


def test_people_get_what_their_role_says(tmp_path: Path) -> None:
    """Who may view sees Workspaces, who may edit changes them; nobody but the controller writes their status."""
    roles = {found["metadata"]["name"]: found for found in of_kind(rendered({}, tmp_path), "ClusterRole")}
    viewer, editor = roles["turnkeeper-there-viewer"], roles["turnkeeper-there-editor"]
    assert set(rights(viewer["rules"]).values()) == {"get list watch"}
    assert "turnkeeper.dev/workspaces/status" not in rights(editor["rules"])
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    aggregated = [
        {label.removeprefix(prefix) for label in role["metadata"]["labels"] if label.startswith(prefix)}
        for role in (viewer, editor)
    ]
    assert aggregated == [{"view", "edit", "admin"}, {"edit", "admin"}]


@pytest.mark.parametrize("values", [{}, EVERYTHING])
def test_every_pod_is_restricted(values: dict[str, Any], tmp_path: Path) -> None:
    """The chart's pods keep the restricted Pod Security standard, with a root that can't be written."""
    objects = rendered(values, tmp_path)
    pods = [found["spec"]["template"]["spec"] for found in of_kind(objects, "Deployment")]
    pods += [found["spec"] for found in of_kind(objects, "Pod")]
    assert len(pods) == 2
    for pod in pods:
        assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]


def test_the_definition_stays_when_the_release_goes(tmp_path: Path) -> None:
    """It is a template, which upgrades with the chart, and one that helm keeps: its Workspaces outlive a release."""
    (definition,) = of_kind(rendered({}, tmp_path), "CustomResourceDefinition")
    assert definition["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert of_kind(rendered({"crd": {"install": False}}, tmp_path), "CustomResourceDefinition") == []


def test_each_value_is_told() -> None:
    """Every value of values.yaml is in the schema with what it means, and in the chart's README."""
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    readme = (CHART / "README.md").read_text("utf-8")

    def check(values: dict[str, Any], told: dict[str, Any], path: str) -> None:
        for name, value in values.items():
            where = told["properties"][name]
            if isinstance(value, dict) and "properties" in where:
                check(value, where, f"{path}{name}.")
            else:
                assert where.get("description"), f"{path}{name} has no description in the schema"
                assert f"`{path}{name}`" in readme, f"{path}{name} is not in the README"

    check(yaml.safe_load((CHART / "values.yaml").read_text("utf-8")), schema, "")

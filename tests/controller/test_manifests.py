"""From a spec to objects: what they hold, that they are the same each time, and what counts as a difference."""

import copy
import json
from typing import Any

import pytest

from tests.controller.workspaces import NAMES, RICH, UID, objects, pod_of, spec
from turnkeeper.controller.manifests.difference import differs, overlay
from turnkeeper.controller.manifests.pod import SETTINGS_ANNOTATION, grace_seconds
from turnkeeper.settings import Settings
from turnkeeper.settings.workspace import WorkspaceSpec

PLAIN = spec()
FULL = WorkspaceSpec.model_validate(RICH)


@pytest.mark.parametrize("of", [PLAIN, FULL])
def test_the_same_spec_makes_the_same_objects(of: WorkspaceSpec) -> None:
    """Byte for byte: where it did not, each look would write."""
    first, second = objects(of), objects(WorkspaceSpec.model_validate(of.model_dump(by_alias=True, exclude_none=True)))
    assert json.dumps([o.body for o in first.values()]) == json.dumps([o.body for o in second.values()])


@pytest.mark.parametrize(
    "change",
    [
        {"claimTTLSeconds": 31},
        {"runner": {"replicas": 0}},
        {"suspend": True},
        {"handler": {"echo": {"delaySeconds": 1}}},
        {"turn": {"maxAttempts": 4}},
        {"runner": {"env": [{"name": "A"}]}},
    ],
)
def test_each_change_of_a_spec_changes_the_workload_and_nothing_else(change: dict[str, Any]) -> None:
    """Its mark tells, also of a field that is asked for no more; and what is around it is left alone."""
    before, after = objects(PLAIN), objects(spec(**change))
    changed = {kind for kind in before if before[kind].mark != after[kind].mark}
    assert changed == {"StatefulSet"}


def test_a_change_of_the_tokens_starts_runners_anew() -> None:
    """They read them once."""
    one, other = objects(PLAIN, tokens_mark="a")["StatefulSet"], objects(PLAIN, tokens_mark="b")["StatefulSet"]
    assert one.body["spec"]["template"] != other.body["spec"]["template"]


@pytest.mark.parametrize("of", [PLAIN, FULL])
def test_each_object_goes_with_its_workspace(of: WorkspaceSpec) -> None:
    """By owner reference, so that a deletion needs no controller; and nothing blocks it."""
    for owned in objects(of).values():
        [owner] = owned.body["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == ("Workspace", "first", UID, True)
        assert "blockOwnerDeletion" not in owner
        assert owned.body["metadata"]["labels"].items() >= NAMES.selector.items()


@pytest.mark.parametrize("of", [PLAIN, FULL])
def test_pods_keep_the_restricted_standard(of: WorkspaceSpec) -> None:
    """Pod Security `restricted`, field by field, and a root that can't be written."""
    pod = pod_of(of)
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    allowed = {"projected", "downwardAPI", "emptyDir", "persistentVolumeClaim", "secret", "configMap", "name"}
    assert all(volume.keys() <= allowed for volume in pod["volumes"])


@pytest.mark.parametrize("of", [PLAIN, FULL])
def test_the_account_s_token_is_projected_and_short_lived(of: WorkspaceSpec) -> None:
    """No token is mounted by default, and the one that is renews itself."""
    pod = pod_of(of)
    assert pod["automountServiceAccountToken"] is False
    sources = next(v["projected"]["sources"] for v in pod["volumes"] if v["name"] == "turnkeeper-account")
    assert sources[0]["serviceAccountToken"]["expirationSeconds"] <= 3600


def test_the_pod_s_own_settings_hold_no_secret() -> None:
    """They are an annotation, which many may read; secrets come from Secrets alone, by name."""
    template = objects(FULL)["Deployment"].body["spec"]["template"]
    told = json.loads(template["metadata"]["annotations"][SETTINGS_ANNOTATION])
    assert Settings(**told).workspace == UID
    assert "api_key" not in told["handler"]["chat"]
    assert "journal" not in told
    variables = {each["name"]: each for each in template["spec"]["containers"][0]["env"]}
    for name, secret in (
        ("TURNKEEPER_AUTH__TOKENS", "first-tokens"),
        ("TURNKEEPER_JOURNAL__POSTGRES__URL", "database"),
        ("TURNKEEPER_HANDLER__CHAT__API_KEY", "models"),
    ):
        assert variables[name]["valueFrom"]["secretKeyRef"]["name"] == secret


def test_what_a_person_adds_to_the_pod_is_in_it() -> None:
    """Each field of podTemplate and env, beside the runner's own."""
    template = objects(FULL)["Deployment"].body["spec"]["template"]
    pod, [container] = template["spec"], template["spec"]["containers"]
    asked = RICH["runner"]["podTemplate"]
    assert template["metadata"]["labels"]["team"] == "blue"
    assert template["metadata"]["annotations"]["note"] == "mine"
    for name in ("nodeSelector", "tolerations", "priorityClassName", "runtimeClassName", "imagePullSecrets"):
        assert pod[name] == asked[name], name
    assert {"emptyDir": {}, "name": "x"} in pod["volumes"]
    assert {"name": "model", "mountPath": "/srv/model", "readOnly": True} in container["volumeMounts"]
    assert container["env"][-2:] == RICH["runner"]["env"]
    assert (container["image"], container["imagePullPolicy"]) == ("my/agent:7", "Always")
    assert container["resources"]["limits"] == {"memory": "1Gi", "cpu": 2}


def test_a_person_can_not_take_the_runner_s_own_labels() -> None:
    """The selector's labels win: a pod that is not found would never be asked."""
    of = spec(runner={"podTemplate": {"labels": {"turnkeeper.dev/workspace-uid": "x"}}})
    assert objects(of)["StatefulSet"].body["spec"]["template"]["metadata"]["labels"].items() >= NAMES.selector.items()


@pytest.mark.parametrize(
    ("changes", "least"),
    [
        ({}, 20 + 10),
        ({"runner": {"drainSeconds": 300}}, 300 + 10),
        ({"handler": {"exec": {"command": ["x"], "killGraceSeconds": 60}}}, 20 + 60 + 6),
    ],
)
def test_the_grace_period_covers_a_runner_s_end(changes: dict[str, Any], least: int) -> None:
    """Turns end, what is cut cleans up, claims are released and connections close, all before the KILL."""
    seconds = grace_seconds(spec(**changes))
    assert least + 10 <= seconds <= least + 25
    assert pod_of(spec(**changes))["terminationGracePeriodSeconds"] == seconds


def test_one_runner_of_sqlite_does_not_wait_for_others_to_be_called() -> None:
    """A runner of PostgreSQL that stops accepts what still comes, for others to take; a single one has no other."""
    assert PLAIN.settings("x")["runner"]["leave_seconds"] == 0
    assert FULL.settings("x")["runner"]["leave_seconds"] > 0
    assert (
        "lifecycle" not in pod_of(FULL)["containers"][0]
    )  # a pause before its SIGTERM would hold its claims for so long


@pytest.mark.parametrize("ttl", [3, 30, 600])
def test_a_handler_that_holds_the_interpreter_for_two_ttls_is_not_killed(ttl: int) -> None:
    """It costs claims, as it must, and not the process (S06)."""
    probe = pod_of(spec(claimTTLSeconds=ttl))["containers"][0]["livenessProbe"]
    assert probe["periodSeconds"] * (probe["failureThreshold"] - 1) >= 2 * ttl


def test_sqlite_has_one_pod_and_its_volume() -> None:
    """A StatefulSet: never two on one file; the volume outlives the Workspace unless it says otherwise."""
    made = objects(spec(journal={"sqlite": {"size": "5Gi", "storageClassName": "fast"}}))
    assert "Deployment" not in made
    body = made["StatefulSet"].body["spec"]
    [claim] = body["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "5Gi"
    assert claim["spec"]["storageClassName"] == "fast"
    assert body["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Retain"
    told = json.loads(body["template"]["metadata"]["annotations"][SETTINGS_ANNOTATION])
    mounts = {mount["name"]: mount["mountPath"] for mount in body["template"]["spec"]["containers"][0]["volumeMounts"]}
    assert told["journal"]["sqlite"]["path"].startswith(mounts[claim["metadata"]["name"]] + "/")


def test_suspend_stops_runners_and_keeps_all_else() -> None:
    """The replicas are none; every object is still asked for."""
    before, after = objects(FULL), objects(WorkspaceSpec.model_validate({**RICH, "suspend": True}))
    assert before.keys() == after.keys()
    assert (before["Deployment"].body["spec"]["replicas"], after["Deployment"].body["spec"]["replicas"]) == (3, 0)


def _served(body: dict[str, Any]) -> dict[str, Any]:
    """An object as the API server would give it: with more in it, and what is empty left out."""
    actual = copy.deepcopy(body)
    actual["metadata"] |= {"uid": "1", "resourceVersion": "7"}
    container = actual["spec"]["template"]["spec"]["containers"][0]
    container["terminationMessagePath"] = "/dev/termination-log"
    if not container["resources"]["limits"]:
        del container["resources"]["limits"]
    actual["status"] = {"replicas": 1}
    return actual


def test_what_the_server_adds_is_no_difference() -> None:
    """Or each look would write."""
    owned = objects(PLAIN)["StatefulSet"]
    assert not differs(owned, _served(dict(owned.body)))


@pytest.mark.parametrize(
    "path",
    [
        ("spec", "replicas"),
        ("spec", "template", "spec", "containers", 0, "image"),
        ("spec", "template", "spec", "containers", 0, "env", 0, "name"),
        ("spec", "template", "spec", "securityContext", "runAsNonRoot"),
        ("metadata", "labels", "turnkeeper.dev/workspace"),
        ("metadata", "annotations", "turnkeeper.dev/applied"),
        ("metadata", "ownerReferences", 0, "uid"),
    ],
)
def test_what_somebody_changed_is_a_difference(path: tuple[str | int, ...]) -> None:
    """Wherever it is; and so is what was taken out."""
    owned = objects(PLAIN)["StatefulSet"]
    for is_removed in (False, True):
        actual = _served(dict(owned.body))
        at: Any = actual
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = "other"
        if is_removed:
            del at[path[-1]]
        assert differs(owned, actual), (path, is_removed)


def test_a_label_more_to_select_by_is_a_difference() -> None:
    """It would route calls to nobody; and what makes it right says which key to take out."""
    owned = objects(PLAIN)["Service"]
    actual = copy.deepcopy(dict(owned.body))
    actual["metadata"] |= {"labels": {**owned.body["metadata"]["labels"], "theirs": "x"}}
    assert not differs(owned, actual)
    actual["spec"]["selector"]["more"] = "x"
    assert differs(owned, actual)
    patch = overlay(owned, actual)
    assert patch["spec"]["selector"] == {**owned.body["spec"]["selector"], "more": None}
    assert "theirs" not in patch["metadata"]["labels"]


def test_a_container_that_somebody_added_is_a_difference() -> None:
    """It would run beside the runner, with its volumes."""
    owned = objects(PLAIN)["StatefulSet"]
    actual = _served(dict(owned.body))
    actual["spec"]["template"]["spec"]["containers"].append({"name": "guest", "image": "x"})
    assert differs(owned, actual)

"""A person changes, suspends and deletes Workspaces while turns run: nothing that was accepted is lost by it."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.cluster.processes import wait_until
from tests.e2e.workspaces import SQLITE, CallError, Place, Workspace, outcomes, spec

LONG_SECONDS = 60
"""A turn that no drain of these tests waits for: they give 5 s."""

SHORT_SECONDS = 3
"""A turn that a drain waits for."""


def burst(workspace: Workspace, threads: int, *, prefix: str = "t") -> dict[str, str]:
    """Send one message to each of so many threads; the message ids by thread."""
    return {f"{prefix}{number}": workspace.send(f"{prefix}{number}", "work") for number in range(threads)}


def assert_all_answered(workspace: Workspace, sent: dict[str, str]) -> None:
    """Each message was taken by a run that completed, and the journal keeps every invariant."""
    for thread, message_id in sent.items():
        workspace.wait_taken(thread, message_id)
        workspace.wait_state(thread, "idle")
        assert list(outcomes(workspace.log(thread)).values())[-1] == "completed"
    workspace.verify()


def change(workspace: Workspace, patch: dict[str, object]) -> None:
    """Change a Workspace's spec as `kubectl patch` does."""
    body = json.dumps({"spec": patch})
    workspace.place.kubectl("patch", "workspace", workspace.name, "--type=merge", f"--patch={body}")


def wait_runners(workspace: Workspace, count: int) -> None:
    """Wait until there are so many runners, none of them ending."""
    wait_until(lambda: len(workspace.runners()) == count, f"there are {count} runners", seconds=60)


def test_runners_are_scaled_down_under_load(place: Place) -> None:
    """3 → 1 by the scale subresource, with turns on all: each is finished or given away, none is lost."""
    workspace = place.apply("orders", spec(handler={"echo": {"delaySeconds": SHORT_SECONDS}}, replicas=3)).wait_ready()
    sent = burst(workspace, 12)
    place.kubectl("scale", "workspace", "orders", "--replicas=1")
    wait_runners(workspace, 1)
    sent |= burst(workspace, 4, prefix="after")
    assert_all_answered(workspace, sent)


def test_a_rolling_update_interrupts_what_is_too_long_and_loses_nothing(place: Place) -> None:
    """Short turns end as they are, the long one is begun again by a new runner, and calls are answered throughout."""
    workspace = place.apply("orders", spec(handler={"echo": {"delaySeconds": SHORT_SECONDS}})).wait_ready()
    before = {pod["metadata"]["uid"] for pod in workspace.runners()}
    sent = burst(workspace, 6)
    change(workspace, {"runner": {"env": [{"name": "REVISION", "value": "2"}]}})
    during: dict[str, str] = {}

    def rolled() -> bool:
        """Send one more message, and say whether every runner is a new one."""
        during.update(burst(workspace, 1, prefix=f"during{len(during)}-"))
        return not before & {pod["metadata"]["uid"] for pod in workspace.runners()}

    wait_until(rolled, "every runner is a new one", seconds=120)
    assert_all_answered(workspace, sent | during)


def test_a_turn_longer_than_the_grace_is_begun_again_elsewhere(place: Place) -> None:
    """A rolling update interrupts it, which is not charged to it."""
    workspace = place.apply("orders", spec(handler={"echo": {"delaySeconds": LONG_SECONDS}})).wait_ready()
    message_id = workspace.send("alice", "long")
    workspace.wait_taken("alice", message_id)
    change(workspace, {"runner": {"env": [{"name": "REVISION", "value": "2"}]}})
    wait_until(lambda: len(outcomes(workspace.log("alice"))) >= 1, "the run has ended", seconds=60)
    assert set(outcomes(workspace.log("alice")).values()) == {"interrupted"}
    workspace.wait_state("alice", "running")
    assert workspace.thread("alice")["parked"] == 0


def test_a_suspended_workspace_keeps_everything_and_goes_on(place: Place) -> None:
    """`suspend: true` stops every runner; once it is off, what waited is taken."""
    workspace = place.apply(
        "orders", spec(handler={"echo": {"delaySeconds": LONG_SECONDS}}, journal=SQLITE, replicas=1)
    )
    workspace.wait_ready()
    message_id = workspace.send("alice", "keep this")
    workspace.wait_taken("alice", message_id)
    change(workspace, {"suspend": True, "handler": {"echo": {"delaySeconds": 0}}})
    wait_runners(workspace, 0)
    change(workspace, {"suspend": False})
    workspace.wait_ready()
    assert_all_answered(workspace, {"alice": message_id})


def test_a_deleted_workspace_leaves_nothing_behind(place: Place) -> None:
    """Deleted in mid-turn: its pods, Service, Secret and Leases go; one made again under the name begins anew."""
    asked = spec(handler={"echo": {"delaySeconds": LONG_SECONDS}})
    workspace = place.apply("orders", asked).wait_ready()
    workspace.wait_taken("alice", workspace.send("alice", "for nothing"))
    uid = workspace.get()["metadata"]["uid"]
    place.kubectl("delete", "workspace", "orders", "--timeout=60s")

    def left() -> str:
        kinds = "pods,services,secrets,leases,deployments,roles,rolebindings,serviceaccounts,poddisruptionbudgets"
        found = place.kubectl("get", kinds, "--output=name").split()
        own = {"pod/database", "service/database", "secret/database", "serviceaccount/default"}
        return " ".join(sorted(set(found) - own))

    wait_until(lambda: not left(), "nothing of the Workspace is left", seconds=90)
    again = place.apply("orders", asked).wait_ready()
    assert again.get()["metadata"]["uid"] != uid
    with pytest.raises(CallError, match="404"):
        again.thread("alice")


@pytest.fixture(params=["no journal", "two handlers", "SQLite for three"])
def refused_spec(request: pytest.FixtureRequest) -> tuple[dict[str, object], str]:
    """A spec that must not get in, and a word of what its author is told."""
    good = spec(handler={"echo": {}})
    cases: dict[str, tuple[dict[str, object], str]] = {
        "no journal": ({**good, "journal": {}}, "exactly one of"),
        "two handlers": ({**good, "handler": {"echo": {}, "exec": {"command": ["true"]}}}, "exactly one of"),
        "SQLite for three": ({**good, "journal": SQLITE, "runner": {"replicas": 3}}, "one runner"),
    }
    return cases[request.param]


def test_a_spec_that_can_not_be_is_refused_with_the_reason(
    place: Place, refused_spec: tuple[dict[str, object], str]
) -> None:
    """The API server refuses it at `kubectl apply`, in words that say what to do."""
    asked, told = refused_spec
    with pytest.raises(subprocess.CalledProcessError) as raised:
        place.apply("wrong", asked)
    assert told in str(raised.value.__notes__)


def test_a_workspace_that_can_not_start_says_why_and_harms_no_other(place: Place) -> None:
    """A Secret that is not there: `kubectl describe` names it, and the Workspace beside it answers."""
    missing = {"postgres": {"urlSecretRef": {"name": "nowhere", "key": "url"}}}
    bad = place.apply("bad", spec(handler={"echo": {}}, journal=missing))
    good = place.apply("good", spec(handler={"echo": {}})).wait_ready()
    assert_all_answered(good, burst(good, 2))
    wait_until(lambda: "nowhere" in bad.describe().partition("NAME")[0], "the reason is shown", seconds=60)
    place.kubectl(
        "create", "secret", "generic", "nowhere", "--from-literal=url=postgresql://postgres@database/postgres"
    )
    assert_all_answered(bad.wait_ready(), burst(bad, 2))

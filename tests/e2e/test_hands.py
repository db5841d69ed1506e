"""Leases edited, made or dated by hand, and clocks that differ by hours (S08, S11): nothing hangs on any of it."""

from __future__ import annotations

import json

import pytest

from tests.cluster.processes import wait_until
from tests.e2e.test_deaths import TURN_SECONDS, started
from tests.e2e.victims import kill
from tests.e2e.workspaces import TTL_SECONDS, Place, Workspace, is_ready, noted, outcomes, spec
from tests.soak.waiting import CLOCK
from turnkeeper.adapters.kube import lease_records as records
from turnkeeper.core.values import Claim

EDITS = {
    "a session that lasts for ever": ("session", {"leaseDurationSeconds": 2147483647}),
    "a session without a time": ("session", {"renewTime": None}),
    "a claim of nobody's": ("claim", {"holderIdentity": "somebody" * 625}),
    "a claim without a holder": ("claim", {"holderIdentity": ""}),
    "a claim with a token of long ago": ("claim", {"leaseTransitions": 0}),
}
"""What a hand may do to a Lease, and to which kind."""

DAYS_MS = 2 * 24 * 3600 * 1000

SKEW_SECONDS = 3600

SKEWED = f"""\
import os, time, zlib
seconds = {SKEW_SECONDS} if zlib.crc32(os.environ["HOSTNAME"].encode()) % 2 else -{SKEW_SECONDS}
real, real_ns = time.time, time.time_ns
time.time = lambda: real() + seconds
time.time_ns = lambda: real_ns() + seconds * 10**9
"""
"""What Python reads at its start, if it is found: a runner's wall clock is an hour ahead or behind, by its name."""


def lease_of(workspace: Workspace, thread: str, kind: str) -> str:
    """The name of a running thread's claim, or of its holder's session."""
    claim = workspace.claim(thread)
    if kind == "claim":
        return str(claim["metadata"]["name"])
    session = claim["spec"]["holderIdentity"]
    return next(
        str(lease["metadata"]["name"]) for lease in workspace.leases("session") if noted(lease, "session") == session
    )


@pytest.mark.parametrize("edit", list(EDITS))
def test_an_edited_lease_frees_and_freezes_nothing(place: Place, edit: str) -> None:
    """Edited in mid-turn, and its holder killed then: there was one writer at a time, and what waited is taken."""
    workspace = place.apply("orders", spec(handler={"echo": {"delaySeconds": TURN_SECONDS}})).wait_ready()
    victim = started(workspace, "alice")
    waiting = workspace.send("alice", "and this", mode="queue")
    kind, fields = EDITS[edit]
    patch = json.dumps({"spec": fields})
    place.kubectl("patch", "lease", lease_of(workspace, "alice", kind), "--type=merge", f"--patch={patch}")
    kill(place.site, victim)
    workspace.wait_taken("alice", waiting, seconds=3 * TTL_SECONDS)
    workspace.wait_state("alice", "idle")
    assert list(outcomes(workspace.log("alice")).values())[-1] == "completed"
    workspace.verify()


@pytest.mark.parametrize("renewed_ms", [DAYS_MS, -DAYS_MS])
def test_a_dead_holder_is_waited_for_by_nobody_elses_clock(place: Place, renewed_ms: int) -> None:
    """A session and a claim of nobody's, dated in two days or two days ago: taken over after a ttl, and not before."""
    workspace = place.apply("orders", spec(handler={"echo": {}})).wait_ready()
    there = records.Place(namespace=place.namespace, workspace="orders", uid=workspace.get()["metadata"]["uid"])
    now_ms = CLOCK.wall_ms()
    session = records.session_lease(there, "dead", "nobody", TTL_SECONDS, now_ms + renewed_ms)
    dead = Claim(session="dead", token=7, nonce="n")
    claim = records.claim_lease(there, "alice", dead, now_ms, runner="nobody", seen=None)
    for lease in (session, claim):
        place.kubectl("create", "--filename=-", stdin=json.dumps(lease))
    message_id = workspace.send("alice", "hello")
    workspace.wait_taken("alice", message_id, seconds=2 * TTL_SECONDS)
    workspace.wait_state("alice", "idle")
    start = next(entry for entry in workspace.log("alice") if entry["kind"] == "run_started")
    assert start["created_ms"] >= now_ms + TTL_SECONDS * 1000
    assert start["token"] > dead.token
    workspace.verify()


def test_runners_whose_clocks_differ_by_hours_agree(place: Place) -> None:
    """One an hour ahead, one an hour behind: no live claim is taken, and the killed one's turn goes on at the other."""
    place.kubectl("create", "configmap", "skew", f"--from-literal=sitecustomize.py={SKEWED}")
    asked = spec(handler={"echo": {"delaySeconds": 1.5 * TTL_SECONDS}})
    asked["runner"]["env"] = [{"name": "PYTHONPATH", "value": "/skew"}]
    asked["runner"]["podTemplate"] = {
        "volumes": [{"name": "skew", "configMap": {"name": "skew"}}],
        "volumeMounts": [{"name": "skew", "mountPath": "/skew"}],
    }
    workspace = place.apply("orders", asked).wait_ready()
    wait_until(lambda: are_apart(workspace), "one is ahead and one behind", seconds=120)
    victim = started(workspace, "alice")
    started(workspace, "bob")
    waiting = workspace.send("alice", "and this", mode="queue")
    workspace.wait_taken("alice", waiting, seconds=4 * TTL_SECONDS)
    assert list(outcomes(workspace.log("alice")).values()) == ["completed"]
    kill(place.site, victim)
    for thread in ("alice", "bob"):
        workspace.wait_state(thread, "idle", seconds=6 * TTL_SECONDS)
    assert sorted(outcomes(workspace.log("alice")).values()) == ["abandoned", "completed", "completed"]
    workspace.verify()


def are_apart(workspace: Workspace) -> bool:
    """Whether both runners are ready and differ by hours; one of two that don't is thrown away, for another name."""
    pods = workspace.runners()
    if len(pods) != 2 or not all(map(is_ready, pods)):
        return False
    command = ["--", "/opt/turnkeeper/bin/python3", "-c", "import time; print(time.time())"]
    clocks = [float(workspace.place.kubectl("exec", pod["metadata"]["name"], *command)) for pod in pods]
    if abs(clocks[0] - clocks[1]) > SKEW_SECONDS:
        return True
    workspace.place.kubectl("delete", "pod", pods[0]["metadata"]["name"])
    return False

"""Leases edited by hand, a silent database, one runner on SQLite killed again and again: nothing hangs on any of it."""

from __future__ import annotations

import json
from functools import partial

import pytest

from tests.cluster.processes import wait_until
from tests.e2e.test_changes import assert_all_answered, burst
from tests.e2e.test_deaths import TURN_SECONDS, started
from tests.e2e.victims import kill, paused
from tests.e2e.workspaces import SQLITE, TTL_SECONDS, Place, Workspace, noted, outcomes, spec

EDITS = {
    "a session that lasts for ever": ("session", {"leaseDurationSeconds": 2147483647}),
    "a session without a time": ("session", {"renewTime": None}),
    "a claim of nobody's": ("claim", {"holderIdentity": "somebody"}),
    "a claim with a token of long ago": ("claim", {"leaseTransitions": 0}),
}
"""What a hand may do to a Lease, and to which kind."""

KILLS = 3
"""How often in a row: the kubelet waits longer each time before it starts a container again."""


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


def test_a_database_that_falls_silent_costs_no_message_and_no_pod(place: Place) -> None:
    """Its sockets stay open and nothing answers: runners say that they are not ready, and go on once it does."""
    workspace = place.apply("orders", spec(handler={"echo": {"delaySeconds": 2}})).wait_ready()
    sent = burst(workspace, 6)
    database = json.loads(place.kubectl("get", "pod", "database", "--output=json"))
    with paused(place.site, database):
        wait_until(
            lambda: workspace.get()["status"]["readyReplicas"] == 0, "no runner says that it is ready", seconds=90
        )
    workspace.wait_ready()
    assert_all_answered(workspace, sent | burst(workspace, 4, prefix="after"))
    counts = [pod["status"]["containerStatuses"][0]["restartCount"] for pod in workspace.runners()]
    assert counts == [0, 0]


def test_a_runner_on_sqlite_is_killed_again_and_again(place: Place) -> None:
    """Each time in the midst of its writes: the file stays whole, and the next life takes what was owed."""
    workspace = place.apply("orders", spec(handler={"echo": {"delaySeconds": 1}}, journal=SQLITE, replicas=1))
    workspace.wait_ready()
    sent: dict[str, str] = {}
    for number in range(KILLS):
        sent |= burst(workspace, 4, prefix=f"life{number}-")
        (pod,) = workspace.runners()
        kill(place.site, pod)
        wait_until(partial(has_lived, workspace, number + 2), "the container is there again", seconds=60)
    assert_all_answered(workspace, sent)


def has_lived(workspace: Workspace, lives: int) -> bool:
    """Whether a lone runner's container is ready in so many lives or more."""
    (pod,) = workspace.runners()
    status = pod["status"]["containerStatuses"][0]
    return bool(status["ready"] and status["restartCount"] + 1 >= lives)

"""A runner dies, is deleted or freezes in mid-turn: what was asked is taken by another, and the journal is right."""

from __future__ import annotations

from tests.cluster.processes import wait_until
from tests.e2e.victims import freeze, kill, thaw
from tests.e2e.workspaces import LONG_AT_FIRST, TTL_SECONDS, Json, Place, Workspace, outcomes, spec
from tests.soak.waiting import PATIENCE

TURN_SECONDS = 10
"""How long a turn takes here. Arbitrary: longer than it takes to kill its runner from outside."""

UNHEARD_TTL_SECONDS = 240
"""The ttl where nobody may learn of an end by its running out: twice as long as what is waited for."""

DISOWNED = '{"metadata": {"ownerReferences": null}}'


def started(workspace: Workspace, thread: str) -> Json:
    """Send a message and return the pod that runs its turn, once it does."""
    message_id = workspace.send(thread, "long")
    workspace.wait_taken(thread, message_id)
    workspace.wait_state(thread, "running")
    return workspace.holder(thread)


def owner(lease: Json) -> str:
    """The uid of the object that takes a Lease along as it goes."""
    return str(lease["metadata"]["ownerReferences"][0]["uid"])


def assert_taken_over(workspace: Workspace, thread: str, waiting: str, *, outcome: str) -> None:
    """The waiting message has its fate, the broken run its end, and the journal keeps every invariant."""
    receipt = workspace.wait_taken(thread, waiting, seconds=2 * TTL_SECONDS)
    workspace.wait_state(thread, "idle")
    ends = outcomes(workspace.log(thread))
    assert outcome in ends.values()
    assert ends[receipt["run_id"]] == "completed"
    workspace.verify()


def waited_seconds(workspace: Workspace, thread: str, outcome: str) -> float:
    """From the end of the run that ended so to the start of the next, by the journal's times of one machine."""
    log = workspace.log(thread)
    ended = next(place for place, entry in enumerate(log) if entry["body"].get("outcome") == outcome)
    following = next(entry for entry in log[ended:] if entry["kind"] == "run_started")
    return float(following["created_ms"] - log[ended]["created_ms"]) / 1000


def test_a_workspace_is_installed_ready_and_answers(place: Place) -> None:
    """From `kubectl apply` to a message answered, and kubectl shows the Workspace, its runners and its session."""
    workspace = place.apply("orders", spec(handler={"echo": {}})).wait_ready()
    message_id = workspace.send("alice", "hello")
    assert workspace.wait_taken("alice", message_id)["fate"] == "started"
    workspace.wait_state("alice", "idle")
    assert list(outcomes(workspace.log("alice")).values()) == ["completed"]
    shown = place.kubectl("get", "tkws")
    assert "orders" in shown
    assert "True" in shown
    assert len(workspace.runners()) == 2
    assert len(workspace.leases("session")) == 2
    workspace.verify()


def test_a_killed_container_costs_its_run_and_no_message(place: Place) -> None:
    """SIGKILL in mid-turn with a message waiting: the other runner takes both."""
    workspace = place.apply("orders", spec(handler={"echo": {"delaySeconds": TURN_SECONDS}})).wait_ready()
    victim = started(workspace, "alice")
    waiting = workspace.send("alice", "and this", mode="queue")
    kill(place.site, victim)
    assert_taken_over(workspace, "alice", waiting, outcome="abandoned")


def test_a_deleted_pod_gives_its_turns_away_before_it_ends(place: Place) -> None:
    """`kubectl delete pod` in mid-turn: the run is interrupted, not abandoned, and the successor starts at once."""
    workspace = place.apply("orders", spec(handler={"echo": {"delaySeconds": 20}})).wait_ready()
    victim = started(workspace, "alice")
    waiting = workspace.send("alice", "and this", mode="queue")
    place.kubectl("delete", "pod", str(victim["metadata"]["name"]), "--wait=false")
    assert_taken_over(workspace, "alice", waiting, outcome="interrupted")
    assert (
        waited_seconds(workspace, "alice", "interrupted") < TTL_SECONDS / 2
    )  # nobody has waited for a session to expire


def test_a_deleted_pod_gives_its_claims_back_itself(place: Place) -> None:
    """Nothing else would tell of its end: no peers, a session that does not go with its pod, a ttl of minutes."""
    asked = {**spec(handler=LONG_AT_FIRST), "claimTTLSeconds": UNHEARD_TTL_SECONDS}
    asked["runner"]["peers"] = False
    workspace = place.apply("orders", asked).wait_ready()
    victim = started(workspace, "alice")
    waiting = workspace.send("alice", "and this", mode="queue")
    session = next(lease for lease in workspace.leases("session") if owner(lease) == victim["metadata"]["uid"])
    place.kubectl("patch", "lease", session["metadata"]["name"], "--type=merge", f"--patch={DISOWNED}")
    place.kubectl("delete", "pod", str(victim["metadata"]["name"]), "--wait=false")
    workspace.wait_taken("alice", waiting, seconds=UNHEARD_TTL_SECONDS / PATIENCE / 2)
    assert_taken_over(workspace, "alice", waiting, outcome="interrupted")


def test_a_frozen_runner_wakes_to_find_its_writes_refused(place: Place) -> None:
    """SIGSTOP past the ttl, SIGCONT once another has started the turn: one end for each run, nothing stale after it."""
    workspace = place.apply("orders", spec(handler={"echo": {"delaySeconds": TURN_SECONDS}})).wait_ready()
    victim = started(workspace, "alice")
    pid = freeze(place.site, victim)
    try:
        waiting = workspace.send("alice", "and this", mode="queue")
        wait_until(
            lambda: sum(entry["kind"] == "run_started" for entry in workspace.log("alice")) >= 2,
            "another runner has started the turn again",
            seconds=2 * TTL_SECONDS,
        )
    finally:
        thaw(pid)
    assert_taken_over(workspace, "alice", waiting, outcome="abandoned")

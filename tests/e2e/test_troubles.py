"""The controller, the API server, the database or a Lease is gone for a while: turns go on, or are taken up after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cluster.control_plane import is_ready
from tests.cluster.processes import wait_until
from tests.e2e.releases import without_controller
from tests.e2e.site import Site
from tests.e2e.test_deaths import TURN_SECONDS, assert_taken_over, started
from tests.e2e.victims import kill
from tests.e2e.workspaces import LONG_AT_FIRST, TTL_SECONDS, Place, outcomes, spec

SHORT_TTL_SECONDS = 10
"""The ttl where it is to run out."""


@contextmanager
def without_api_server(site: Site) -> Iterator[None]:
    """Stop the API server for the while."""
    if site.machine is None:
        pytest.skip("only the API server of this machine's own cluster can be stopped")
    plane = site.machine.plane
    plane.processes.stop("kube-apiserver")
    try:
        yield
    finally:
        plane.processes.start_again("kube-apiserver", lambda: is_ready(plane.server, plane.certificates))


@pytest.mark.release
def test_a_runner_that_dies_without_a_controller_costs_nothing(place: Place) -> None:
    """The runners find it among themselves; the controller that comes back sweeps and finds nothing to do."""
    workspace = place.apply("orders", spec(handler={"echo": {"delaySeconds": TURN_SECONDS}})).wait_ready()
    with without_controller(place.site):
        victim = started(workspace, "alice")
        waiting = workspace.send("alice", "and this", mode="queue")
        kill(place.site, victim)
        workspace.wait_taken("alice", waiting, seconds=3 * TTL_SECONDS)
    assert_taken_over(workspace, "alice", waiting, outcome="abandoned")


def test_a_claim_that_is_deleted_by_hand_leads_to_one_writer(place: Place) -> None:
    """`kubectl delete lease` of the claim in mid-turn: the turn ends once, and what waited is taken."""
    workspace = place.apply("orders", spec(handler={"echo": {"delaySeconds": TURN_SECONDS}})).wait_ready()
    started(workspace, "alice")
    waiting = workspace.send("alice", "and this", mode="queue")
    place.kubectl("delete", "lease", workspace.claim("alice")["metadata"]["name"])
    workspace.wait_taken("alice", waiting, seconds=3 * TTL_SECONDS)
    workspace.wait_state("alice", "idle")
    workspace.verify()


def test_a_session_that_is_deleted_by_hand_is_a_death_notice(place: Place) -> None:
    """`kubectl delete lease` of the session in mid-turn: its runs end abandoned or interrupted, and all is taken."""
    workspace = place.apply("orders", spec(handler={"echo": {"delaySeconds": TURN_SECONDS}})).wait_ready()
    victim = started(workspace, "alice")
    waiting = workspace.send("alice", "and this", mode="queue")
    own = [
        lease["metadata"]["name"]
        for lease in workspace.leases("session")
        if lease["metadata"]["ownerReferences"][0]["uid"] == victim["metadata"]["uid"]
    ]
    place.kubectl("delete", "lease", *own)
    workspace.wait_taken("alice", waiting, seconds=3 * TTL_SECONDS)
    workspace.wait_state("alice", "idle")
    assert list(outcomes(workspace.log("alice")).values())[-1] == "completed"
    workspace.verify()


@pytest.mark.alone
def test_an_api_server_that_is_away_for_less_than_a_ttl_costs_no_turn(place: Place) -> None:
    """Renewals fail for a while; the holder keeps its thread, and each run ends completed."""
    workspace = place.apply("orders", spec(handler={"echo": {"delaySeconds": TURN_SECONDS}})).wait_ready()
    started(workspace, "alice")
    with without_api_server(place.site):
        pass  # stopping it and starting it again takes a few seconds
    workspace.wait_state("alice", "idle")
    assert set(outcomes(workspace.log("alice")).values()) == {"completed"}
    workspace.verify()


@pytest.mark.alone
def test_an_api_server_that_is_away_for_longer_stops_the_holder_in_time(place: Place) -> None:
    """Past its ttl the holder ends its run by itself, nobody claims meanwhile, and afterwards the turn is taken."""
    asked = {**spec(handler=LONG_AT_FIRST), "claimTTLSeconds": SHORT_TTL_SECONDS}
    workspace = place.apply("orders", asked).wait_ready()
    started(workspace, "alice")
    with without_api_server(place.site):
        wait_until(
            lambda: list(outcomes(workspace.log("alice")).values()) == ["interrupted"],
            "the holder has ended its run",
            seconds=2 * SHORT_TTL_SECONDS,
        )
        assert workspace.thread("alice")["state"] == "owed"
    workspace.wait_state("alice", "idle")
    assert list(outcomes(workspace.log("alice")).values()) == ["interrupted", "completed"]
    workspace.verify()


def test_a_namespace_is_deleted_whole_in_mid_turn(place: Place) -> None:
    """`kubectl delete namespace` ends although turns run, and although the Workspace and its database go at once."""
    workspace = place.apply("orders", spec(handler={"echo": {"delaySeconds": 60}})).wait_ready()
    started(workspace, "alice")
    place.site.kubectl("delete", "namespace", place.namespace, "--timeout=3m")

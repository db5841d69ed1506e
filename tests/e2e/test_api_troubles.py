"""Renewals can't get through (S04): a connection falls silent, writes are slow, refused, failed or denied for a while.

For less than a ttl that costs no turn. For longer it stops the holder in time, nobody begins meanwhile, and the turn
goes on once.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from tests.cluster.processes import wait_until
from tests.e2e.network import api_ports, detour, dropped, from_pod
from tests.e2e.test_deaths import started
from tests.e2e.workspaces import LONG_AT_FIRST, TTL_SECONDS, Json, Place, Workspace, is_ready, noted, outcomes, spec
from tests.kube.fault_proxy import Delay, FaultProxy, Refuse, Trouble
from tests.soak.waiting import CLOCK

SHORT_TTL_SECONDS = 10
"""The ttl where it is to run out: three of them are waited for."""

LONG_TTL_SECONDS = 60
"""The ttl where it must not run out: a tenth of it is more than a busy machine is late by."""

RETRY_AFTER_SECONDS = 2.0

WRITES = ("POST", "PUT", "PATCH", "DELETE")
LEASES = "/leases"
ALWAYS = 1_000_000
"""Requests that meet trouble: more than come."""

PROBE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "probe"},
    "spec": {"holderIdentity": "nobody"},
}


def hold(seconds: float, since: float) -> None:
    """Let the trouble last until so many seconds have passed since then."""
    wait_until(lambda: CLOCK.monotonic() >= since + seconds, "the trouble has lasted", seconds=seconds)


def starts(log: list[Json]) -> list[Json]:
    """The entries by which runs began."""
    return [entry for entry in log if entry["kind"] == "run_started"]


def sessions(workspace: Workspace) -> set[str]:
    """The sessions that exist."""
    return {noted(lease, "session") for lease in workspace.leases("session")}


def assert_one_run(workspace: Workspace, thread: str) -> None:
    """The turn has had one run, which completed, and the journal keeps every invariant."""
    workspace.wait_state(thread, "idle", seconds=2 * LONG_TTL_SECONDS)
    log = workspace.log(thread)
    assert list(outcomes(log).values()) == ["completed"]
    assert len(starts(log)) == 1
    workspace.verify()


def troubled(proxy: FaultProxy, trouble: Trouble, *methods: str) -> None:
    """Let every request about Leases, or those of these methods, meet trouble until it is cleared."""
    for method in methods or ("GET", *WRITES):
        proxy.trouble(trouble, method, LEASES, times=ALWAYS)


@contextmanager
def denied(place: Place) -> Iterator[None]:
    """Have the API server refuse every write of a Lease in this namespace for the while, as a bad policy would."""
    name = f"no-leases-in-{place.namespace}"
    rule = {
        "apiGroups": ["coordination.k8s.io"],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": ["leases"],
    }
    kind = "ValidatingAdmissionPolicy"
    policy = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false", "message": "nobody writes Leases here", "reason": "Forbidden"}],
    }
    binding = {
        "policyName": name,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": place.namespace}}},
    }
    for made, asked in ((kind, policy), (f"{kind}Binding", binding)):
        manifest = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": made,
            "metadata": {"name": name},
            "spec": asked,
        }
        place.kubectl("apply", "--filename=-", stdin=json.dumps(manifest))
    try:
        wait_until(lambda: not may_write(place), "the policy is in force", seconds=30)
        yield
    finally:
        for made in (f"{kind}Binding", kind):
            place.kubectl("delete", made, name)
        wait_until(lambda: may_write(place), "the policy is gone", seconds=30)


def may_write(place: Place) -> bool:
    """Whether an administrator could make a Lease here."""
    try:
        place.kubectl("create", "--dry-run=server", "--filename=-", stdin=json.dumps(PROBE))
    except subprocess.CalledProcessError:
        return False
    return True


def test_a_connection_that_falls_silent_costs_no_turn(place: Place) -> None:
    """What was open to the API server swallows everything for two ttls and more: it is thrown away, and all goes on."""
    workspace = place.apply("orders", spec(handler={"echo": {"delaySeconds": 2.5 * TTL_SECONDS}})).wait_ready()
    holder = started(workspace, "alice")
    session = workspace.claim("alice")["spec"]["holderIdentity"]
    ports = api_ports(place.site, holder)
    assert ports
    with dropped(place.site, from_pod(holder, *ports, local=True)):
        wait_until(lambda: outcomes(workspace.log("alice")), "the run has ended", seconds=3 * TTL_SECONDS)
        assert session in sessions(workspace)
    assert_one_run(workspace, "alice")


def test_an_api_server_that_is_busy_for_most_of_a_ttl_costs_no_turn(place: Place) -> None:
    """429 for 0.8 ttl from a renewal on: what it asks for is obeyed on each connection, and the session lives on."""
    turn = {**spec(handler={"echo": {"delaySeconds": 1.2 * LONG_TTL_SECONDS}}), "claimTTLSeconds": LONG_TTL_SECONDS}
    workspace = place.apply("orders", turn).wait_ready()
    holder = started(workspace, "alice")
    with detour(place.site, holder) as proxy:  # yields as a renewal has come
        began = CLOCK.monotonic()
        troubled(proxy, Refuse(429, {"Retry-After": f"{RETRY_AFTER_SECONDS:.0f}"}))
        hold(0.8 * LONG_TTL_SECONDS, began)
        proxy.clear()
        ended = CLOCK.monotonic()
        assert_one_run(workspace, "alice")
        assert_obeyed(proxy, began, ended)


def assert_obeyed(proxy: FaultProxy, began: float, ended: float) -> None:
    """Some were refused, and no connection carried another request before the time was over that it was told of."""
    last: dict[int, float] = {}
    refused = [request for request in proxy.requests if LEASES in request.path and began < request.at_seconds < ended]
    assert refused
    for request in refused:
        assert request.at_seconds - last.get(request.connection, began - RETRY_AFTER_SECONDS) >= RETRY_AFTER_SECONDS
        last[request.connection] = request.at_seconds


def test_a_policy_that_denies_leases_for_less_than_a_ttl_costs_no_turn(place: Place) -> None:
    """Two renewals of the holder are refused, which its log says; it keeps its session, and the turn ends as it is."""
    turn = {**spec(handler={"echo": {"delaySeconds": 1.2 * LONG_TTL_SECONDS}}), "claimTTLSeconds": LONG_TTL_SECONDS}
    workspace = place.apply("orders", turn).wait_ready()
    holder = started(workspace, "alice")["metadata"]["name"]
    with denied(place):
        wait_until(
            lambda: place.kubectl("logs", holder).count("not renewed") >= 2, "two are refused", seconds=LONG_TTL_SECONDS
        )
    assert "nobody writes Leases here" in place.kubectl("logs", holder)
    assert_one_run(workspace, "alice")


@contextmanager
def slow(workspace: Workspace) -> Iterator[None]:
    """Each write of a Lease takes 0.9 ttl, and is done then."""
    with detour(workspace.place.site, *workspace.runners()) as proxy:
        troubled(proxy, Delay(0.9 * SHORT_TTL_SECONDS), "PUT", "PATCH")
        yield


@contextmanager
def busy(workspace: Workspace) -> Iterator[None]:
    """429 to everything about Leases."""
    with detour(workspace.place.site, *workspace.runners()) as proxy:
        troubled(proxy, Refuse(429, {"Retry-After": f"{RETRY_AFTER_SECONDS:.0f}"}))
        yield


@contextmanager
def broken(workspace: Workspace) -> Iterator[None]:
    """500 to everything about Leases."""
    with detour(workspace.place.site, *workspace.runners()) as proxy:
        troubled(proxy, Refuse(500))
        yield


@contextmanager
def forbidden(workspace: Workspace) -> Iterator[None]:
    """A policy denies every write of a Lease."""
    with denied(workspace.place):
        yield


@pytest.mark.parametrize("trouble", [slow, busy, broken, forbidden])
def test_trouble_for_three_ttls_stops_the_holder_in_time(
    place: Place, trouble: Callable[[Workspace], AbstractContextManager[None]]
) -> None:
    """The holder ends its run about a ttl after its last renewal; once all is well the turn goes on, once."""
    turn = {**spec(handler=LONG_AT_FIRST), "claimTTLSeconds": SHORT_TTL_SECONDS}
    workspace = place.apply("orders", turn).wait_ready()
    started(workspace, "alice")
    waiting = workspace.send("alice", "and this", mode="queue")
    with trouble(workspace):
        began, began_ms = CLOCK.monotonic(), CLOCK.wall_ms()
        if trouble is not slow:  # which lets a new session be opened, and a claim be taken late
            wait_until(lambda: not any(map(is_ready, workspace.runners())), "no runner is ready", seconds=60)
        hold(3 * SHORT_TTL_SECONDS, began)
        over_ms = CLOCK.wall_ms()
    workspace.wait_taken("alice", waiting)
    workspace.wait_state("alice", "idle")
    log = workspace.log("alice")
    ended = next(entry for entry in log if entry["kind"] == "run_ended")
    assert ended["body"]["outcome"] == "interrupted"
    assert ended["created_ms"] < began_ms + 2 * SHORT_TTL_SECONDS * 1000
    if trouble is not slow:
        assert starts(log)[1]["created_ms"] >= over_ms
    assert list(outcomes(log).values()).count("completed") == 2
    workspace.verify()

"""The controller is killed in mid-sweep, frozen, or away while Workspaces wait: the next finds and finishes all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from tests.cluster.processes import wait_until
from tests.e2e.network import api_server_port, connections, dropped, from_pod
from tests.e2e.releases import without_controller
from tests.e2e.site import RELEASE_NAMESPACE, Site
from tests.e2e.test_changes import assert_all_answered, burst, change, wait_runners
from tests.e2e.test_deaths import assert_taken_over, started
from tests.e2e.victims import freeze, kill, thaw
from tests.e2e.workspaces import LONG_AT_FIRST, TTL_SECONDS, Json, Place, Workspace, outcomes, spec
from turnkeeper.controller.runner_calls import SWEEP_LIMIT
from turnkeeper.settings.pod_variables import API_PORT

pytestmark = pytest.mark.release
"""One after another: each wants both controllers. Beside them other tests go on, which only wait longer then."""

GATE_SECONDS = 60
"""How long a controller that died without a word keeps the others from acting: its Lease's duration."""

GATE = (f"--namespace={RELEASE_NAMESPACE}", "lease/turnkeeper-controller")

OWED = 250
"""Threads that wait: more than one call of the controller's starts, and some times what a runner reads at once."""

MANY = 50
LIVE = 5
"""Of many Workspaces, those with runners: pods of a single node start one after the other."""


def controllers(site: Site) -> list[Json]:
    """The pods of the controller."""
    where = [f"--namespace={RELEASE_NAMESPACE}", "--selector=app.kubernetes.io/component=controller"]
    found: list[Json] = json.loads(site.kubectl("get", "pods", *where, "--output=json"))["items"]
    return found


def holder(site: Site) -> str:
    """Which life of which controller holds their Lease; empty where none does."""
    return site.kubectl("get", *GATE, "--output=jsonpath={.spec.holderIdentity}", "--ignore-not-found")


def acting_name(site: Site) -> str:
    """The name of the pod that holds the controllers' Lease; empty where none does."""
    return holder(site).partition("_")[0]


def acting(site: Site) -> Json:
    """The controller that holds the Lease, once one of two does."""
    wait_until(lambda: len(controllers(site)) == 2, "there are two controllers", seconds=60)
    wait_until(lambda: acting_name(site), "one of them acts", seconds=GATE_SECONDS)
    name = acting_name(site)
    return next(pod for pod in controllers(site) if pod["metadata"]["name"] == name)


def recovered(workspace: Workspace) -> Json:
    """The condition Recovered; empty before there is one."""
    found = workspace.get().get("status", {}).get("conditions", [])
    return next((condition for condition in found if condition["type"] == "Recovered"), {})


def asks(site: Site, controller: Json, runner: Json) -> bool:
    """Whether a runner has a request of the controller's that it has not read yet."""
    address = controller["status"]["podIP"]
    return any(
        local == API_PORT and remote == address and waiting for local, (remote, _), waiting in connections(site, runner)
    )


def test_a_controller_killed_in_mid_sweep_is_followed_by_one_that_finishes(place: Place) -> None:
    """It dies while a runner has yet to answer its sweep of several pages: what was owed is taken, and it is told."""
    asked = spec(handler=LONG_AT_FIRST)
    asked["runner"]["maxTurns"] = 4
    workspace = place.apply("orders", asked).wait_ready()
    burst(workspace, OWED)
    wait_until(lambda: recovered(workspace).get("status") == "False", "a sweep has left some", seconds=60)
    assert workspace.call("GET", "/v1/stats").json()["owed"] > SWEEP_LIMIT
    victim, last = acting(place.site), holder(place.site)
    slow = workspace.runners()[0]
    pid = freeze(place.site, slow)
    try:
        wait_until(lambda: asks(place.site, victim, slow), "the controller waits in its sweep", seconds=30)
        kill(place.site, victim)
    finally:
        thaw(pid)
    place.site.kubectl("delete", *GATE)  # so that the next life need not wait for it to run out
    wait_until(lambda: holder(place.site) not in {"", last}, "another life of a controller acts", seconds=60)
    change(workspace, {"handler": {"exec": None, "echo": {}}})
    wait_until(lambda: is_at_rest(workspace), "all is taken", seconds=120)
    workspace.verify()
    wait_until(lambda: recovered(workspace)["status"] == "True", "a sweep was complete", seconds=60)
    assert workspace.get()["status"]["lastRecover"]["complete"]


def is_at_rest(workspace: Workspace) -> bool:
    """Whether no thread of a Workspace waits or runs."""
    told = workspace.call("GET", "/v1/stats").json()
    return not told["owed"] and not told["running"]


@contextmanager
def frozen(site: Site, controller: Json) -> Iterator[None]:
    """Freeze its process for the while."""
    pid = freeze(site, controller)
    try:
        yield
    finally:
        thaw(pid)


@contextmanager
def cut_off(site: Site, controller: Json) -> Iterator[None]:
    """Swallow all that it says to the API server for the while: its watches hear nothing, and don't end."""
    with dropped(site, from_pod(controller, api_server_port(site))):
        yield


@pytest.mark.parametrize("trouble", [frozen, cut_off])
def test_a_controller_that_was_away_finds_itself_replaced(
    place: Place, trouble: Callable[[Site, Json], AbstractContextManager[None]]
) -> None:
    """Away past its Lease while a runner dies: no live turn is touched, as it is back too, and the other is taken.

    It comes back, or is ended by itself or its probe, beside the one that acts now, and stands by anew.
    """
    length = GATE_SECONDS + TTL_SECONDS
    workspace = place.apply("orders", spec(handler={"echo": {"delaySeconds": length}})).wait_ready()
    other = place.apply("others", spec(handler=LONG_AT_FIRST)).wait_ready()
    started(workspace, "alice")
    dead = started(other, "bob")
    waiting = other.send("bob", "and this", mode="queue")
    victim = acting(place.site)
    away = str(victim["metadata"]["name"])
    with trouble(place.site, victim):
        kill(place.site, dead)
        assert_taken_over(other, "bob", waiting, outcome="abandoned")
        wait_until(lambda: acting_name(place.site) not in {"", away}, "the other acts", seconds=2 * GATE_SECONDS)

    def restarted() -> bool:
        (pod,) = [pod for pod in controllers(place.site) if pod["metadata"]["name"] == away]
        status = pod["status"]["containerStatuses"][0]
        return bool(status["restartCount"] and status["ready"])

    wait_until(restarted, "it has begun anew", seconds=60)
    assert acting_name(place.site) != away
    workspace.wait_state("alice", "idle", seconds=length)
    assert list(outcomes(workspace.log("alice")).values()) == ["completed"]


def test_many_workspaces_wait_for_a_controller_that_starts(place: Place) -> None:
    """Fifty are there as it starts: each is told of, and the live ones' owed threads, which nobody runs, are taken."""
    live = place.apply_all({f"ws{number}": spec(handler=LONG_AT_FIRST, replicas=1) for number in range(LIVE)})
    sent = {workspace.name: burst(workspace.wait_ready(), 3) for workspace in live}
    for workspace in live:
        change(workspace, {"suspend": True})
    for workspace in live:
        wait_runners(workspace, 0)
    with without_controller(place.site):
        for workspace in live:
            change(workspace, {"suspend": False})
        place.apply_all({f"ws{number}": spec(handler={"echo": {}}, suspend=True) for number in range(LIVE, MANY)})

    def looked_at() -> bool:
        items = json.loads(place.kubectl("get", "workspaces", "--output=json"))["items"]
        return len(items) == MANY and all(
            item.get("status", {}).get("observedGeneration") == item["metadata"]["generation"] for item in items
        )

    wait_until(looked_at, "each has a status of its spec as it is", seconds=90)
    for workspace in live:
        assert_all_answered(workspace.wait_ready(), sent[workspace.name])
    reasons = place.kubectl(
        "get", "workspaces", '--output=jsonpath={.items[*].status.conditions[?(@.type=="Ready")].reason}'
    )
    assert sorted(set(reasons.split())) == ["RunnersReady", "Suspended"]
    assert reasons.split().count("Suspended") == MANY - LIVE

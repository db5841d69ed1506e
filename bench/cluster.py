"""How long a waiting message waits for another runner in a real cluster, after its holder died.

Three runners at the default ttl of 30 s, PostgreSQL in a pod, the chart installed, on the cluster that `make e2e` would
take. One runner runs a turn that does not end, a second message waits behind it, and the holder dies. The time is from
just before the death to the start of the turn's next run, both by the clock of this machine, which is the node.

    killed        SIGKILL to the container's process; the others hold connections to it
    unconnected   the same without connections between runners: the controller tells, by what the kubelet reports
    timer         the same without connections and without a controller: the session lapses
    deleted       `kubectl delete pod`, which stops the runner in good order
    frozen        SIGSTOP to the container's process: nothing can tell, the session lapses

A pod whose container was killed or frozen is deleted after its trial, so that the next starts without a backoff.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from tests.e2e.releases import installed, uninstalled, without_controller
from tests.e2e.site import RELEASE_NAMESPACE, Site, site
from tests.e2e.victims import freeze, kill, thaw
from tests.e2e.workspaces import POSTGRES, CallError, Json, Place, Workspace

TTL_SECONDS = 30
RUNNERS = 3
NEVER_SECONDS = 3600
SETTLED_SECONDS = 2.0
"""After which each runner has looked who is there, and holds its connections."""

GIVE_UP_SECONDS = 90.0
TRIALS = {"killed": 50, "unconnected": 20, "timer": 5, "deleted": 20, "frozen": 5}
QUICK_TRIALS = dict.fromkeys(TRIALS, 2)

Death = Callable[[Site, Workspace, Json], float]


def by_kill(where: Site, _workspace: Workspace, pod: Json) -> float:
    """Kill the container and return the time just before."""
    now = time.time()
    kill(where, pod)
    return now


def by_deletion(_where: Site, workspace: Workspace, pod: Json) -> float:
    """Delete the pod and return the time just before."""
    now = time.time()
    workspace.place.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")
    return now


def by_freeze(where: Site, _workspace: Workspace, pod: Json) -> float:
    """Freeze the container and return the time just before."""
    now = time.time()
    freeze(where, pod)
    return now


def spec_of(*, peers: bool) -> Json:
    """Return a Workspace's spec; without peers its runners hold no connections to one another."""
    return {
        "claimTTLSeconds": TTL_SECONDS,
        "journal": POSTGRES,
        "handler": {"echo": {"delaySeconds": NEVER_SECONDS}},
        "runner": {"replicas": RUNNERS, "drainSeconds": 0, "peers": peers, "resources": {"requests": {"cpu": "10m"}}},
    }


def starts_of(workspace: Workspace, thread: str) -> list[Json]:
    """Return the entries that tell of the starts of a thread's runs."""
    return [entry for entry in workspace.log(thread) if entry["kind"] == "run_started"]


def trial(where: Site, workspace: Workspace, death: Death) -> float:
    """Let a holder die with a message waiting, and return the seconds until the turn's next run."""
    thread = f"thread-{uuid.uuid4().hex}"
    workspace.wait_taken(thread, workspace.send(thread, "runs until its runner dies"))
    workspace.send(thread, "waits")
    pod = workspace.holder(thread)
    died = death(where, workspace, pod)
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while len(starts := starts_of(workspace, thread)) < 2:
        if time.monotonic() > deadline:
            raise AssertionError(f"{thread} was not taken over in {GIVE_UP_SECONDS:.0f} s")
        time.sleep(0.1)
    _stop_all(workspace, thread)
    _renew(where, workspace, pod, death)
    return float(starts[1]["created_ms"]) / 1000 - died


def _stop_all(workspace: Workspace, thread: str) -> None:
    """Stop what the thread's messages have started, so that the next trial's death is of one run alone."""
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while (told := workspace.thread(thread))["state"] != "idle":
        if time.monotonic() > deadline:
            raise AssertionError(f"{thread} was not idle within {GIVE_UP_SECONDS:.0f} s")
        if told["run"] is not None:
            with contextlib.suppress(CallError):  # it may end, or another begin, in between
                workspace.call("POST", f"/v1/runs/{told['run']['run_id']}/stop")
        time.sleep(0.1)


def _renew(where: Site, workspace: Workspace, pod: Json, death: Death) -> None:
    """Let a new pod take the place of the one that died."""
    name = pod["metadata"]["name"]
    if death is by_freeze:
        with contextlib.suppress(StopIteration):  # a probe has had it ended by now
            thaw(freeze(where, pod))
    workspace.place.kubectl("delete", "pod", name, "--grace-period=1", "--ignore-not-found", "--wait=true")
    workspace.place.kubectl("rollout", "status", f"deployment/{workspace.name}-runner", "--timeout=120s")
    time.sleep(SETTLED_SECONDS)


@contextlib.contextmanager
def place_on(where: Site) -> Iterator[Place]:
    """Yield a namespace with a database, in a cluster with the chart."""
    installed(where)
    name = f"bench-{uuid.uuid4().hex[:8]}"
    where.kubectl("create", "namespace", name)
    place = Place(where, name)
    try:
        place.start_database()
        yield place
    finally:
        place.close()
        where.kubectl("delete", "namespace", name, "--timeout=2m")
        uninstalled(where)
        where.kubectl("delete", "namespace", RELEASE_NAMESPACE, "--timeout=2m")


def run(*, quick: bool) -> dict[str, Any]:
    """Measure each death, in seconds."""
    trials = QUICK_TRIALS if quick else TRIALS
    found: dict[str, Any] = {"ttl_seconds": TTL_SECONDS, "runners": RUNNERS}
    with site() as where, place_on(where) as place:
        connected = place.apply("connected", spec_of(peers=True)).wait_ready()
        unconnected = place.apply("unconnected", spec_of(peers=False)).wait_ready()
        time.sleep(SETTLED_SECONDS)

        def measure(side: str, workspace: Workspace, death: Death) -> None:
            found[side] = [trial(where, workspace, death) for _ in range(trials[side])]
            print(f"{side}: {', '.join(f'{seconds:.2f}' for seconds in found[side])}", flush=True)

        measure("killed", connected, by_kill)
        measure("deleted", connected, by_deletion)
        measure("frozen", connected, by_freeze)
        measure("unconnected", unconnected, by_kill)
        with without_controller(where):
            measure("timer", unconnected, by_kill)
    return found

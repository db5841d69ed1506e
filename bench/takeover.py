"""How long a waiting message waits for another process, on one machine, after its holder was killed.

A holder runs a turn that never ends, a second message waits behind it, the holder is killed with SIGKILL. Measured is
the wall clock from just before the kill to the `started_ms` of the turn's next run, both of this machine.

    noticed      a second process on the same database held a connection to the holder; the default ttl of 30 s
    another      the same without connections between processes: the timer alone, at a short ttl
    own_restart  nobody else is there, and a new process is started at once, as a supervisor would
"""

from __future__ import annotations

import random
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from bench.databases import DATABASES, Place, place
from bench.processes import Served, serving

TTL_SECONDS = 2.0
LANES = 4
"""Trials at once, each lane in a workspace of its own. While one waits for a ttl to pass, another's holder starts."""

GIVE_UP_SECONDS = 60.0
FLAGS = ("--claim-ttl", str(TTL_SECONDS))
TIMER_ALONE = {"TURNKEEPER_RUNNER__PEERS": "false"}
ACQUAINTED_SECONDS = 1.5
"""A process at the default ttl looks each second who is there."""
NEVER_SECONDS = "3600"
"""How long the turn of a holder takes: it ends by the kill alone. Whoever takes it over echoes at once."""


def starts_of(asked: Served, thread_id: str) -> list[dict[str, Any]]:
    """Return the entries that tell of a thread's runs' starts, as a runner serves them."""
    answer = httpx.get(f"{asked.address}/v1/threads/{thread_id}/log", params={"limit": 100})
    answer.raise_for_status()
    return [entry for entry in answer.json()["entries"] if entry["kind"] == "run_started"]


def nth_start(asked: Served, thread_id: str, number: int) -> dict[str, Any]:
    """Wait until a thread's n-th run has started, and return the entry that tells of it."""
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while time.monotonic() < deadline:
        starts = starts_of(asked, thread_id)
        if len(starts) >= number:
            return starts[number - 1]
        time.sleep(0.05)
    raise AssertionError(f"run {number} of {thread_id} did not start in {GIVE_UP_SECONDS:.0f} s")


def occupy(holder: Served) -> str:
    """Let the holder run a turn with a message waiting behind it, and return the thread."""
    while True:
        thread_id = f"thread-{uuid.uuid4().hex}"
        with httpx.Client() as client:
            holder.send(thread_id, "runs until it is killed", client)
            started = nth_start(holder, thread_id, 1)
            if str(started["body"]["runner"]).endswith(f"-{holder.process.pid}"):  # else another was quicker
                holder.send(thread_id, "waits", client)
                return thread_id


def killed_at(holder: Served) -> float:
    """Kill the holder at any moment between two of its renewals, and return the wall clock's seconds."""
    time.sleep(random.random() * TTL_SECONDS)
    return holder.kill()


def by_notice(where: Place, lane: str, taker: Served) -> float:
    """Return the seconds from a holder's death to the run in a process that held a connection to it."""
    with serving(where, "--workspace", lane, "--echo-delay", NEVER_SECONDS) as holder:
        thread_id = occupy(holder)
        time.sleep(ACQUAINTED_SECONDS)
        killed = killed_at(holder)
    return float(nth_start(taker, thread_id, 2)["created_ms"]) / 1000 - killed


def by_another(where: Place, lane: str, taker: Served) -> float:
    """Return the seconds from a holder's death to the run in a process that was there before."""
    flags = (*FLAGS, "--workspace", lane, "--echo-delay", NEVER_SECONDS)
    with serving(where, *flags, environment=TIMER_ALONE) as holder:
        thread_id = occupy(holder)
        killed = killed_at(holder)
    return float(nth_start(taker, thread_id, 2)["created_ms"]) / 1000 - killed


def by_own_restart(where: Place, lane: str) -> float:
    """Return the seconds from a holder's death to the run in its own next life, begun at once."""
    with serving(where, *FLAGS, "--workspace", lane, "--echo-delay", NEVER_SECONDS) as holder:
        thread_id = occupy(holder)
        killed = killed_at(holder)
    with serving(where, *FLAGS, "--workspace", lane) as again:
        return float(nth_start(again, thread_id, 2)["created_ms"]) / 1000 - killed


def run_lane(where: Place, lane: str, trials: int, restarts: int) -> dict[str, list[float]]:
    """Run one lane's trials, one after the other, in workspaces of its own."""
    told = f"{lane}-told"
    with serving(where, "--workspace", told) as taker:
        noticed = [by_notice(where, told, taker) for _ in range(trials)]
    with serving(where, *FLAGS, "--workspace", lane, environment=TIMER_ALONE) as taker:
        another = [by_another(where, lane, taker) for _ in range(trials)]
    own_restart = [by_own_restart(where, lane) for _ in range(restarts)]  # nobody else is there any more
    return {"noticed": noticed, "another": another, "own_restart": own_restart}


def run(*, quick: bool) -> dict[str, Any]:
    """Measure both databases."""
    trials, restarts = (1, 1) if quick else (13, 3)
    found: dict[str, Any] = {"ttl_seconds": TTL_SECONDS}
    for database in DATABASES:
        with place(database) as where, ThreadPoolExecutor(LANES) as threads:
            lanes = [threads.submit(run_lane, where, f"lane-{lane}", trials, restarts) for lane in range(LANES)]
            done = [lane.result() for lane in lanes]
        found[database] = {side: [seconds for lane in done for seconds in lane[side]] for side in done[0]}
    return found

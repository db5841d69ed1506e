"""What an idle `turnkeeper run` holds in memory, and what one armed look costs."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import httpx

from bench.databases import DATABASES, place
from bench.processes import ROOT, Served, serving
from turnkeeper.adapters.machine_clock import MachineClock
from turnkeeper.adapters.prometheus import PrometheusObserver
from turnkeeper.core.lookagain import Look
from turnkeeper.runner.looks import Looks
from turnkeeper.runner.timers import Timers

LOOKS = 100_000
HOLDERS = 20
TURNS = 100
IDLE_SECONDS = 2.0
"""What a start leaves behind has settled by then: seen by looking longer, which changed nothing."""


async def _never(_look: Look) -> str:
    raise AssertionError("nothing is due")


def arm_looks() -> Looks:
    """Arm looks as refused claimants do: ids of their own, on the sessions of some other runners."""
    clock = MachineClock()
    looks = Looks(Timers(clock), clock, PrometheusObserver(), _never)
    for number in range(LOOKS):
        looks.arm(f"customer-{number:08}/conversation", f"{number % HOLDERS:032x}", 3600.0)
    return looks


def resident_bytes() -> int:
    """Return this process's resident memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * 4096


def looks_by_resident() -> float:
    """Return the bytes of one armed look by what the process grew. To be run in a new process."""
    gc.collect()
    before = resident_bytes()
    looks = arm_looks()
    gc.collect()
    return (resident_bytes() - before) / len(looks)


def looks_by_allocation() -> float:
    """Return the bytes of one armed look by what Python allocated."""
    gc.collect()
    tracemalloc.start()
    looks = arm_looks()
    allocated, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return allocated / len(looks)


def take_turns(served: Served) -> None:
    """Send messages to some threads and wait until no turn is coming."""
    with httpx.Client() as client:
        for number in range(TURNS):
            served.send(f"thread-{number % 10}", "hello", client)
        while client.get(f"{served.address}/v1/stats").json()["owed"]:
            time.sleep(0.05)


def run(*, quick: bool) -> dict[str, Any]:
    """Measure a runner on both databases, and the looks each in a process of its own."""
    del quick  # it takes seconds as it is
    found: dict[str, Any] = {}
    for database in DATABASES:
        with place(database) as where, serving(where) as served:
            time.sleep(IDLE_SECONDS)
            started = served.resident_mib()
            take_turns(served)
            time.sleep(IDLE_SECONDS)
            found[database] = {"started_mib": started, "after_turns_mib": served.resident_mib()}
    program = "import json; from bench import memory; print(json.dumps(getattr(memory, {!r})()))"
    for name in ("looks_by_resident", "looks_by_allocation"):
        command = [sys.executable, "-c", program.format(name)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
        found[f"{name}_bytes"] = json.loads(done.stdout)
    return found

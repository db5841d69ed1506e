"""What a controller costs that has nothing to do: many Workspaces, no pods, on etcd and an API server of its own.

    PYTHONPATH=. .venv/bin/python bench/idle_controller.py 500

Two lives: one that makes every object, and one that finds all as it should be. Port 8080 must be free.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.cluster.control_plane import ControlPlane, control_plane
from turnkeeper.settings.workspace_crd import crd_text

METRICS = "http://127.0.0.1:8080/metrics"
SETTLE_SECONDS = 15
IDLE_SECONDS = 60
POLL_SECONDS = 0.25
OTHERS = (
    "leases|tokenreviews|subjectaccessreviews|endpoints|endpointslices|services|flowschemas|prioritylevelconfigurations"
)
"""What the API server writes of itself, and the controller's own Lease: four a minute, whatever there is to do."""


def main(count: int) -> None:
    """Measure and print."""
    with control_plane() as plane:
        plane.kubectl("apply", "--server-side", "--filename=-", stdin=crd_text())
        plane.kubectl("wait", "--for=condition=Established", "crd/workspaces.turnkeeper.dev", "--timeout=60s")
        plane.kubectl("create", "--filename=-", stdin=json.dumps(workspaces(count)))
        for life in ("makes all objects", "finds all objects"):
            measure(plane, count, life)


def workspaces(count: int) -> dict[str, object]:
    """Return so many Workspaces, each with runners on PostgreSQL."""
    spec = {"journal": {"postgres": {"urlSecretRef": {"name": "database", "key": "url"}}}, "handler": {"echo": {}}}
    kind = {"apiVersion": "turnkeeper.dev/v1alpha1", "kind": "Workspace"}
    items = [{**kind, "metadata": {"name": f"w{number}"}, "spec": spec} for number in range(count)]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def measure(plane: ControlPlane, count: int, life: str) -> None:
    """Run one life of a controller."""
    surroundings = {"KUBECONFIG": str(plane.kubeconfig), "TURNKEEPER_IMAGE": "turnkeeper", "POD_NAMESPACE": "default"}
    command = [sys.executable, "-m", "turnkeeper", "controller", "--log-level", "warning"]
    began = time.monotonic()
    with subprocess.Popen(command, env={**os.environ, **surroundings}) as controller:
        first = wait_for("sweeps_total", 1)
        wait_for('reconciles_total{result="done"}', count)
        done = time.monotonic()
        print(f"{life}: first sweep after {first - began:.1f} s, all looked at after {done - began:.1f} s", end="; ")
        print(f"{processor_seconds(controller.pid):.1f} s of processor")
        time.sleep(SETTLE_SECONDS)
        writes, seconds = writes_of(plane), processor_seconds(controller.pid)
        time.sleep(IDLE_SECONDS)
        writes, seconds = writes_of(plane) - writes, processor_seconds(controller.pid) - seconds
        print(f"  idle for {IDLE_SECONDS} s: {writes:.0f} writes, {seconds:.2f} s of processor", end=", ")
        print(f"{memory(controller.pid)} MiB")
        controller.send_signal(signal.SIGTERM)


def wait_for(name: str, least: float) -> float:
    """Return when one of the controller's counters has come so far."""
    while total(name) < least:
        time.sleep(POLL_SECONDS)
    return time.monotonic()


def total(name: str) -> float:
    """Return the sum of a counter of the controller's."""
    try:
        with urllib.request.urlopen(METRICS, timeout=5) as answer:
            text = answer.read().decode()
    except (OSError, urllib.error.URLError):
        return 0.0
    found = re.findall(rf"^turnkeeper_controller_{re.escape(name)}\S* (\S+)$", text, re.MULTILINE)
    return sum(map(float, found))


def writes_of(plane: ControlPlane) -> float:
    """Return how many writes the API server has taken."""
    text = plane.kubectl("get", "--raw", "/metrics")
    counts = re.findall(r"^apiserver_request_total(\{.*\}) (\S+)$", text, re.MULTILINE)
    writes = [
        float(count)
        for labels, count in counts
        if re.search(r'verb="(PATCH|APPLY|POST|PUT|DELETE)"', labels)
        and not re.search(rf'resource="({OTHERS})"', labels)
    ]
    return sum(writes)


def processor_seconds(pid: int) -> float:
    """Return what a process has used of the processor."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> int:
    """Return how much memory a process has, in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text("utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)

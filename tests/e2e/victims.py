"""Processes of containers, signalled from the node under them: what no cluster would do to a pod of its own accord."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.processes import wait_until
from tests.e2e.site import Site

FREEZE_SECONDS = 10
"""How long freezing a container may take: milliseconds where nothing else goes on."""


def process_of(site: Site, pod: dict[str, Any]) -> int:
    """The pid, on this machine, of a pod's first container. Skips the test where the node is another machine."""
    if site.machine is None:
        pytest.skip("only where this machine is the node can a container's process be signalled")
    listed = subprocess.run([*site.machine.node.ctr, "tasks", "list"], check=True, capture_output=True, text=True)
    return next(int(line.split()[1]) for line in listed.stdout.splitlines() if line.startswith(_container(pod)))


@contextlib.contextmanager
def paused(site: Site, pod: dict[str, Any]) -> Iterator[None]:
    """Freeze all of a pod's first container for the while: sockets stay open, and nothing answers on them."""
    process_of(site, pod)
    assert site.machine is not None
    ctr = [*site.machine.node.ctr, "tasks"]

    def is_paused() -> bool:
        """Freeze it; runc gives up where a busy machine does not halt all of its processes at once."""
        return subprocess.run([*ctr, "pause", _container(pod)], check=False, capture_output=True).returncode == 0

    wait_until(is_paused, "the container is frozen", seconds=FREEZE_SECONDS)
    try:
        yield
    finally:
        subprocess.run([*ctr, "resume", _container(pod)], check=True, capture_output=True)


def kill(site: Site, pod: dict[str, Any]) -> None:
    """Kill a container as the kernel does when memory runs out: nothing is said or given up before."""
    os.kill(process_of(site, pod), signal.SIGKILL)


def freeze(site: Site, pod: dict[str, Any]) -> int:
    """Stop a container's process in its steps, with its sockets and memory as they are; its pid, for `thaw`."""
    pid = process_of(site, pod)
    os.kill(pid, signal.SIGSTOP)
    return pid


def thaw(pid: int) -> None:
    """Let a frozen process go on, as if no time had passed; no error if a probe has had it ended meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def _container(pod: dict[str, Any]) -> str:
    return str(pod["status"]["containerStatuses"][0]["containerID"]).removeprefix("containerd://")

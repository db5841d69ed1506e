"""What a node leaves on its machine besides processes: containers, mounts, a bridge, rules of the firewall."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

from tests.cluster.node import BRIDGE
from tests.cluster.processes import wait_until

RULES = re.compile(r"KUBE-|CNI-")
"""The names of the chains that kube-proxy, the kubelet and the network's plugins make."""

LINKS = Path("/var/log/containers")
"""Where the kubelet links the logs of containers; the place can't be chosen."""

EMPTY_FOLDERS = (
    LINKS,
    Path("/var/lib/cni/results"),
    Path("/var/lib/cni"),
    Path("/var/lib/kubelet/device-plugins"),
    Path("/var/lib/kubelet"),
)
"""Folders that these programs make at places which can't be chosen: removed where nobody else has anything in them."""

GONE_SECONDS = 10
"""How long killed processes may take to be gone. Arbitrary: it was seen within 0.1 s."""


def remove_remains(folder: Path) -> None:
    """Kill the folder's containers, and unmount and remove all that its node made; right after half a start too."""
    kill_below(folder)
    for mount in reversed(mounts_below(folder)):
        subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True)
    subprocess.run(["ip", "link", "delete", BRIDGE], check=False, capture_output=True)
    for family in ("iptables", "ip6tables"):
        _remove_rules(family)
    for link in LINKS.glob("*.log") if LINKS.is_dir() else ():
        if link.is_symlink() and str(folder) in str(link.readlink()):
            link.unlink()
    for result in Path("/var/lib/cni/results").glob("turnkeeper-*"):
        result.unlink()
    for empty in EMPTY_FOLDERS:
        with contextlib.suppress(OSError):
            empty.rmdir()
    shutil.rmtree(folder, ignore_errors=True)
    if left := left_behind(folder):
        raise RuntimeError(f"the test cluster left behind, and could not remove: {'; '.join(left)}")


def left_behind(folder: Path) -> list[str]:
    """What is still there of a node, each thing in words; empty where nothing is."""
    links = subprocess.run(["ip", "-oneline", "link"], check=True, capture_output=True, text=True).stdout
    saved = subprocess.run(["iptables-save"], check=True, capture_output=True, text=True).stdout
    found = [f"process {pid}: {_command(pid)[:80]}" for pid in _shims(folder)]
    found += [f"mount {mount}" for mount in mounts_below(folder)]
    found += [f"firewall rule {line}" for line in saved.splitlines() if RULES.search(line)]
    if f" {BRIDGE}:" in links:
        found.append(f"link {BRIDGE}")
    if folder.exists():
        found.append(f"folder {folder}")
    return found


def kill_below(folder: Path) -> None:
    """Kill every container of the folder's containerd, by the pid of its shim and of what runs under it."""
    shims = _shims(folder)
    doomed = sorted(shims | {pid for pid in _pids() if _ancestors(pid) & shims})
    for pid in doomed:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    wait_until(lambda: not any(_command(pid) for pid in doomed), "the containers are gone", seconds=GONE_SECONDS)


def mounts_below(folder: Path) -> list[str]:
    """The mount points in the folder, in the order in which they were made."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines()]
    return [point for point in points if point.startswith(f"{folder}/")]


def without_rules(saved: str) -> str:
    """The output of iptables-save without the chains of a cluster, and without the rules that jump to them."""
    return "".join(line for line in saved.splitlines(keepends=True) if not RULES.search(line))


def _remove_rules(family: str) -> None:
    if shutil.which(f"{family}-save") is None:
        return
    saved = subprocess.run([f"{family}-save"], check=False, capture_output=True, text=True).stdout
    if saved and RULES.search(saved):
        subprocess.run([f"{family}-restore"], input=without_rules(saved), check=True, capture_output=True, text=True)


def _shims(folder: Path) -> set[int]:
    """The processes that containerd leaves beside each pod, which outlive it."""
    return {pid for pid in _pids() if f"{folder}/containerd.sock" in _command(pid) and "shim" in _command(pid)}


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _command(pid: int) -> str:
    """The command line of a process; empty if it is gone or only its remains are there."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace").replace("\0", " ")
    except OSError:
        return ""


def _ancestors(pid: int) -> set[int]:
    found: set[int] = set()
    while pid > 1 and pid not in found:
        found.add(pid)
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])
        except OSError:
            break
    return found

"""A real Kubernetes cluster of one node on this machine: `cluster()` for tests, `up` and `down` for a person.

There is one on a machine, in one folder; a folder that somebody left is cleared first, so that two runs in a row work.
It needs root, and Debian's containerd, runc, containernetworking-plugins, iptables, iproute2, conntrack, buildah,
debootstrap and busybox-static.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.certificates import Certificates
from tests.cluster.control_plane import ControlPlane, start_control_plane
from tests.cluster.images import pause_archive
from tests.cluster.node import CNI_PROGRAMS, NODE_ADDRESS, Node
from tests.cluster.processes import Processes
from tests.cluster.programs import NoClusterError, programs
from tests.cluster.remains import remove_remains

FOLDER = Path("/var/lib/turnkeeper-cluster")
"""Short, since sockets lie in it, and on a disk, since images do."""

NEEDED = ("containerd", "runc", "ctr", "iptables", "ip", "conntrack", "buildah", "debootstrap", "openssl", "mount")

VOLUMES = 20
"""How many volumes of a gibibyte the node offers: more than one run's Workspaces with SQLite take."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that answers; its node is this machine, so its containers' processes can be seen and signalled."""

    plane: ControlPlane
    node: Node


def up() -> Cluster:
    """Start a cluster that goes on until `down`, and clear what an earlier one left.

    Raises:
        NoClusterError: a program, a right or a module is missing; the message says which.
    """
    _check_machine()
    down()
    FOLDER.mkdir(mode=0o755)
    processes = Processes(FOLDER, outlives=True)
    try:
        pause = pause_archive()
        programs("coredns")
        plane, node = _node_network(processes)
        node.start_containerd()
        node.load(pause)
        node.start_scheduler()
        node.start_kubelet()
        node.start_proxy()
        node.start_dns()
        _offer_volumes(plane)
    except BaseException:
        down()
        raise
    return Cluster(plane, node)


def down() -> None:
    """Stop the cluster and remove all that it made on this machine; nothing happens if there is none."""
    if FOLDER.exists():
        processes = Processes(FOLDER, outlives=True)
        processes.stop("kubelet")  # before the containers, which it would start again
        processes.stop("containerd")
        processes.stop_all()
        remove_remains(FOLDER)


def running() -> Cluster | None:
    """The cluster that `up` has started on this machine, if all of it still runs."""
    if not (FOLDER / "server").exists() or not Processes(FOLDER, outlives=True).running():
        return None
    processes = Processes(FOLDER, outlives=True)
    server = (FOLDER / "server").read_text()
    certificates = Certificates(FOLDER / "certificates")
    plane = ControlPlane(FOLDER, FOLDER / "kubeconfig", server, programs("kubernetes"), certificates, processes)
    return Cluster(plane, Node(plane))


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Yield a fresh cluster, gone afterwards."""
    started = up()
    try:
        yield started
    finally:
        down()


def _node_network(processes: Processes) -> tuple[ControlPlane, Node]:
    """The bridge first: its address is the one that the API server is told to be found at."""
    Node.start_network(FOLDER)
    plane = start_control_plane(FOLDER, processes, NODE_ADDRESS, controllers=True)
    (FOLDER / "server").write_text(plane.server)
    return plane, Node(plane)


def _offer_volumes(plane: ControlPlane) -> None:
    """Offer folders of this machine as volumes; a pod's user may write to them, whoever that is."""
    storage_class = """\
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: standard, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
"""
    offered = [storage_class]
    for number in range(VOLUMES):
        path = FOLDER / "volumes" / str(number)
        path.mkdir(parents=True)
        path.chmod(0o777)
        offered.append(
            f"""\
apiVersion: v1
kind: PersistentVolume
metadata: {{name: volume-{number}}}
spec:
  storageClassName: standard
  capacity: {{storage: 1Gi}}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  hostPath: {{path: {path}, type: Directory}}
"""
        )
    plane.kubectl("apply", "--filename=-", stdin="---\n".join(offered))


def _check_machine() -> None:
    if os.geteuid() != 0:
        raise NoClusterError("a node mounts, makes networks and starts containers: it needs root")
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if not CNI_PROGRAMS.is_dir():
        missing.append("the containernetworking-plugins")
    if missing:
        raise NoClusterError(f"not installed: {', '.join(missing)}")

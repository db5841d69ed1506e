"""A real API server on a real etcd, without nodes: for tests of what is written to it and watched on it.

No pod runs here. Without its controllers nothing is collected when its owner goes, and a namespace is never deleted
whole; with `controllers=True` both happen as in any cluster.
"""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.certificates import Certificates
from tests.cluster.processes import Processes, Program
from tests.cluster.programs import programs

LOOPBACK = "127.0.0.1"

SERVICE_RANGE = "10.96.0.0/16"
SERVICE_ADDRESS = "10.96.0.1"
"""The first of the range: where pods find the API server."""

KUBECTL_SECONDS = 120
"""After which a kubectl that hangs is killed. Arbitrary: longer than any wait that a test asks of it."""


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A control plane that answers, and what one needs to speak to it."""

    folder: Path
    kubeconfig: Path
    server: str
    programs: Path
    certificates: Certificates
    processes: Processes

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl as the administrator and return what it said. Raises CalledProcessError where it refused."""
        command = [str(self.programs / "kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments]
        finished = subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, timeout=KUBECTL_SECONDS
        )
        if finished.returncode != 0:
            error = subprocess.CalledProcessError(finished.returncode, command, finished.stdout, finished.stderr)
            error.add_note(finished.stderr.strip())
            raise error
        return finished.stdout


@contextmanager
def control_plane(*, controllers: bool = False) -> Iterator[ControlPlane]:
    """Yield a fresh control plane on ports of its own, gone afterwards with all that it held.

    Raises:
        NoClusterError: its programs can't be built here.
    """
    folder = Path(tempfile.mkdtemp(prefix="turnkeeper-control-plane-"))
    processes = Processes(folder, outlives=False)
    try:
        yield start_control_plane(folder, processes, LOOPBACK, controllers=controllers)
    finally:
        processes.stop_all()
        shutil.rmtree(folder, ignore_errors=True)


def start_control_plane(folder: Path, processes: Processes, address: str, *, controllers: bool) -> ControlPlane:
    """Start etcd, the API server and maybe the controllers; whoever owns `processes` stops them."""
    kubernetes, etcd = programs("kubernetes"), programs("etcd")
    certificates = Certificates(folder / "certificates")
    inside = ["kubernetes", "default", "svc", "cluster", "local"]
    names = ["localhost", *(".".join(inside[:count]) for count in range(1, len(inside) + 1))]
    certificates.issue("apiserver", "kube-apiserver", addresses=[*names, LOOPBACK, SERVICE_ADDRESS, address])
    certificates.issue("admin", "admin", "system:masters")
    certificates.issue("kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
    certificates.issue_signing_key("tokens")
    client_port, peer_port, api_port = free_ports(3)
    processes.start("etcd", _etcd(etcd, folder, client_port, peer_port))
    server = f"https://{address}:{api_port}"
    command = _api_server(kubernetes, certificates, address, api_port, client_port)
    processes.start("kube-apiserver", Program(command, lambda: is_ready(server, certificates)))
    kubeconfig = certificates.kubeconfig("admin", server, folder / "kubeconfig")
    plane = ControlPlane(folder, kubeconfig, server, kubernetes, certificates, processes)
    if controllers:
        _start_controllers(plane)
    return plane


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at just now; different ones."""
    listeners = [socket.create_server((LOOPBACK, 0)) for _ in range(count)]
    try:
        return [listener.getsockname()[1] for listener in listeners]
    finally:
        for listener in listeners:
            listener.close()


def answers(url: str, context: ssl.SSLContext | None = None) -> bool:
    """Whether a GET of the URL is answered with a 2xx within a second."""
    try:
        with urllib.request.urlopen(url, timeout=1, context=context):  # noqa: S310 - the address is our own program's
            return True
    except OSError:  # URLError is one, and so is a refused connection
        return False


def _etcd(folder_of_programs: Path, folder: Path, client_port: int, peer_port: int) -> Program:
    client, peer = f"http://{LOOPBACK}:{client_port}", f"http://{LOOPBACK}:{peer_port}"
    options = {
        "name": "test",
        "data-dir": folder / "etcd",
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"test={peer}",
        "unsafe-no-fsync": "true",  # the tests kill programs, never the machine under them
        "log-level": "warn",
    }
    command = [str(folder_of_programs / "etcd"), *(f"--{name}={value}" for name, value in options.items())]
    return Program(command, lambda: answers(f"{client}/health"))


def _api_server(kubernetes: Path, certificates: Certificates, address: str, port: int, etcd_port: int) -> list[str]:
    options = {
        "etcd-servers": f"http://{LOOPBACK}:{etcd_port}",
        "bind-address": "0.0.0.0" if address != LOOPBACK else LOOPBACK,  # noqa: S104 - pods come through the bridge
        "advertise-address": address,
        "secure-port": port,
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "allow-privileged": "true",
        "client-ca-file": certificates.authority,
        "tls-cert-file": certificates.certificate("apiserver"),
        "tls-private-key-file": certificates.key("apiserver"),
        "kubelet-client-certificate": certificates.certificate("kubelet-client"),
        "kubelet-client-key": certificates.key("kubelet-client"),
        "kubelet-certificate-authority": certificates.authority,
        "kubelet-preferred-address-types": "InternalIP",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": certificates.folder / "tokens.pub",
        "service-account-signing-key-file": certificates.key("tokens"),
        "service-cluster-ip-range": SERVICE_RANGE,
        "endpoint-reconciler-type": "lease" if address != LOOPBACK else "none",  # an endpoint may not be loopback
        "cert-dir": certificates.folder,
    }
    return [str(kubernetes / "kube-apiserver"), *(f"--{name}={value}" for name, value in options.items())]


def is_ready(server: str, certificates: Certificates) -> bool:
    """Whether the API server there says that it is ready."""
    context = ssl.create_default_context(cafile=str(certificates.authority))
    context.load_cert_chain(certificates.certificate("admin"), certificates.key("admin"))
    return answers(f"{server}/readyz", context)


def _start_controllers(plane: ControlPlane) -> None:
    certificates, (port,) = plane.certificates, free_ports(1)
    certificates.issue("controllers", "system:kube-controller-manager")
    kubeconfig = certificates.kubeconfig("controllers", plane.server, plane.folder / "controllers.kubeconfig")
    options = {
        "kubeconfig": kubeconfig,
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "bind-address": LOOPBACK,
        "secure-port": port,
        "leader-elect": "false",
        "use-service-account-credentials": "true",
        "root-ca-file": certificates.authority,
        "service-account-private-key-file": certificates.key("tokens"),
        "cluster-signing-cert-file": certificates.authority,
        "cluster-signing-key-file": certificates.key("ca"),
        "cert-dir": certificates.folder,
    }
    command = [
        str(plane.programs / "kube-controller-manager"),
        *(f"--{name}={value}" for name, value in options.items()),
    ]

    def collects() -> bool:
        """It makes a namespace's default service account once its caches are filled."""
        try:
            return "default" in plane.kubectl("get", "serviceaccounts", "-n", "default", "-o", "name")
        except subprocess.CalledProcessError:
            return False

    plane.processes.start("kube-controller-manager", Program(command, collects))

"""The one node of the test cluster: containerd, kubelet, kube-proxy, DNS and the pods' network, on this machine.

The settings are those that it takes on a machine without systemd, with either version of cgroups and without the
right to raise limits, as in a container: cluster programs usually come with a machine that is made for them.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.cluster.control_plane import SERVICE_RANGE, ControlPlane, answers
from tests.cluster.processes import Program
from tests.cluster.programs import programs

NODE = "turnkeeper-test"
BRIDGE = "turnkeeper0"
"""The pods' bridge; its address is the node's, so that nothing depends on the machine's own networks."""

CLOSED = "KUBE-TURNKEEPER-CLOSED"
"""The chain that refuses what kube-proxy did not lead on; `remains` removes it, as its name is like kube-proxy's."""

NODE_ADDRESS = "10.244.0.1"
POD_RANGE = "10.244.0.0/24"
CNI_PROGRAMS = Path("/usr/lib/cni")
"""Where Debian's containernetworking-plugins lie."""

PAUSE_IMAGE = "turnkeeper.test/pause:1"

Settings = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Node:
    """The node's parts over a control plane; `start` them in order, and leave the stopping to the plane's processes."""

    plane: ControlPlane

    @property
    def containerd_socket(self) -> Path:
        """Where containerd listens."""
        return self.plane.folder / "containerd.sock"

    @property
    def ctr(self) -> list[str]:
        """The command line of containerd's own client, in the kubelet's namespace."""
        return ["ctr", f"--address={self.containerd_socket}", "--namespace=k8s.io"]

    def start_containerd(self) -> None:
        """Start containerd, with this folder as its only state."""
        folder = self.plane.folder
        config = _written(folder / "containerd.toml", _containerd_config(folder, self.containerd_socket))
        ready = [*self.ctr, "version"]
        self.plane.processes.start(
            "containerd", Program(["containerd", "--config", str(config)], lambda: _succeeds(ready))
        )

    @staticmethod
    def start_network(folder: Path) -> None:
        """Make the pods' bridge, and write down for containerd how pods are joined to it."""
        for command in (
            f"ip link add {BRIDGE} type bridge",
            f"ip address add {NODE_ADDRESS}/24 dev {BRIDGE}",
            f"ip link set {BRIDGE} up",
            *_closed_range(),
        ):
            subprocess.run(command.split(), check=True, capture_output=True, text=True)
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1\n")
        _written(folder / "cni" / "10-turnkeeper.conflist", json.dumps(_cni(folder), indent=1))

    def start_dns(self) -> None:
        """Serve the cluster's names at the node's address; pods are told of it by the kubelet."""
        corefile = f"""\
.:53 {{
    bind {NODE_ADDRESS}
    errors
    health {NODE_ADDRESS}:8053
    kubernetes cluster.local {{
        kubeconfig {self.plane.kubeconfig}
    }}
}}
"""
        path = _written(self.plane.folder / "Corefile", corefile)
        command = [str(programs("coredns") / "coredns"), "-conf", str(path)]
        self.plane.processes.start("coredns", Program(command, lambda: answers(f"http://{NODE_ADDRESS}:8053/health")))

    def start_scheduler(self) -> None:
        """Start the scheduler."""
        command = [
            str(self.plane.programs / "kube-scheduler"),
            f"--kubeconfig={self._kubeconfig('scheduler', 'system:kube-scheduler')}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            "--secure-port=0",
        ]
        self.plane.processes.start("kube-scheduler", Program(command, lambda: True))

    def start_kubelet(self) -> None:
        """Start the kubelet and return when the node is ready."""
        folder, certificates = self.plane.folder, self.plane.certificates
        kubeconfig = self._kubeconfig("kubelet", f"system:node:{NODE}", "system:nodes", (NODE_ADDRESS,))
        settings = {
            "authentication": {"x509": {"clientCAFile": str(certificates.authority)}, "anonymous": {"enabled": False}},
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(certificates.certificate("kubelet")),
            "tlsPrivateKeyFile": str(certificates.key("kubelet")),
            "address": NODE_ADDRESS,
            "clusterDNS": [NODE_ADDRESS],
            "clusterDomain": "cluster.local",
            "resolvConf": str(_written(folder / "resolv.conf", f"nameserver {NODE_ADDRESS}\n")),
            "containerRuntimeEndpoint": f"unix://{self.containerd_socket}",
            "podLogsDir": str(folder / "pod-logs"),
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "failCgroupV1": False,
            "failSwapOn": False,
            "localStorageCapacityIsolation": False,
            "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
            "imageGCHighThresholdPercent": 100,  # the images were loaded by hand: there is nowhere to get them again
        }
        config = _component("kubelet.config.k8s.io/v1beta1", "KubeletConfiguration", settings)
        command = [
            str(self.plane.programs / "kubelet"),
            f"--config={_written(folder / 'kubelet.yaml', config)}",
            f"--kubeconfig={kubeconfig}",
            f"--hostname-override={NODE}",
            f"--node-ip={NODE_ADDRESS}",
            f"--root-dir={folder / 'kubelet'}",
            f"--cert-dir={folder / 'kubelet-certificates'}",
        ]
        self.plane.processes.start("kubelet", Program(command, self._is_ready, seconds=60))

    def start_proxy(self) -> None:
        """Start kube-proxy, so that service addresses work from pods and from this machine."""
        settings = {
            "clientConnection": {"kubeconfig": str(self._kubeconfig("proxy", "system:kube-proxy"))},
            "mode": "iptables",
            "clusterCIDR": POD_RANGE,
            "hostnameOverride": NODE,
            "conntrack": {"maxPerCore": 0},
            "healthzBindAddress": f"{NODE_ADDRESS}:10256",
            "metricsBindAddress": f"{NODE_ADDRESS}:10249",
        }
        config = _component("kubeproxy.config.k8s.io/v1alpha1", "KubeProxyConfiguration", settings)
        command = [
            str(self.plane.programs / "kube-proxy"),
            f"--config={_written(self.plane.folder / 'proxy.yaml', config)}",
        ]
        ready = f"http://{NODE_ADDRESS}:10256/healthz"
        self.plane.processes.start("kube-proxy", Program(command, lambda: answers(ready)))

    def load(self, archive: Path) -> None:
        """Import an image from an archive, as a registry would have given it."""
        subprocess.run([*self.ctr, "images", "import", str(archive)], check=True, capture_output=True, text=True)

    def _is_ready(self) -> bool:
        try:
            query = "-o=jsonpath={.status.conditions[?(@.type=='Ready')].status}"
            return self.plane.kubectl("get", "node", NODE, query) == "True"
        except subprocess.CalledProcessError:
            return False

    def _kubeconfig(self, name: str, common_name: str, group: str = "", addresses: tuple[str, ...] = ()) -> Path:
        certificates = self.plane.certificates
        certificates.issue(name, common_name, group, addresses)
        return certificates.kubeconfig(name, self.plane.server, self.plane.folder / f"{name}.kubeconfig")


def _containerd_config(folder: Path, socket: Path) -> str:
    """What Debian's containerd needs here; `restrict_oom_score_adj`, as lowering the score is a right we may lack."""
    return f"""\
version = 2
root = "{folder}/containerd"
state = "{folder}/containerd-state"
[grpc]
address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
stream_server_address = "{NODE_ADDRESS}"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{CNI_PROGRAMS}"
conf_dir = "{folder}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
[plugins."io.containerd.internal.v1.opt"]
path = "{folder}/containerd-opt"
"""


def _cni(folder: Path) -> Settings:
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,  # a pod may reach itself by its service
        "ipam": {
            "type": "host-local",
            "dataDir": str(folder / "addresses"),
            "ranges": [[{"subnet": POD_RANGE, "rangeStart": "10.244.0.10", "gateway": NODE_ADDRESS}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": "turnkeeper", "plugins": [bridge, ports]}


def _closed_range() -> list[str]:
    """Commands that refuse a service address which kube-proxy does not know yet, or no more.

    Without them such a request would leave the machine, and whoever serves that address there would answer it.
    """
    chains = [f"iptables -A {chain} --destination {SERVICE_RANGE} -j {CLOSED}" for chain in ("OUTPUT", "FORWARD")]
    return [f"iptables -N {CLOSED}", f"iptables -A {CLOSED} -j REJECT", *chains]


def _component(version: str, kind: str, settings: Settings) -> str:
    return yaml.safe_dump({"apiVersion": version, "kind": kind, **settings})


def _written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _succeeds(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False, env=dict(os.environ)).returncode == 0

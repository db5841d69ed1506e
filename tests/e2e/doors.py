"""The way from a test to a Service: its own address where this machine is the node, else a forwarded port."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.cluster.processes import wait_until
from tests.e2e.site import Site

FORWARD_SECONDS = 15.0
"""How long kubectl may take to open a port: 0.3 s here; fifty times that."""


class Door:
    """A Service's URL. A forwarded port leads to one pod and is opened anew once that one is gone."""

    def __init__(self, address: str, forward: Callable[[Path], subprocess.Popen[bytes]]) -> None:
        self._address, self._forward = address, forward
        self._process: subprocess.Popen[bytes] | None = None
        self._log = Path(tempfile.mkstemp(prefix="turnkeeper-door-")[1])

    def url(self) -> str:
        """Where the Service answers now, without a slash at the end."""
        if self._address:
            return self._address
        if self._process is None or self._process.poll() is not None:
            self._log.write_bytes(b"")
            self._process = self._forward(self._log)
            wait_until(lambda: "127.0.0.1:" in self._log.read_text(), "the port is open", seconds=FORWARD_SECONDS)
        line = self._log.read_text().splitlines()[0]  # Forwarding from 127.0.0.1:40123 -> 8080
        return f"http://{line.split(' from ')[1].split(' ->')[0]}"

    def close(self) -> None:
        """End what forwards."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._log.unlink(missing_ok=True)


def open_door(site: Site, namespace: str, service: str) -> Door:
    """Return the way to a Service's first port."""
    where = [f"--namespace={namespace}"]

    def forward(log: Path) -> subprocess.Popen[bytes]:
        port = site.kubectl(*where, "get", "service", service, "--output=jsonpath={.spec.ports[0].port}")
        with log.open("wb") as out:
            return subprocess.Popen(
                [site.kubectl_program, *where, "port-forward", f"service/{service}", f":{port}"],
                env={**os.environ, "KUBECONFIG": str(site.kubeconfig)},
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    if site.machine is None:
        return Door("", forward)
    wanted = "--output=jsonpath={.spec.clusterIP}:{.spec.ports[0].port}"
    return Door("http://" + site.kubectl(*where, "get", "service", service, wanted), forward)

"""The control plane and the node of the test cluster are real: they refuse, collect and run as any cluster's do."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.cluster.control_plane import control_plane
from tests.cluster.processes import wait_until
from tests.e2e.site import Site, run

OWNED = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "owned", "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}]},
}

HASHES = """
import hashlib, json, pathlib, turnkeeper
folder = pathlib.Path(turnkeeper.__file__).parent
files = sorted(folder.rglob("*.py"))
print(json.dumps({str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}))
"""
"""Prints what each file of the package is, wherever it is installed."""


def test_the_api_server_knows_accounts_rights_and_versions() -> None:
    """A token of a service account is refused what it has no right to, and an old version is a conflict."""
    with control_plane() as plane:
        plane.kubectl("create", "serviceaccount", "somebody")
        token = plane.kubectl("create", "token", "somebody").strip()
        asked = ["get", "leases", f"--token={token}", f"--server={plane.server}", "--kubeconfig=/dev/null"]
        authority = f"--certificate-authority={plane.certificates.authority}"
        with pytest.raises(subprocess.CalledProcessError, match="1"):
            plane.kubectl(*asked, authority)
        assert "yes" in plane.kubectl("auth", "can-i", "get", "leases")
        assert plane.kubectl("get", "leases") == ""


def test_what_an_owner_leaves_is_collected() -> None:
    """With its controllers, an object goes with its owner."""
    with control_plane(controllers=True) as plane:
        plane.kubectl("create", "configmap", "owner")
        uid = plane.kubectl("get", "configmap", "owner", "--output=jsonpath={.metadata.uid}")
        body = json.loads(json.dumps(OWNED))
        body["metadata"]["ownerReferences"][0]["uid"] = uid
        plane.kubectl("apply", "--filename=-", stdin=json.dumps(body))
        plane.kubectl("delete", "configmap", "owner")
        wait_until(
            lambda: "owned" not in plane.kubectl("get", "configmaps", "--output=name"), "it is collected", seconds=30
        )


def test_pods_reach_services_by_name(cluster_site: Site) -> None:
    """A pod finds the API server by its name, which takes DNS, the service's address and the pods' network."""
    script = "import socket; print(socket.create_connection(('kubernetes.default.svc', 443), 5).getpeername()[0])"
    options = ["--restart=Never", "--rm", "--attach", "--quiet", f"--image={cluster_site.image}"]
    command = ["--image-pull-policy=IfNotPresent", "--command", "--", "python", "-c", script]
    said = cluster_site.kubectl("run", "names", *options, *command)
    assert said.strip().endswith(".1")


def test_the_image_holds_this_tree(cluster_site: Site) -> None:
    """What the tests try is what lies here, and not what a builder has kept of an earlier build."""
    if cluster_site.machine is None:
        pytest.skip("an image that the user names may be of another tree")
    options = ["--restart=Never", "--rm", "--attach", "--quiet", f"--image={cluster_site.image}"]
    command = ["--image-pull-policy=IfNotPresent", "--command", "--", "python3", "-c", HASHES]
    held = json.loads(cluster_site.kubectl("run", "hashes", *options, *command))
    assert held == json.loads(run([sys.executable, "-c", HASHES]))

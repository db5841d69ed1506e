"""One authority of a cluster's own, its certificates, and the kubeconfig files that carry them.

By the program `openssl`, which is on every machine: a library for it would be one more thing to install.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

DAYS = "30"
"""How long a certificate lives: arbitrary; longer than anybody keeps a test cluster."""

NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", DAYS)
"""A key on this curve is made in a millisecond; RSA takes a hundred."""


class Certificates:
    """The files of one authority in a folder: `ca.crt`, and `NAME.crt` and `NAME.key` of each identity."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self.authority.exists():
            _openssl("req", "-x509", *NEW_KEY, "-subj", "/CN=turnkeeper-test", *self._files("ca"))

    @property
    def authority(self) -> Path:
        """The authority's certificate."""
        return self.certificate("ca")

    def certificate(self, name: str) -> Path:
        """The certificate's file of an identity."""
        return self.folder / f"{name}.crt"

    def key(self, name: str) -> Path:
        """The private key's file of an identity."""
        return self.folder / f"{name}.key"

    def issue(self, name: str, common_name: str, organization: str = "", addresses: Sequence[str] = ()) -> None:
        """Issue a certificate for client and server; `addresses` are host names and IP addresses that it serves."""
        subject = f"/O={organization}/CN={common_name}" if organization else f"/CN={common_name}"
        extensions = ["basicConstraints=critical,CA:FALSE", "extendedKeyUsage=clientAuth,serverAuth"]
        if addresses:
            names = [f"{'IP' if one.replace('.', '').isdigit() else 'DNS'}:{one}" for one in addresses]
            extensions.append("subjectAltName=" + ",".join(names))
        options = [part for extension in extensions for part in ("-addext", extension)]
        signed_by = ["-CA", str(self.authority), "-CAkey", str(self.key("ca"))]
        _openssl("req", "-x509", *NEW_KEY, "-subj", subject, *signed_by, *options, *self._files(name))

    def issue_signing_key(self, name: str) -> None:
        """Make a key pair without a certificate: `NAME.key` signs service account tokens, `NAME.pub` checks them."""
        key, public = str(self.key(name)), str(self.folder / f"{name}.pub")
        _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key)
        _openssl("pkey", "-in", key, "-pubout", "-out", public)

    def kubeconfig(self, name: str, server: str, path: Path) -> Path:
        """Write a kubeconfig in which an identity speaks to a server, whole in one file; return its path."""
        cluster = {"server": server, "certificate-authority-data": _encoded(self.authority)}
        user = {
            "client-certificate-data": _encoded(self.certificate(name)),
            "client-key-data": _encoded(self.key(name)),
        }
        settings = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "turnkeeper-test", "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": name, "context": {"cluster": "turnkeeper-test", "user": name}}],
            "current-context": name,
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(settings, indent=1))  # every JSON text is YAML
        return path

    def _files(self, name: str) -> list[str]:
        return ["-keyout", str(self.key(name)), "-out", str(self.certificate(name))]


def _openssl(*arguments: str) -> None:
    finished = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False, timeout=30)
    if finished.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]} failed: {finished.stderr.strip()}")


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()

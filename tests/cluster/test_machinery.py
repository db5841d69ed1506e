"""The parts of the test cluster that can be tried without one."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.certificates import Certificates
from tests.cluster.processes import Processes, Program
from tests.cluster.programs import PARTS, tool_packages
from tests.cluster.remains import without_rules
from tests.soak.waiting import LateError

SAVED = """\
*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:CNI-HOSTPORT-DNAT - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -p tcp --dport 25 -j REDIRECT --to-ports 2525
COMMIT
"""

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()"


def program(source: str, log: Path) -> Program:
    """A Python program that is ready once it has printed something."""
    return Program([sys.executable, "-c", source], lambda: log.exists() and log.read_text())


def test_only_a_clusters_rules_are_taken_from_the_firewall() -> None:
    """A rule that somebody else has made stays, and what is left is whole enough to be restored."""
    assert without_rules(SAVED).splitlines() == [
        "*nat",
        ":PREROUTING ACCEPT [0:0]",
        "-A PREROUTING -p tcp --dport 25 -j REDIRECT --to-ports 2525",
        "COMMIT",
    ]


def test_each_part_names_its_programs() -> None:
    """A go.mod says as tools what is built of it; Kubernetes' names six."""
    found = {part.name: tool_packages((part / "go.mod").read_text("utf-8")) for part in PARTS.iterdir()}
    assert {name: len(packages) for name, packages in found.items()} == {
        "coredns": 1,
        "etcd": 1,
        "helm": 1,
        "kubernetes": 6,
    }
    assert "k8s.io/kubernetes/cmd/kubelet" in found["kubernetes"]


def test_programs_are_stopped_by_whoever_finds_their_records(tmp_path: Path) -> None:
    """A second life that knows nothing but the folder stops what the first one started, also what ignores SIGTERM."""
    first = Processes(tmp_path, outlives=True)
    first.start("quick", program("import signal; print('up', flush=True); signal.pause()", tmp_path / "logs/quick.log"))
    first.start("stubborn", program(STUBBORN, tmp_path / "logs/stubborn.log"))
    second = Processes(tmp_path, outlives=True)
    assert second.running()
    second.stop("stubborn", by=signal.SIGKILL)
    assert not second.running()
    second.stop_all()
    assert first.pid("quick") == first.pid("stubborn") == 0
    assert not second.running()


def test_a_program_that_ends_at_once_is_told_with_its_last_words(tmp_path: Path) -> None:
    """Whoever starts it reads why, not that a time was up."""
    processes = Processes(tmp_path, outlives=False)
    with pytest.raises(LateError, match=r"(?s)ended with 3.*no such port"):
        processes.start("lost", Program([sys.executable, "-c", "print('no such port'); exit(3)"], lambda: False))


def test_a_stranger_under_a_recorded_pid_is_left_alone(tmp_path: Path) -> None:
    """The kernel gives pids out again: a record whose start time is another's is nobody's."""
    processes = Processes(tmp_path, outlives=False)
    processes.start("one", program("print('up', flush=True); import signal; signal.pause()", tmp_path / "logs/one.log"))
    record = tmp_path / "pids" / "one"
    record.write_text(record.read_text().replace('"started": "', '"started": "9'))
    assert Processes(tmp_path, outlives=False).pid("one") == 0
    record.write_text(record.read_text().replace('"started": "9', '"started": "'))
    processes.stop_all()


def test_a_certificate_is_of_its_authority_and_for_its_addresses(tmp_path: Path) -> None:
    """OpenSSL, which is not what clusters use, finds nothing to complain of."""
    certificates = Certificates(tmp_path / "certificates")
    certificates.issue("server", "kube-apiserver", "system:masters", ("localhost", "127.0.0.1"))
    checked = ["-CAfile", str(certificates.authority), str(certificates.certificate("server"))]
    for option in ("-verify_ip=127.0.0.1", "-verify_hostname=localhost"):
        subprocess.run(["openssl", "verify", *option.split("="), *checked], check=True, capture_output=True)
    refused = ["openssl", "verify", "-verify_ip", "127.0.0.2", *checked]
    assert subprocess.run(refused, check=False, capture_output=True).returncode != 0

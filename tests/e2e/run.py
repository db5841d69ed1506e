"""All tests on one cluster with the chart in it.

Most run side by side. Beside them, one after another, run those that trouble the controller or its release: the others
only wait longer for it meanwhile. At the end come those that nothing may run beside. The cluster and the release are
made once and handed to each run of pytest; what this was called with is handed on.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pytest

from tests.e2e.releases import release_in
from tests.e2e.site import GIVEN, given_to, site

WORKERS = os.environ.get("TURNKEEPER_E2E_WORKERS", "4")
"""Tests side by side. Arbitrary: twice the cores of a small machine, since they mostly wait for ttls and pods."""

TOGETHER = ("-m", "not alone and not release", "-n", WORKERS, "--dist", "worksteal", "tests/cluster", "tests/e2e")
RELEASE = ("-m", "release", "tests/e2e")
ALONE = ("-m", "alone", "tests/e2e")


def main() -> int:
    """Run all and return the worst of their codes; that one of them had nothing to run is no fault."""
    with site() as found, release_in(found), tempfile.TemporaryFile() as told:
        environment = {**os.environ, GIVEN: given_to(found), "TURNKEEPER_E2E": "1"}
        with subprocess.Popen(command(RELEASE), stdout=told, stderr=subprocess.STDOUT, env=environment) as beside:
            codes = [subprocess.run(command(TOGETHER), check=False, env=environment).returncode]
            codes.append(beside.wait())
        told.seek(0)
        sys.stdout.write(told.read().decode("utf-8", "replace"))
        sys.stdout.flush()
        codes.append(subprocess.run(command(ALONE), check=False, env=environment).returncode)
    ran = set(codes) - {int(pytest.ExitCode.NO_TESTS_COLLECTED)}
    return max(ran, default=int(pytest.ExitCode.NO_TESTS_COLLECTED))


def command(part: tuple[str, ...]) -> list[str]:
    """The command line of one part."""
    return [sys.executable, "-m", "pytest", "--timeout=900", *part, *sys.argv[1:]]


if __name__ == "__main__":
    raise SystemExit(main())

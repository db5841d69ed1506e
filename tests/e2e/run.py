"""All tests on one cluster with the chart in it: most of them side by side, then those that want it to themselves.

The cluster and the release are made once and handed to both runs of pytest; what this was called with is handed on.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.e2e.releases import release_in
from tests.e2e.site import GIVEN, given_to, site

WORKERS = os.environ.get("TURNKEEPER_E2E_WORKERS", "4")
"""Tests side by side. Arbitrary: twice the cores of a small machine, since they mostly wait for ttls and pods."""

TOGETHER = ("-m", "not alone", "-n", WORKERS, "--dist", "loadgroup", "tests/cluster", "tests/e2e")
ALONE = ("-m", "alone", "tests/e2e")


def main() -> int:
    """Run both and return the worse of their codes; that one of them had nothing to run is no fault."""
    with site() as found, release_in(found):
        environment = {**os.environ, GIVEN: given_to(found), "TURNKEEPER_E2E": "1"}
        codes = [
            subprocess.run(
                [sys.executable, "-m", "pytest", "--timeout=900", *part, *sys.argv[1:]], check=False, env=environment
            ).returncode
            for part in (TOGETHER, ALONE)
        ]
    if set(codes) == {pytest.ExitCode.NO_TESTS_COLLECTED}:
        return pytest.ExitCode.NO_TESTS_COLLECTED
    return max(code for code in codes if code != pytest.ExitCode.NO_TESTS_COLLECTED)


if __name__ == "__main__":
    raise SystemExit(main())

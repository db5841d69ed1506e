"""`turnkeeper run` as processes of their own: started, asked over HTTP, and killed by the id that was noted."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import httpx

from bench.databases import Place

ROOT = Path(__file__).parents[1]
START_SECONDS = 60.0
"""How long a start may take on a busy machine; alone it takes about one."""


class NotStartedError(Exception):
    """A runner did not start; the text is its own last words."""


@dataclass(frozen=True)
class Served:
    """A running `turnkeeper run`."""

    process: subprocess.Popen[bytes]
    address: str

    def resident_mib(self) -> float:
        """Return the process's resident memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) / 1024

    def kill(self) -> float:
        """Kill the process as a crash would, and return the wall clock's seconds just before."""
        now = time.time()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        return now

    def send(self, thread_id: str, content: object, client: httpx.Client) -> dict[str, object]:
        """Send a message and return what it was told."""
        answer = client.post(f"{self.address}/v1/threads/{thread_id}/messages", json={"content": content})
        answer.raise_for_status()
        told: dict[str, object] = answer.json()
        return told


@contextmanager
def serving(where: Place, *arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[Served]:
    """Start a runner on a database and yield it once it answers; kill it on leaving.

    A start that fails is tried again, as a supervisor would: with a short ttl its first calls have short deadlines.
    """
    command = [sys.executable, "-m", "turnkeeper", "run", "--port", "0", "--journal", where.driver_url, *arguments]
    told = {**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})}
    deadline = time.monotonic() + START_SECONDS
    with tempfile.TemporaryFile() as log:
        while True:
            process = subprocess.Popen(command, stderr=log, stdout=log, env=told)
            try:
                if address := _address(process, log, deadline):
                    yield Served(process, address)
                    return
            finally:
                process.kill()
                process.wait()
            if time.monotonic() > deadline:
                raise NotStartedError(_said(log)[-2000:])


def _said(log: IO[bytes]) -> str:
    return os.pread(log.fileno(), 1 << 20, 0).decode()


def _address(process: subprocess.Popen[bytes], log: IO[bytes], deadline: float) -> str | None:
    """Return where the process answers, or None if it ended or takes too long."""
    while time.monotonic() < deadline and process.poll() is None:
        if found := re.findall(r"(http://[\d.]+:\d+)  \(API", _said(log)):
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{found[-1]}/readyz").is_success:
                    return str(found[-1])
        time.sleep(0.01)
    return None

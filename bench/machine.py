"""What a figure was measured on: without it no figure means anything."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import uvloop

from bench.databases import Place, place, raw_connection

SYNCS = 200
"""Syncs timed. Arbitrary: a second's worth on a slow disk."""


def sync_milliseconds() -> dict[str, float]:
    """Return what one durable write of a page costs where the databases lie: median and 99th percentile."""
    taken = []
    with tempfile.NamedTemporaryFile(prefix="turnkeeper-bench-") as file:
        for _ in range(SYNCS):
            os.write(file.fileno(), bytes(4096))
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - began) * 1000)
    return {"p50": statistics.median(taken), "p99": statistics.quantiles(taken, n=100)[98]}


def file_system() -> str:
    """Return the kind of file system that the databases lie on: a tmpfs would sync for nothing."""
    asked = ["stat", "--file-system", "--format=%T", tempfile.gettempdir()]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


def python_milliseconds() -> float:
    """Return what a fixed piece of Python takes: how fast, or how busy, this machine is next to another."""
    taken = []
    for _ in range(5):
        began = time.perf_counter()
        sum(number * number for number in range(1_000_000))
        taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)


async def _postgresql_version(where: Place) -> str:
    async with raw_connection(where) as connection:
        version: str = await connection.fetchval("SHOW server_version")
    return version


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def describe() -> dict[str, object]:
    """Return the machine as it is now, its load included."""
    with place("postgresql") as where:
        postgresql = uvloop.run(_postgresql_version(where))
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_gib": round(memory_bytes / 2**30, 1),
        "kernel": platform.release(),
        "file_system": file_system(),
        "sync_milliseconds": sync_milliseconds(),
        "python_loop_milliseconds": python_milliseconds(),
        "load_before": os.getloadavg()[0],
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "postgresql": postgresql,
    }

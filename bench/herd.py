"""A runner with a thousand claims is killed: how two others take them, on an API server that takes so much and no more.

etcd and an API server of this benchmark's own, three runners as in their pods, and a proxy before the API server that
lets so many writes a second through and answers 429 beyond. A turn's second run ends at once, so each thread costs two
writes: its claim and the claim's end. Clients, servers and proxy share the cores.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.databases import place
from bench.report import table
from tests.cluster.control_plane import control_plane
from tests.kube.fault_proxy import fault_proxy
from tests.kube.herd import WORKSPACE, Site, run_herd
from turnkeeper.adapters.kube.api import open_kube_api
from turnkeeper.adapters.kube.resources import NAMESPACES
from turnkeeper.adapters.sql_journal import open_journal

CLAIMS = 1_000
QUICK_CLAIMS = 100
TTL_SECONDS = 15.0
UNLIMITED = 1_000_000
LIMITS = (100, UNLIMITED)
"""Writes a second."""


def run(*, quick: bool = False) -> list[dict[str, Any]]:
    """Measure each limit, and return what came of it."""
    claims = QUICK_CLAIMS if quick else CLAIMS
    with control_plane() as plane:
        return [asyncio.run(measure(plane.kubeconfig, limit, claims)) for limit in LIMITS]


async def measure(kubeconfig: Path, limit: int, claims: int) -> dict[str, Any]:
    """Measure one herd, in a namespace and a database of its own."""
    namespace = f"herd-{limit}"
    api = await open_kube_api(deadline_seconds=30.0, kubeconfig=kubeconfig)
    await api.create(NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    with place("postgresql") as where, tempfile.TemporaryDirectory(prefix="turnkeeper-bench-") as folder:
        journal = await open_journal(where.url, WORKSPACE)
        async with fault_proxy(kubeconfig) as proxy:
            site = Site(kubeconfig, namespace, where.url, Path(folder))
            told = await run_herd(site, proxy, api, journal, claims=claims, ttl_seconds=TTL_SECONDS, writes=limit)
        await journal.aclose()
    await api.aclose()
    return asdict(told)


def herd_table(figures: Sequence[Mapping[str, Any]]) -> str:
    """Return how each herd was taken."""
    rows = []
    for one in figures:
        limit = "none" if one["writes_per_second"] == UNLIMITED else f"{one['writes_per_second']}"
        times = [f"{one[f'{name}_seconds']:.1f}" for name in ("first", "median", "last")]
        counts = [f"{one[name]:,}" for name in ("writes", "reads", "refused", "lapsed")]
        again = one["claims"] - one["attempts"].get("2", 0)
        gap = f"{one['longest_renewal_gap_seconds']:.1f}"
        shares = " + ".join(map(str, one["shares"]))
        rows.append([f"{one['claims']:,}", limit, *times, *counts, gap, shares, f"{again}"])
    head = ["claims", "writes/s let through", "first run after, s", "median", "last", "writes", "reads", "429"]
    head += ["other sessions lapsed", "longest between renewals, s", "shares", "threads run other than once"]
    return table(head, rows)

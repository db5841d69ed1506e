"""A herd: many claims of one runner that is killed, and the runners that take them, on an API server that takes little.

The runners are processes as in their pods. They reach the API server through a proxy that lets so many writes a second
through and answers 429 beyond, as API priority and fairness does with what finds no place in its queues.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

import httpx

from tests.cluster.control_plane import free_ports
from tests.controller.test_runner import PROGRAM
from tests.kube.fault_proxy import FaultProxy, kubeconfig_for
from tests.soak.waiting import until
from turnkeeper.adapters.kube.api import KubeApi
from turnkeeper.adapters.kube.resources import LEASES
from turnkeeper.adapters.sql_journal import SqlJournal
from turnkeeper.core.words import Kind
from turnkeeper.settings.pod_variables import NAMESPACE, POD_ADDRESS, POD_NAME, POD_UID, WORKSPACE_NAME

WORKSPACE = "herd"
TOKEN = "0123456789abcdef"  # noqa: S105 - made up for these tests
SENDERS = 16
"""Messages sent at once. Arbitrary: enough to be quick, and no herd by themselves."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where a herd lives. url: of its journal's database."""

    kubeconfig: Path
    namespace: str
    url: str
    folder: Path


@dataclass
class Process:
    """A runner's process."""

    name: str
    process: asyncio.subprocess.Process
    client: httpx.AsyncClient
    ports: list[int]

    async def is_ready(self) -> bool:
        """Whether the kubelet would call it ready."""
        with contextlib.suppress(httpx.HTTPError):
            return (await self.client.get(f"http://127.0.0.1:{self.ports[1]}/readyz")).status_code == httpx.codes.OK
        return False

    async def send(self, thread: str) -> None:
        """Send a message to a thread; again where its connection was closed under it."""

        async def is_sent() -> bool:
            with contextlib.suppress(httpx.TransportError):
                answer = await self.client.post(
                    f"http://127.0.0.1:{self.ports[0]}/v1/threads/{thread}/messages",
                    json={"content": thread, "message_id": thread},
                )
                return answer.is_success
            return False

        await until(is_sent, f"a message to {thread} is accepted", poll_seconds=0.2)


@contextlib.asynccontextmanager
async def runner(
    name: str, site: Site, proxy: FaultProxy, *, claims: int, ttl_seconds: float
) -> AsyncIterator[Process]:
    """One process, ready."""
    folder = site.folder / name
    folder.mkdir()
    settings = {
        "workspace": WORKSPACE,
        "claim_ttl_seconds": ttl_seconds,
        "journal": {"postgres": {"url": site.url}},
        "handler": {"python": {"entry_point": "tests.kube.herd_turn:turn", "search_path": [str(Path.cwd())]}},
        "runner": {"max_turns": claims},
    }
    (folder / "settings.yaml").write_text(json.dumps(settings), "utf-8")
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig_for(proxy.url, folder)),
        "TURNKEEPER_CONFIG": str(folder / "settings.yaml"),
        "TURNKEEPER_AUTH__TOKENS": TOKEN,
        NAMESPACE: site.namespace,
        POD_NAME: name,
        POD_UID: f"uid-of-{name}",
        POD_ADDRESS: "127.0.0.1",
        WORKSPACE_NAME: WORKSPACE,
    }
    ports = free_ports(3)
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM, *map(str, ports)), env=environment, stderr=log
        )
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(trust_env=False, timeout=60, headers=headers) as client:
        made = Process(name, process, client, ports)
        try:
            await until(made.is_ready, f"{name} is ready")
            yield made
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


@dataclass
class Told:
    """What came of a herd. Times are in seconds since the death.

    attempts: how many threads had so many runs. shares: how many of the threads each of the others took. lapsed: how
    many sessions ended beside that of the dead. longest_renewal_gap_seconds: between two renewals that were let in.
    """

    claims: int
    ttl_seconds: float
    writes_per_second: int
    seconds: float = 0.0
    shares: list[int] = field(default_factory=list)
    first_seconds: float = 0.0
    median_seconds: float = 0.0
    last_seconds: float = 0.0
    attempts: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    refused_renewals: int = 0
    writes: int = 0
    reads: int = 0
    lapsed: int = 0
    longest_renewal_gap_seconds: float = 0.0

    def __str__(self) -> str:
        return json.dumps(asdict(self))


async def run_herd(
    site: Site, proxy: FaultProxy, api: KubeApi, journal: SqlJournal, *, claims: int, ttl_seconds: float, writes: int
) -> Told:
    """Kill a runner with so many claims, and tell how two others took them. journal: another client of the same."""
    told = Told(claims, ttl_seconds, writes)
    async with contextlib.AsyncExitStack() as stack:

        async def start(name: str) -> Process:
            return await stack.enter_async_context(runner(name, site, proxy, claims=claims, ttl_seconds=ttl_seconds))

        dying = await start("runner-0")
        threads = [f"t{number}" for number in range(claims)]
        for first in range(0, claims, SENDERS):
            await asyncio.gather(*(dying.send(thread) for thread in threads[first : first + SENDERS]))

        async def are_running() -> bool:
            return (await journal.stats()).running == claims

        await until(are_running, "every thread runs", seconds=60)
        for name in ("runner-1", "runner-2"):
            await start(name)
        before = await sessions(api, site)
        proxy.limit_writes(writes)
        proxy.requests.clear()
        dying.process.kill()
        died_seconds, died_ms = time.monotonic(), time.time() * 1000

        async def are_over() -> bool:
            stats = await journal.stats()
            return stats.running == stats.owed == 0

        await until(are_over, "every thread's turn has ended", seconds=90, poll_seconds=0.25)
        told.lapsed = len(before - await sessions(api, site)) - 1
        told.seconds = time.monotonic() - died_seconds
        count_requests(told, proxy)
        await count_runs(told, journal, threads, died_ms)
    return told


async def sessions(api: KubeApi, site: Site) -> set[str]:
    """The names of the sessions that exist."""
    found = await api.list(LEASES, site.namespace, "turnkeeper.dev/lease=session")
    return {lease["metadata"]["name"] for lease in found.items}


def count_requests(told: Told, proxy: FaultProxy) -> None:
    """Fill in what the API server was asked."""
    told.refused = len(proxy.refused)
    told.refused_renewals = sum(request.method == "PATCH" for request in proxy.refused)
    told.writes = sum(request.method != "GET" for request in proxy.requests) - told.refused
    told.reads = len(proxy.sent("GET"))
    renewals: dict[str, list[float]] = {}
    for request in proxy.sent("PATCH"):
        if request not in proxy.refused:
            renewals.setdefault(request.path, []).append(request.at_seconds)
    gaps = [later - sooner for times in renewals.values() for sooner, later in pairwise(times)]
    told.longest_renewal_gap_seconds = max(gaps, default=told.seconds)


async def count_runs(told: Told, journal: SqlJournal, threads: list[str], died_ms: float) -> None:
    """Fill in what the journal says of each thread."""
    started: list[float] = []
    takers: Counter[str] = Counter()
    for thread in threads:
        runs = [entry for entry in await journal.log(thread, 0, 100) if entry.kind is Kind.RUN_STARTED]
        told.attempts[str(len(runs))] = told.attempts.get(str(len(runs)), 0) + 1
        takers[str(runs[-1].body["runner"])] += 1
        started.append((runs[-1].created_ms - died_ms) / 1000)
    started.sort()
    told.first_seconds, told.last_seconds = started[0], started[-1]
    told.shares = sorted(takers.values())
    told.median_seconds = started[len(started) // 2]

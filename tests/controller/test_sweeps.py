"""The sweep: real runners, in processes of their own on one journal, asked by a controller at their pods' addresses.

Their own sweeps are an hour apart, so that what is taken is taken because the controller asked.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import URL

from tests.cluster.control_plane import free_ports
from tests.contract.play import begin, send
from tests.controller.cluster import Cluster, Object
from tests.soak.waiting import pause, until
from turnkeeper.adapters.kube.resources import PODS, SECRETS
from turnkeeper.adapters.prometheus import PrometheusObserver
from turnkeeper.adapters.sql_journal import SqlJournal, open_journal
from turnkeeper.controller.runner_calls import RunnerCalls

# kopf ends its loop before its last connections are closed: the warning comes with whatever test runs then.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

ADDRESSES = ("127.0.0.2", "127.0.0.3")
HOURLY: dict[str, Any] = {"recover": {"intervalSeconds": 3600}}


@contextlib.asynccontextmanager
async def runner(address: str, port: int, file: Path, token: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A runner in a process of its own, ready."""
    options = ["--host", address, "--port", str(port), "--journal", str(file), "--recover-interval", "3600"]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "turnkeeper", "run", *options),
        env={**os.environ, "TURNKEEPER_AUTH__TOKENS": token},
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with httpx.AsyncClient(trust_env=False) as client:

            async def is_ready() -> bool:
                with contextlib.suppress(httpx.HTTPError):
                    return (await client.get(f"http://{address}:{port}/readyz")).is_success
                return False

            await until(is_ready, f"a runner is ready at {address}")
        await pause(1.0)  # its sweep of an empty journal, as it starts, is over
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


class Stage:
    """A Workspace with two runners whose pods are not there yet, and their journal."""

    def __init__(self, cluster: Cluster, port: int, workspace: Object, journal: SqlJournal) -> None:
        self.cluster = cluster
        self.port = port
        self.workspace = workspace
        self.journal = journal

    async def is_answered(self, thread: str) -> bool:
        """Whether nothing is owed or running in a thread."""
        found = await self.journal.thread(thread)
        return found is not None and found.run is None and not found.is_owed

    async def until_answered(self, thread: str) -> None:
        """Wait for it."""
        await until(lambda: self.is_answered(thread), f"{thread} is answered", seconds=15)

    async def strand(self, thread: str) -> None:
        """Leave a run open whose session is gone, and of which no runner here has ever heard: only a sweep finds it."""
        await send(self.journal, thread)
        await begin(self.journal, thread, f"run-of-{thread}", session=f"gone-{thread}")
        await pause(1.5)
        assert not await self.is_answered(thread)


@pytest.fixture
async def stage(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Stage]:
    """See Stage."""
    (port,) = free_ports(1)
    file = tmp_path / "journal.db"
    async with contextlib.AsyncExitStack() as stack:
        calls = RunnerCalls(api_port=port, probe_port=port)
        await stack.enter_async_context(cluster.controlled(calls))
        workspace = await cluster.apply(**HOURLY)
        secret = await cluster.until_there(SECRETS, "first-tokens")
        token = base64.b64decode(secret["data"]["tokens"]).decode()
        for address in ADDRESSES:
            await stack.enter_async_context(runner(address, port, file, token))
        journal = await open_journal(URL.create("sqlite", database=str(file)), "default", PrometheusObserver())
        stack.push_async_callback(journal.aclose)
        await cluster.until_told("Ready", "RunnersStarting")
        yield Stage(cluster, port, workspace, journal)


async def test_a_stranded_message_is_taken_when_a_runner_is_there_to_be_asked(stage: Stage) -> None:
    """And the status says what was done, and that nothing is left."""
    cluster = stage.cluster
    await stage.strand("alice")
    await cluster.make_pod(stage.workspace, "a", ADDRESSES[0])
    await stage.until_answered("alice")
    await cluster.until_told("Recovered", "Swept")
    await cluster.until_told("Ready", "RunnersReady")
    await cluster.until_told("JournalReachable", "RunnersReachIt")
    status = (await cluster.workspace())["status"]
    assert (status["threads"]["owed"], status["threads"]["parked"]) == (0, 0)
    assert (status["lastRecover"]["started"], status["lastRecover"]["runners"]) == (1, 1)


async def test_every_runner_is_asked(stage: Stage) -> None:
    """One alone may be full or dying: the other one's answer is counted, too."""
    cluster = stage.cluster
    for name, address in zip("ab", ADDRESSES, strict=True):
        await cluster.make_pod(stage.workspace, name, address)

    async def both() -> bool:
        return bool((await cluster.workspace())["status"].get("lastRecover", {}).get("runners") == 2)

    await until(both, "both runners are asked", seconds=15)


async def test_a_runner_that_disappears_is_a_reason_to_sweep(stage: Stage) -> None:
    """At once, although the interval is an hour: what it ran, or had accepted, is owed."""
    cluster = stage.cluster
    for name, address in zip("ab", ADDRESSES, strict=True):
        await cluster.make_pod(stage.workspace, name, address)
    await cluster.until_told("Recovered", "Swept")
    await stage.strand("bob")
    await cluster.api.delete(PODS, cluster.namespace, "a")
    await stage.until_answered("bob")


async def test_a_container_that_was_started_anew_is_a_reason_to_sweep(stage: Stage) -> None:
    """Its pod is still there, and its earlier life is not."""
    cluster = stage.cluster
    await cluster.make_pod(stage.workspace, "b", ADDRESSES[1])
    await cluster.until_told("Recovered", "Swept")
    await stage.strand("carol")
    await cluster.say_of_pod("b", {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, address=ADDRESSES[1])
    await cluster.say_of_pod("b", {"running": {}}, address=ADDRESSES[1], is_ready=True, restarts=1)
    await stage.until_answered("carol")


async def test_a_controller_that_was_away_sweeps_as_it_starts(stage: Stage) -> None:
    """It may have missed anything."""
    cluster = stage.cluster
    await cluster.make_pod(stage.workspace, "a", ADDRESSES[0])
    await cluster.until_told("Recovered", "Swept")
    await stage.strand("dave")
    async with cluster.controlled(RunnerCalls(api_port=stage.port, probe_port=stage.port)):
        await stage.until_answered("dave")


async def test_a_runner_that_does_not_answer_is_told_and_the_others_are_swept(stage: Stage) -> None:
    """It is named, with what it said; and it is tried again soon."""
    cluster = stage.cluster
    await stage.strand("erin")
    await cluster.make_pod(stage.workspace, "a", ADDRESSES[0])
    await cluster.make_pod(stage.workspace, "b", "127.0.0.4")
    await stage.until_answered("erin")
    told = await cluster.until_told("Recovered", "SweepFails")
    assert told["message"].startswith("1 of 2 runners could not be asked: b: it does not answer")
    await cluster.say_of_pod("b", {"running": {}}, address=ADDRESSES[1], is_ready=True)
    await cluster.until_told("Recovered", "Swept")

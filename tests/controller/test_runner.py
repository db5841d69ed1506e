"""`turnkeeper runner` as a process: its Leases on a real API server, its probes, and how it starts and ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cluster.control_plane import free_ports
from tests.controller.cluster import Cluster, Object
from tests.controller.workspaces import spec
from tests.soak.waiting import until
from turnkeeper.adapters.kube.resources import LEASES
from turnkeeper.controller.manifests import Names
from turnkeeper.settings.pod_variables import JOURNAL_AWAY, NAMESPACE, POD_ADDRESS, POD_NAME, POD_UID, WORKSPACE_NAME

TOKEN = "0123456789abcdef"  # noqa: S105 - made up for these tests

PROGRAM = """
import sys
from turnkeeper.settings import load_settings
from turnkeeper.wiring import pod
pod.PROBE_PORT, pod.PEER_PORT = int(sys.argv[2]), int(sys.argv[3])
sys.exit(pod.serve_pod(load_settings(None, {"listen": {"host": "127.0.0.1", "port": int(sys.argv[1])}})))
"""
"""`turnkeeper runner`, but for its ports, which in a pod are its own."""


@dataclass
class PodRunner:
    """What a pod is to its container: a name, settings and ports (of the API, of probes, of peers); and its lives."""

    cluster: Cluster
    workspace: Object
    pod: Object
    file: Path
    ports: list[int]
    client: httpx.AsyncClient
    variables: Mapping[str, str]

    @contextlib.asynccontextmanager
    async def container(self) -> AsyncIterator[asyncio.subprocess.Process]:
        """One life."""
        environment = {
            **os.environ,
            **self.variables,
            "TURNKEEPER_CONFIG": str(self.file),
            "TURNKEEPER_AUTH__TOKENS": TOKEN,
            NAMESPACE: self.cluster.namespace,
            POD_NAME: self.pod["metadata"]["name"],
            POD_UID: self.pod["metadata"]["uid"],
            POD_ADDRESS: "127.0.0.1",
            WORKSPACE_NAME: "first",
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM),
            *(str(port) for port in self.ports),
            env=environment,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def probe(self, path: str) -> tuple[int, list[str]]:
        """Ask as the kubelet does; (0, []) where nobody answers."""
        try:
            answer = await self.client.get(f"http://127.0.0.1:{self.ports[1]}{path}")
        except httpx.HTTPError:
            return 0, []
        return answer.status_code, answer.json()["reasons"]

    async def until_ready(self) -> None:
        """Wait for it."""

        async def is_ready() -> bool:
            return (await self.probe("/readyz"))[0] == 200

        await until(is_ready, "the runner is ready")

    async def sessions(self) -> list[Object]:
        """The sessions that there are."""
        found = await self.cluster.api.list(LEASES, self.cluster.namespace, "turnkeeper.dev/lease=session")
        return list(found.items)

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Object:
        """Call the API, and return what it answers."""
        url = f"http://127.0.0.1:{self.ports[0]}{path}"
        answer = await self.client.request(method, url, json=body, headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.is_success, answer.text
        told: Object = answer.json()
        return told


@pytest.fixture
async def runner(cluster: Cluster, tmp_path: Path) -> AsyncIterator[PodRunner]:
    """A pod of a Workspace with its journal in a file."""
    async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
        yield await make_runner(cluster, tmp_path, client)


async def make_runner(cluster: Cluster, folder: Path, client: httpx.AsyncClient, **variables: str) -> PodRunner:
    """Make the Workspace and the pod's object, and write the settings that a controller would give it."""
    workspace = await cluster.apply(handler={"echo": {"delaySeconds": 0.2}}, claimTTLSeconds=600)
    pod = await cluster.make_pod(workspace, "first-runner-0", "", is_ready=False)
    told = spec(handler={"echo": {"delaySeconds": 0.2}}, claimTTLSeconds=600).settings(Names.of(workspace).uid)
    told["journal"] = {} if variables else {"sqlite": {"path": str(folder / "journal.sqlite")}}
    file = folder / "settings.yaml"
    file.write_text(json.dumps({name: value for name, value in told.items() if value}), "utf-8")
    return PodRunner(cluster, workspace, pod, file, free_ports(3), client, variables)


async def test_its_session_and_claims_are_leases_and_it_gives_them_up(runner: PodRunner) -> None:
    """They belong to its pod and its Workspace; after SIGTERM nothing is left and the exit code says so."""
    async with runner.container() as process:
        await runner.until_ready()
        [session] = await runner.sessions()
        assert session["metadata"]["ownerReferences"][0]["uid"] == runner.pod["metadata"]["uid"]
        await runner.call("POST", "/v1/threads/alice/messages", {"content": "hello"})

        async def is_answered() -> bool:
            return bool((await runner.call("GET", "/v1/threads/alice"))["state"] == "idle")

        async def claims() -> list[Object]:
            found = await runner.cluster.api.list(LEASES, runner.cluster.namespace, "turnkeeper.dev/lease=claim")
            return list(found.items)

        [claim] = await until(claims, "the thread is claimed", poll_seconds=0.005)
        assert claim["metadata"]["ownerReferences"][0]["uid"] == runner.workspace["metadata"]["uid"]
        assert claim["metadata"]["annotations"]["turnkeeper.dev/thread"] == "alice"
        await until(is_answered, "the message is answered")
        process.terminate()
        assert await process.wait() == 0
    assert await runner.sessions() == []
    assert await claims() == []


async def test_a_new_life_in_the_same_pod_buries_the_earlier_one(runner: PodRunner) -> None:
    """It need not wait for the ttl, which is ten minutes here, nor does anybody else."""
    async with runner.container() as process:
        await runner.until_ready()
        [earlier] = await runner.sessions()
        process.kill()
        await process.wait()
    assert len(await runner.sessions()) == 1
    async with runner.container():
        await runner.until_ready()
        [later] = await runner.sessions()
        assert later["metadata"]["name"] != earlier["metadata"]["name"]


async def test_it_starts_without_its_journal_and_says_what_it_waits_for(cluster: Cluster, tmp_path: Path) -> None:
    """It lives, is not ready, names the journal, and ends at once when it is told to."""
    (nobody,) = free_ports(1)
    async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
        url = f"postgresql://someone@127.0.0.1:{nobody}/none"
        runner = await make_runner(cluster, tmp_path, client, TURNKEEPER_JOURNAL__POSTGRES__URL=url)
        async with runner.container() as process:

            async def names_it() -> bool:
                status, reasons = await runner.probe("/readyz")
                return status == 503 and any(JOURNAL_AWAY in reason for reason in reasons)

            await until(names_it, "it says that its journal is away")
            assert (await runner.probe("/livez"))[0] == 200
            process.terminate()
            async with asyncio.timeout(40):
                assert await process.wait() == 0


async def test_outside_of_a_pod_it_says_what_to_use_instead(tmp_path: Path) -> None:
    """A sentence, and the exit code of a wrong command line."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TURNKEEPER_")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "turnkeeper", "runner"),
        env={**environment, "TURNKEEPER_AUTH__TOKENS": TOKEN},
        cwd=tmp_path,
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await process.communicate()
    assert process.returncode == 2
    assert b"`turnkeeper runner` is for a Workspace's pods; elsewhere use `run`" in err

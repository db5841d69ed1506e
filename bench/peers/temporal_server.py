"""A Temporal service on the benchmark's PostgreSQL, from its Go module: set up as its own development settings are.

The settings are those of the module's config/development-postgres12.yaml: every role in one process, four history
shards, twenty connections. The schema is put up by the module's own tool. What is left out: metrics, archival, and the
dynamic settings, which that file has for the project's own tests.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import parse_qs, urlsplit

from bench.databases import Place
from bench.processes import NotStartedError
from tests.cluster.programs import programs

PARTS = Path(__file__).parent / "parts"
PLUGIN = "postgres12"
HOST = "127.0.0.1"
START_SECONDS = 90.0
STOP_SECONDS = 15.0
SERVICES = ("frontend", "history", "matching", "worker")
STORES = {"temporal": 20, "temporal_visibility": 2}
"""Databases, and the connections to each."""


def free_ports(number: int) -> list[int]:
    """Return ports that nobody listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind((HOST, 0))
        return [one.getsockname()[1] for one in sockets]


def store(name: str, folder: str) -> dict[str, object]:
    """Return a database as the service names it. folder: where PostgreSQL's socket lies; it wins over the address."""
    sql = {
        "pluginName": PLUGIN,
        "databaseName": name,
        "connectAddr": f"{HOST}:5432",
        "connectProtocol": "tcp",
        "connectAttributes": {"host": folder},
        "user": "postgres",
        "password": "",
        "maxConns": STORES[name],
        "maxIdleConns": STORES[name],
        "maxConnLifetime": "1h",
    }
    return {"sql": sql}


def settings(folder: str, ports: list[int]) -> dict[str, object]:
    """Return the service's settings; JSON is YAML too."""
    pairs = dict(zip(SERVICES, zip(ports[::2], ports[1::2], strict=True), strict=True))
    services = {
        name: {"rpc": {"grpcPort": rpc, "membershipPort": membership, "bindOnLocalHost": True}}
        for name, (rpc, membership) in pairs.items()
    }
    address = f"{HOST}:{pairs['frontend'][0]}"
    this = {"enabled": True, "initialFailoverVersion": 1, "rpcName": "frontend", "rpcAddress": address}
    return {
        "log": {"stdout": True, "level": "warn"},
        "persistence": {
            "defaultStore": "default",
            "visibilityStore": "visibility",
            "numHistoryShards": 4,
            "datastores": {"default": store("temporal", folder), "visibility": store("temporal_visibility", folder)},
        },
        "global": {"membership": {"maxJoinDuration": "30s", "broadcastAddress": HOST}},
        "services": services,
        "clusterMetadata": {
            "enableGlobalNamespace": False,
            "failoverVersionIncrement": 10,
            "masterClusterName": "active",
            "currentClusterName": "active",
            "clusterInformation": {"active": this},
        },
        "dcRedirectionPolicy": {"policy": "noop"},
    }


def put_up(tool: Path, name: str, folder: str) -> None:
    """Make a database with its schema."""
    schema = f"postgresql/v12/{name.removeprefix('temporal_')}"
    command = [str(tool), "--plugin", PLUGIN, "--ep", HOST, "--port", "5432", "--user", "postgres", "--db", name]
    command += ["--connect-attributes", f"host={folder}"]
    for step in (
        ["create-database", "--defaultdb", "postgres"],
        ["setup-schema", "--version", "0.0"],
        ["update-schema", "--schema-name", schema],
    ):
        made = subprocess.run([*command, *step], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise NotStartedError(f"{step[0]} of {name} failed: {(made.stdout + made.stderr)[-2000:]}")


@contextmanager
def temporal_server(where: Place) -> Iterator[str]:
    """Yield the address of a service on a database; stop it on leaving."""
    built = programs("temporal", PARTS)
    [folder] = parse_qs(urlsplit(where.driver_url).query)["host"]
    for name in STORES:
        put_up(built / "temporal-sql-tool", name, folder)
    ports = free_ports(2 * len(SERVICES))
    with tempfile.TemporaryDirectory(prefix="turnkeeper-temporal-") as home, tempfile.TemporaryFile() as log:
        file = Path(home) / "temporal.yaml"
        file.write_text(json.dumps(settings(folder, ports)), encoding="utf-8")
        command = [str(built / "temporal-server"), "--config-file", str(file), "--allow-no-auth", "start"]
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=home)
        try:
            _await_port(process, ports[0], log)
            yield f"{HOST}:{ports[0]}"
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _await_port(process: subprocess.Popen[bytes], port: int, log: IO[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as one:
            if one.connect_ex((HOST, port)) == 0:
                return
        time.sleep(0.1)
    raise NotStartedError(os.pread(log.fileno(), 1 << 20, 0).decode()[-2000:])

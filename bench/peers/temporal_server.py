"""A Temporal service on the benchmark's PostgreSQL, from its Go module: set up as its own development settings are.

The settings are those of the module's config/development-postgres12.yaml: every role in one process, four history
shards, twenty connections. The schema is put up by the module's own tool. Three things differ. The driver is the other
one that the service offers for PostgreSQL (pgx), which can be led to a socket in a folder. The visibility store, which
lists and searches workflows and has no part in running them, is in memory, by the settings that
config/development-sqlite.yaml has for it: its schema wants an extension that the benchmark's PostgreSQL lacks, and what
it costs is spared the service. Metrics, archival, and dynamic settings for the module's own tests are left out.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import parse_qs, urlsplit

from bench.databases import Place
from bench.processes import NotStartedError
from tests.cluster.programs import programs

PARTS = Path(__file__).parent / "parts"
PLUGIN = "postgres12_pgx"
HOST = "127.0.0.1"
START_SECONDS = 90.0
STOP_SECONDS = 15.0
SERVICES = ("frontend", "history", "matching", "worker")
PORTS = range(10_000, 32_000)
"""Below those that clients get, and below 32,768: the service keeps its ports in two bytes with a sign."""

DATABASE = "temporal"
CONNECTIONS = 20


def free_ports(number: int) -> list[int]:
    """Return ports that nobody listens on."""
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as one:
            if one.connect_ex((HOST, port)) != 0:
                found.append(port)
        if len(found) == number:
            return found
    raise NotStartedError(f"{number} ports of {PORTS.start} to {PORTS.stop} are wanted, and are taken")


def stores(folder: str) -> dict[str, object]:
    """Return the stores as the service names them. folder: where PostgreSQL's socket lies; it wins over the address."""
    sql = {
        "pluginName": PLUGIN,
        "databaseName": DATABASE,
        "connectAddr": f"{HOST}:5432",
        "connectProtocol": "tcp",
        "connectAttributes": {"host": folder},
        "user": "postgres",
        "password": "",
        "maxConns": CONNECTIONS,
        "maxIdleConns": CONNECTIONS,
        "maxConnLifetime": "1h",
    }
    visibility = {
        "pluginName": "sqlite",
        "databaseName": "default",
        "connectAddr": "localhost",
        "connectProtocol": "tcp",
        "connectAttributes": {"mode": "memory", "cache": "private"},
        "maxConns": 1,
        "maxIdleConns": 1,
        "maxConnLifetime": "1h",
    }
    return {"default": {"sql": sql}, "visibility": {"sql": visibility}}


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
            "datastores": stores(folder),
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


def put_up(tool: Path, folder: str) -> None:
    """Make the database with its schema."""
    command = [str(tool), "--plugin", PLUGIN, "--ep", HOST, "--port", "5432", "--user", "postgres", "--db", DATABASE]
    command += ["--connect-attributes", f"host={folder}"]
    for step in (
        ["create-database", "--defaultdb", "postgres"],
        ["setup-schema", "--version", "0.0"],
        ["update-schema", "--schema-name", "postgresql/v12/temporal"],
    ):
        made = subprocess.run([*command, *step], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise NotStartedError(f"temporal-sql-tool {step[0]} failed: {(made.stdout + made.stderr)[-2000:]}")


@contextmanager
def temporal_server(where: Place) -> Iterator[str]:
    """Yield the address of a service on a database; stop it on leaving."""
    built = programs("temporal", PARTS)
    [folder] = parse_qs(urlsplit(where.driver_url).query)["host"]
    put_up(built / "temporal-sql-tool", folder)
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

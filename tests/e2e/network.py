"""The pods' network, spoiled on the node under them: packets that vanish, and a detour to the API server."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.cluster.cluster import Cluster
from tests.cluster.control_plane import SERVICE_ADDRESS
from tests.cluster.node import NODE_ADDRESS
from tests.cluster.processes import wait_until
from tests.e2e.site import Site
from tests.e2e.victims import process_of
from tests.kube.fault_proxy import FaultProxy

MARK = ("--match", "comment", "--comment", "KUBE-TURNKEEPER-E2E")
"""By this `tests.cluster.remains` knows what to remove, should a test not come to it."""

DROP = ("--jump", "DROP")
ESTABLISHED = "01"
HTTPS = 443

START_SECONDS = 10.0
"""How long the proxy may take to listen: milliseconds here."""


@contextmanager
def dropped(site: Site, *matches: tuple[str, ...]) -> Iterator[None]:
    """Drop each packet that one of these matches, on its way between pods or to this machine: nobody is told."""
    _machine(site)
    rules = [(chain, (*match, *MARK, *DROP)) for match in matches for chain in ("INPUT", "FORWARD")]
    with _rules("filter", rules):
        yield


def from_pod(pod: dict[str, Any], *ports: int, local: bool = False) -> tuple[str, ...]:
    """What matches a pod's packets to these TCP ports, or from these ports of its own; all its packets without any."""
    source = ("--source", str(pod["status"]["podIP"]))
    if not ports:
        return source
    which = "--source-ports" if local else "--destination-ports"
    return (*source, "--protocol", "tcp", "--match", "multiport", which, ",".join(map(str, ports)))


def to_pod(pod: dict[str, Any]) -> tuple[str, ...]:
    """What matches all packets to a pod."""
    return ("--destination", str(pod["status"]["podIP"]))


def api_ports(site: Site, pod: dict[str, Any]) -> list[int]:
    """The ports of a pod's own from which it has connections to the API server."""
    return [local for local, remote, _ in connections(site, pod) if remote == (SERVICE_ADDRESS, HTTPS)]


def api_server_port(site: Site) -> int:
    """Where the API server listens on this machine, behind its Service."""
    return int(_machine(site).plane.server.rpartition(":")[2])


def connections(site: Site, pod: dict[str, Any]) -> list[tuple[int, tuple[str, int], int]]:
    """The established connections of a pod, IPv4 or not: its port, the other end, and what has come and is not read."""
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process_of(site, pod)}/net/{table}").read_text("ascii").splitlines()[1:]:
            _, local, remote, state, queues = line.split()[:5]
            if state == ESTABLISHED:
                found.append((_end(local)[1], _end(remote), int(queues.partition(":")[2], 16)))
    return found


@contextmanager
def detour(site: Site, *pods: dict[str, Any]) -> Iterator[FaultProxy]:
    """Lead what these pods say to the API server through a proxy, by which chosen requests meet trouble.

    Yields once something has come that way: a connection that was open before is reset, as by a balancer that was
    started anew, and its client connects again.
    """
    machine = _machine(site)
    with _proxy(machine) as (proxy, port):
        to_service = ("--destination", SERVICE_ADDRESS, "--protocol", "tcp", "--dport", str(HTTPS))
        there = ("--jump", "DNAT", "--to-destination", f"{NODE_ADDRESS}:{port}")
        with _rules("nat", [("PREROUTING", (*from_pod(pod), *to_service, *MARK, *there)) for pod in pods]):
            _forget_connections(pods)
            try:
                wait_until(lambda: proxy.sent("PATCH", "/leases/"), "a renewal takes the detour", seconds=30)
                yield proxy
            finally:
                proxy.clear()
        _forget_connections(pods)


def _forget_connections(pods: tuple[dict[str, Any], ...]) -> None:
    """Let the kernel look again where the pods' connections to the API server are to be led."""
    for pod in pods:
        forget = ["conntrack", "-D", "--orig-src", str(pod["status"]["podIP"]), "--orig-dst", SERVICE_ADDRESS]
        subprocess.run(forget, check=False, capture_output=True)  # it complains where there is none


@contextmanager
def _proxy(machine: Cluster) -> Iterator[tuple[FaultProxy, int]]:
    """The proxy on a loop and a thread of its own, with the API server's own certificate; it speaks as its clients."""
    loop, ready = asyncio.new_event_loop(), threading.Event()
    made: list[tuple[FaultProxy, int]] = []
    over = asyncio.Event()

    async def serve() -> None:
        certificates = machine.plane.certificates
        behind = ssl.create_default_context(cafile=str(certificates.authority))
        front = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        front.load_cert_chain(certificates.certificate("apiserver"), certificates.key("apiserver"))
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=behind, limit=0)) as session:
            proxy = FaultProxy(session, machine.plane.server, {})
            server = web.Server(proxy.handle)
            listening = await loop.create_server(server, NODE_ADDRESS, 0, ssl=front)
            made.append((proxy, listening.sockets[0].getsockname()[1]))
            ready.set()
            await over.wait()
            listening.close()
            proxy.ended.set()
            await server.shutdown(timeout=1)

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), name="fault-proxy")
    thread.start()
    try:
        assert ready.wait(START_SECONDS), "the proxy does not listen"
        yield made[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()


@contextmanager
def _rules(table: str, rules: list[tuple[str, tuple[str, ...]]]) -> Iterator[None]:
    """Have these rules in force, before any other, for the while."""
    made: list[tuple[str, tuple[str, ...]]] = []
    try:
        for chain, rule in rules:
            _iptables(table, "--insert", chain, *rule)
            made.append((chain, rule))
        yield
    finally:
        for chain, rule in made:
            _iptables(table, "--delete", chain, *rule)


def _iptables(table: str, *arguments: str) -> None:
    """Change the firewall; kube-proxy does so too, and whoever has its lock is waited for."""
    subprocess.run(["iptables", "--wait", "30", "--table", table, *arguments], check=True, capture_output=True)


def _end(text: str) -> tuple[str, int]:
    """One end of a connection as /proc has it: words of four bytes in this machine's order, and a port."""
    address, _, port = text.partition(":")
    raw = b"".join(bytes.fromhex(address[at : at + 8])[::-1] for at in range(0, len(address), 8))
    found = ipaddress.ip_address(raw)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found), int(port, 16)


def _machine(site: Site) -> Cluster:
    if site.machine is None:
        pytest.skip("only where this machine is the node can its pods' network be spoiled")
    return site.machine

"""Probes are answered by a thread of their own, and judge by the signs that the loop leaves."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import httpx
import pytest

from turnkeeper.api import probes
from turnkeeper.api.probes import ProbeServer, Vitals


@pytest.fixture
def vitals() -> Vitals:
    """Of a process whose loop is dead after two seconds."""
    return Vitals(stalled_seconds=2.0)


@pytest.fixture
def at(vitals: Vitals) -> Iterator[httpx.Client]:
    """A client of a probe server; this very thread plays the loop, and leaves signs or none."""
    server = ProbeServer("127.0.0.1", 0, {"/livez": vitals.livez, "/readyz": vitals.readyz})
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", trust_env=False, timeout=5) as client:
        yield client
    server.close()


def test_a_process_lives_before_it_is_ready(at: httpx.Client, vitals: Vitals) -> None:
    """It says what it waits for."""
    assert at.get("/livez").status_code == 200
    assert at.get("/readyz").json() == {"ok": False, "reasons": ["it is starting"]}
    vitals.beat(())
    assert at.get("/readyz").status_code == 200
    vitals.beat(("the journal can't be reached: x",))
    assert at.get("/readyz").json()["reasons"] == ["the journal can't be reached: x"]
    assert at.get("/livez").status_code == 200
    assert at.get("/other").status_code == 404


def test_a_blocked_loop_is_not_ready_and_a_dead_one_is_not_alive(
    at: httpx.Client, vitals: Vitals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers come although the loop does not move at all; the time is said to be later."""
    vitals.beat(())
    began = time.monotonic()
    monkeypatch.setattr(vitals, "moved", began - probes.UNREADY_SECONDS - 0.5)
    vitals.stalled_seconds = 60.0
    assert at.get("/livez").status_code == 200
    assert "blocks the event loop" in at.get("/readyz").text
    monkeypatch.setattr(vitals, "moved", began - 61)
    assert "has not moved for 61 s" in at.get("/livez").text
    vitals.beat(())
    assert at.get("/livez").status_code == at.get("/readyz").status_code == 200


def test_a_loop_that_ended_is_a_fault(at: httpx.Client, vitals: Vitals) -> None:
    """Whatever else moves."""
    vitals.beat((), ("the sweep ended: ValueError()",))
    assert at.get("/livez").json()["reasons"] == ["the sweep ended: ValueError()"]


def test_clients_that_say_nothing_keep_nobody_out(at: httpx.Client, vitals: Vitals) -> None:
    """As many as there is room for, and then some: they are cut, and a probe is answered within its period."""
    vitals.stalled_seconds = 1000.0
    server = at.base_url
    silent = [socket.create_connection((server.host, server.port or 0)) for _ in range(probes.CONNECTIONS_MAX + 8)]
    deadline = time.monotonic() + 20 * probes.SILENCE_SECONDS
    answered = False
    while not answered and time.monotonic() < deadline:
        try:
            answered = at.get("/livez").status_code == 200
        except httpx.TransportError:
            continue
    for connection in silent:
        connection.close()
    assert answered

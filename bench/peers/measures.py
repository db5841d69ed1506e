"""turnkeeper beside its peers: `make bench ARGS="peers"`. One machine, one kind of work, one durability, in one run.

Every system keeps its state in a PostgreSQL that syncs its commits, a new one for each measure. The work is turns that
do nothing, of many keys, of each key one at a time and in order. How each peer is set up, and which pages of its
documentation say so, stands at the head of its file in `bench/peers/clients`.

    turns/s      one process sends and works; 32 keys. In step: a key's next message is sent once its turn has ended.
                 Waiting: of each key, eight messages are always sent and not yet taken
    accept       a process that sends 100 messages a second, open loop, to another that works
    takeover     see `bench/peers/takeovers.py`

In their favour: a peer's turn counts as ended when its function returns, turnkeeper's when its end is committed; and
their clients write to the database, or call the service, by themselves, where turnkeeper's is asked over HTTP.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import uvloop

from bench.databases import Place, place, raw_connection
from bench.peers import ours
from bench.peers.processes import Program
from bench.peers.takeovers import Case, quickly, run_lane, told
from bench.peers.temporal_server import temporal_server

WINDOWS = {"in_step": 1, "waiting": 8}

WATCHED_SECONDS = 120.0
"""How long it is watched that nobody takes over."""

CASES = {
    "dbos": (
        Case("default, another process lives", lanes=3, trials=1, within_seconds=WATCHED_SECONDS),
        Case("default, started again at once", restarts=True, lanes=2),
        Case("fastest, started again at once", fast=True, restarts=True, lanes=2, trials=8),
    ),
    "procrastinate": (Case("fastest, its task each second", fast=True),),
    "temporal": (
        Case("default, an hour to close", lanes=3, trials=1, within_seconds=WATCHED_SECONDS),
        Case("fastest, heartbeat timeout 0.3 s", fast=True),
    ),
}
LONG = Case("as documented, its task each 10 min", lanes=5, trials=1, phase_seconds=600.0, within_seconds=660.0)
"""Procrastinate's default, whose task runs each ten minutes: it waits beside everything else, and is idle meanwhile."""


@contextmanager
def prepared(peer: str, lanes: Sequence[bool]) -> Iterator[list[Program]]:
    """Yield a program for each lane, on a database or a queue that is its own and empty. A lane: is it a fast one?"""
    with ExitStack() as stack:
        where = stack.enter_context(place("postgresql"))
        if peer == "temporal":
            address = stack.enter_context(temporal_server(where))
            Program(peer, address).ask("prepare")
            yield [Program(peer, f"{address}/lane-{number}", fast) for number, fast in enumerate(lanes)]
            return
        programs = []
        for number, fast in enumerate(lanes):
            name = f"lane_{number}"
            uvloop.run(_make_database(where, name))
            programs.append(Program(peer, where.driver_url.replace("/postgres?", f"/{name}?"), fast))
            programs[-1].ask("prepare")
        yield programs


async def _make_database(where: Place, name: str) -> None:
    async with raw_connection(where) as connection:
        await connection.execute(f"CREATE DATABASE {name}")


def turns_of(peer: str, seconds: float, rounds: int, *, fast: bool = False) -> dict[str, list[float]]:
    """Return a peer's turns per second, each round of each kind on a database of its own."""
    found: dict[str, list[float]] = {}
    for kind, window in WINDOWS.items():
        with prepared(peer, [fast] * rounds) as programs:
            asked = ["--window", str(window), "--warm-seconds", str(seconds / 2), "--seconds", str(seconds)]
            found[kind] = [float(program.ask("turns", *asked)) for program in programs]
    return found


def accept_of(peer: str, seconds: float, *, fast: bool = False) -> list[float]:
    """Return the latency of each message that a peer accepted, in milliseconds."""
    with (
        prepared(peer, [fast]) as [program],
        tempfile.TemporaryDirectory(prefix="turnkeeper-peers-") as folder,
        program.running("work", "--starts", str(Path(folder) / "starts")),
    ):
        taken: list[float] = program.ask("accept", "--seconds", str(seconds))
    return taken


def takeovers_of(peer: str, cases: Sequence[Case], *, quick: bool) -> list[dict[str, Any]]:
    """Return a peer's takeovers, the cases at once: most of their time is waiting."""
    tried = [quickly(case) if quick else case for case in cases]
    lanes = [(case, number) for case in tried for number in range(case.lanes)]
    with prepared(peer, [case.fast for case, _ in lanes]) as programs, ThreadPoolExecutor(len(lanes)) as threads:
        running = [
            threads.submit(run_lane, program, case, number)
            for program, (case, number) in zip(programs, lanes, strict=True)
        ]
        return [
            told(peer, case, [run for run, (one, _) in zip(running, lanes, strict=True) if one is case])
            for case in tried
        ]


def measure_ours(figures: dict[str, Any], seconds: float, rounds: int, accept_seconds: float, *, quick: bool) -> None:
    """Measure turnkeeper and the floor."""
    turns: dict[str, list[float]] = {"floor": [], **{kind: [] for kind in WINDOWS}}
    for _ in range(rounds):
        for kind, window in WINDOWS.items():
            with place("postgresql") as where:
                turns[kind].append(ours.turns_per_second(where, window, seconds / 2, seconds))
        with place("postgresql") as where:
            turns["floor"].append(ours.floor_per_second(where, seconds))
    figures["turns"]["floor"] = {"in_step": turns.pop("floor")}
    figures["turns"][ours.SYSTEM] = turns
    with place("postgresql") as where:
        figures["accept"][ours.SYSTEM] = ours.accepted_milliseconds(where, accept_seconds)
    with place("postgresql") as where:
        figures["takeover"] += ours.takeovers(where, quick=quick)


def run(*, quick: bool) -> dict[str, Any]:
    """Measure every system, one after the other; only Procrastinate's long wait goes on beside them."""
    seconds, rounds, accept_seconds = (2.0, 1, 3.0) if quick else (5.0, 2, 12.0)
    figures: dict[str, Any] = {"turns": {}, "accept": {}, "takeover": []}
    with ThreadPoolExecutor(1) as beside:
        long = beside.submit(takeovers_of, "procrastinate", [LONG], quick=quick)
        measure_ours(figures, seconds, rounds, accept_seconds, quick=quick)
        _say("turnkeeper")
        for peer, cases in CASES.items():
            figures["turns"][peer] = turns_of(peer, seconds, rounds)
            if peer == "dbos":
                figures["turns"]["dbos_fast"] = turns_of(peer, seconds, rounds, fast=True)
                figures["accept"]["dbos_fast"] = accept_of(peer, accept_seconds, fast=True)
            figures["accept"][peer] = accept_of(peer, accept_seconds)
            figures["takeover"] += takeovers_of(peer, cases, quick=quick)
            _say(peer)
        figures["takeover"] += long.result()
    return figures


def _say(system: str) -> None:
    print(f"  {time.strftime('%H:%M:%S')} measured {system}", flush=True)

"""What a peer's program can be told to be; each is a process of its own, under the peers' environment.

    prepare   make what the database must hold
    turns     worker and client in one process, as the benchmark of turnkeeper's turns is: prints turns per second
    work      a worker, until it is killed; it notes each turn's start in a file
    accept    a client that sends at a set rate: prints each message's latency
    send      a client that sends what it is told on its standard input, a key and a text a line

Nothing but the standard library is imported here, so that all that differs between peers stands in their own files.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path

from bench.peers.clients.peer import HOLD, READY, Peer, Told, Turn
from bench.peers.load import BusyKeys, accepted_milliseconds

NEVER_SECONDS = 3600.0


class Starts:
    """A file in which every worker notes what it starts, a line each; it tells of a turn whatever becomes of it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, key: str, text: str) -> bool:
        """Note a start, and return whether it is the message's first."""
        line = json.dumps({"key": key, "text": text, "process": os.getpid(), "at": time.time()})
        before = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
        return not any((one["key"], one["text"]) == (key, text) for one in map(json.loads, before.splitlines()))

    def turn(self) -> Turn:
        """Return a turn that notes its start."""

        async def run(key: str, text: str) -> None:
            if self.note(key, text) and text == HOLD:
                await asyncio.sleep(NEVER_SECONDS)

        return run


async def measure_turns(peer: Peer, window: int, warm_seconds: float, seconds: float) -> float:
    """Return the peer's turns per second."""
    busy = BusyKeys(window)

    async def turn(key: str, text: str) -> None:
        del text
        busy.took(key)

    async with peer.working(turn), peer.sending() as send:
        return await busy.turns_per_second(send, warm_seconds, seconds)


async def work(peer: Peer, starts: Path) -> None:
    """Work until killed."""
    async with peer.working(Starts(starts).turn()):
        print(READY, flush=True)
        await asyncio.Event().wait()


async def send_told(peer: Peer) -> None:
    """Send what is told, and say after each that it is accepted."""
    async with peer.sending() as send:
        print(READY, flush=True)
        while line := (await asyncio.to_thread(sys.stdin.readline)).split():
            await send(*line)
            print("sent", flush=True)


async def measure_accept(peer: Peer, seconds: float) -> list[float]:
    """Return the latency of each message in milliseconds."""
    async with peer.sending() as send:
        return await accepted_milliseconds(send, seconds)


def main() -> None:
    """Be what the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=("dbos", "procrastinate", "temporal"))
    parser.add_argument("role", choices=("prepare", "turns", "work", "accept", "send"))
    parser.add_argument("--url", required=True)
    parser.add_argument("--identity", default="one")
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--window", type=int, default=1)
    parser.add_argument("--warm-seconds", type=float, default=0)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--starts", type=Path, default=Path(os.devnull))
    given = parser.parse_args()
    module = import_module(f"bench.peers.clients.{given.peer}_peer")  # each imports what only it needs
    peer: Peer = module.peer(Told(given.url, given.identity, given.fast))
    if given.role == "prepare":
        asyncio.run(peer.prepare())
    elif given.role == "turns":
        print(json.dumps(asyncio.run(measure_turns(peer, given.window, given.warm_seconds, given.seconds))))
    elif given.role == "accept":
        print(json.dumps(asyncio.run(measure_accept(peer, given.seconds))))
    elif given.role == "work":
        asyncio.run(work(peer, given.starts))
    else:
        asyncio.run(send_told(peer))
    sys.stdout.flush()
    os._exit(0)  # threads of a peer's library that are still about have crashed the interpreter's own end


if __name__ == "__main__":
    main()

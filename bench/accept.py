"""How long a POST takes until 202: over real HTTP, to `turnkeeper run` with its default handler, open loop.

Open loop: each message has a moment at which it is due, whatever became of those before, and its latency counts from
that moment. A server that stalls is charged for every message that was due meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from urllib.parse import urlsplit

import uvloop

from bench.databases import DATABASES, place
from bench.processes import serving

MESSAGES_PER_SECOND = 100
THREADS = 200
"""Messages go round these threads, so that each is idle again when its next comes: every one starts a turn."""

KEPT_SECONDS = 2.0
"""How long a connection is kept: well below the five seconds after which the server closes one."""

BODY = b'{"content": "hello"}'


class Connections:
    """HTTP/1.1 by hand over connections that are kept: a client library would cost more than what it measures."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._host, self._port = parts.hostname, parts.port
        self._idle: list[tuple[float, asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def post(self, path: str, body: bytes) -> int:
        """Return the answer's status."""
        reader, writer = await self._connection()
        head = f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        length = next(int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:"))
        await reader.readexactly(length)
        self._idle.append((time.monotonic(), reader, writer))
        return int(lines[0].split()[1])

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return the connection that was used last, or a new one where the server may have closed what is left."""
        while self._idle:
            used, reader, writer = self._idle.pop()
            if time.monotonic() - used < KEPT_SECONDS:
                return reader, writer
            writer.close()
        return await asyncio.open_connection(self._host, self._port)

    def close(self) -> None:
        """Close every connection."""
        for _, _, writer in self._idle:
            writer.close()


async def measure(address: str, seconds: float) -> list[float]:
    """Send at the set rate and return each message's latency in milliseconds."""
    connections = Connections(address)
    taken: list[float] = []

    async def post(number: int, due: float) -> None:
        status = await connections.post(f"/v1/threads/thread-{number % THREADS}/messages", BODY)
        taken.append((time.perf_counter() - due) * 1000)
        assert status == 202, status

    async def send(messages: int) -> None:
        began = time.perf_counter()
        posts = []
        for number in range(messages):
            due = began + number / MESSAGES_PER_SECOND
            await asyncio.sleep(due - time.perf_counter())
            posts.append(asyncio.create_task(post(number, due)))
        await asyncio.gather(*posts)

    await send(2 * THREADS)  # makes the threads, and warms what has a cache
    taken.clear()
    await send(int(seconds * MESSAGES_PER_SECOND))
    connections.close()
    return taken


def run(*, quick: bool) -> dict[str, list[float]]:
    """Measure both databases."""
    found = {}
    for database in DATABASES:
        with place(database) as where, serving(where) as served:
            found[database] = uvloop.run(measure(served.address, 3.0 if quick else 30.0))
    return found

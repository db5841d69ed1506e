"""A way to PostgreSQL that loses the answer to a chosen COMMIT: it reaches the server, and the connection is cut."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from sqlalchemy import URL, make_url

ANSWER_BYTES = 65536


@dataclass
class CuttingProxy:
    """Carries bytes both ways. `cuts` counts the commits whose answers it lost."""

    socket_path: str
    marker: bytes = b""
    cuts: int = 0
    _left: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def cut_commit_of(self, marker: bytes, times: int = 1) -> None:
        """Lose the answers to the next commits of transactions in which the client sent these bytes."""
        self.marker, self._left = marker, times

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection."""
        from_server, to_server = await asyncio.open_unix_connection(self.socket_path)
        is_cutting = asyncio.Event()

        async def back() -> None:
            while part := await from_server.read(ANSWER_BYTES):
                if is_cutting.is_set():  # the server has answered the commit, so it stands
                    return
                writer.write(part)
                await writer.drain()

        async def forth() -> None:
            said = b""
            while part := await reader.read(ANSWER_BYTES):
                said += part
                if b"COMMIT" in part:
                    if self._left and self.marker in said:
                        self._left -= 1
                        self.cuts += 1
                        is_cutting.set()
                    said = b""
                to_server.write(part)
                await to_server.drain()

        ways = {asyncio.ensure_future(back()), asyncio.ensure_future(forth())}
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for end in (writer, to_server):
                end.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await self.carry(reader, writer)


@contextlib.asynccontextmanager
async def cutting_proxy(url: str) -> AsyncIterator[tuple[CuttingProxy, str]]:
    """Yield a proxy before the server of a URL, and the URL of the database by way of it."""
    parsed = make_url(url)
    folder = str(parsed.query["host"])
    proxy = CuttingProxy(f"{folder}/.s.PGSQL.5432")
    server = await asyncio.start_server(proxy._carry, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    try:
        yield proxy, _by_way_of(parsed, port).render_as_string(hide_password=False)
    finally:
        server.close()


def _by_way_of(url: URL, port: int) -> URL:
    return URL.create("postgresql", url.username, None, "127.0.0.1", port, url.database)

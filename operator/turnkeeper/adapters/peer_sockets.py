"""Peers over plain TCP: each process greets whoever connects with its session and keeps the connection open.

A process that dies has its connections closed by its kernel, within milliseconds. Whoever sees that asks again at the
address: nobody listening, or another session answering, says that it is gone. Anything else says nothing: a connection
that broke while the process lives is made again, and a machine that does not answer may be cut off from here alone.

Nobody listening is believed only of a session that was heard from here before: a rule of the network may refuse
connections in the name of a process that lives.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from enum import Enum, auto
from typing import Self

from turnkeeper.core.claim import SessionRecord

GREETING = "turnkeeper-session "
GREETING_SECONDS = 2.0
"""How long a connection and a greeting may take. Arbitrary: a busy process is not gone."""

LINE_MAX = 256
"""Longest greeting, in bytes."""

CONNECTIONS_MAX = 1_000
"""Most connections held open for others; whoever comes beyond is not served. Arbitrary: far above all watchers."""

STEADY_SECONDS = 1.0
"""A connection that ends sooner is made again with a pause: something may end each. Arbitrary."""

AGAIN_SECONDS = (0.1, 5.0)
"""First and longest pause before an address that said nothing is asked again, doubled and with jitter."""


class _Answer(Enum):
    """What an address says of a session."""

    ITS_OWN = auto()
    ANOTHER = auto()
    REFUSED = auto()
    NOTHING = auto()


class SocketPeers:
    """See `ports.Peers`.

    host: where to listen, everywhere if empty. advertised: the host that peers are told, if that is another one.
    """

    def __init__(self, host: str, port: int = 0, *, advertised: str = "") -> None:
        self._host = host
        self._port = port
        self._advertised = advertised or host
        self._session = ""
        self._server: asyncio.Server | None = None
        self._greeted: set[asyncio.StreamWriter] = set()
        self.address = ""

    async def __aenter__(self) -> Self:
        """Listen. Raises OSError where that can't be."""
        self._server = await asyncio.start_server(self._greet, self._host or None, self._port, limit=LINE_MAX)
        port = self._server.sockets[0].getsockname()[1]
        host = f"[{self._advertised}]" if ":" in self._advertised else self._advertised
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close everything."""
        if self._server is not None:
            self._server.close()
        self._close_greeted()

    def present(self, session: str) -> None:
        """See `ports.Peers`. Whoever was greeted with another one asks again."""
        self._session = session
        self._close_greeted()

    def _close_greeted(self) -> None:
        for writer in self._greeted:
            writer.close()
        self._greeted.clear()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._greeted) >= CONNECTIONS_MAX:
            writer.close()
            return
        self._greeted.add(writer)
        try:
            writer.write(f"{GREETING}{self._session}\n".encode())
            await reader.read(1)  # nobody has anything to say: this is the end, whoever closes
        except OSError:
            return  # broken by the other side, which is its way to leave
        finally:
            self._greeted.discard(writer)
            writer.close()

    async def until_gone(self, record: SessionRecord) -> None:
        """See `ports.Peers`."""
        was_heard = False
        pause, longest = AGAIN_SECONDS
        while True:
            began = asyncio.get_running_loop().time()
            answer = await self._hold(record)
            if answer is _Answer.ANOTHER or (answer is _Answer.REFUSED and was_heard):
                return
            if answer is _Answer.ITS_OWN:
                was_heard, pause = True, AGAIN_SECONDS[0]
                if asyncio.get_running_loop().time() - began > STEADY_SECONDS:
                    continue  # what held for long and ends now is asked about at once
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
            pause = min(2 * pause, longest)

    async def _hold(self, record: SessionRecord) -> _Answer:
        """Connect, hear the greeting, and if it is the session's own, stay until the connection ends."""
        host, _, port = record.address.rpartition(":")
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(GREETING_SECONDS):
                reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), limit=LINE_MAX)
                _stay_alive(writer)
                greeting = (await reader.readline()).decode(errors="replace")
            if not greeting.startswith(GREETING) or not greeting.endswith("\n"):
                return _Answer.NOTHING
            if greeting.removeprefix(GREETING).strip() != record.session:
                return _Answer.ANOTHER
            with contextlib.suppress(OSError):
                await reader.read(1)
        except ConnectionRefusedError:
            return _Answer.REFUSED
        except (OSError, ValueError):
            return _Answer.NOTHING
        finally:
            if writer is not None:
                writer.close()
        return _Answer.ITS_OWN


def _stay_alive(writer: asyncio.StreamWriter) -> None:
    """Have a connection whose other machine vanished end at last."""
    found = writer.get_extra_info("socket")
    if found is not None:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

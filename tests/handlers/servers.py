"""Real HTTP servers on loopback: an application under uvicorn, and one that writes exactly the bytes it is told."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from fastapi import FastAPI


def loopback() -> socket.socket:
    """A socket bound to a free port of this machine's loopback; nobody listens yet."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    return bound


def address(bound: socket.socket) -> str:
    """The URL of what listens there."""
    return f"http://127.0.0.1:{bound.getsockname()[1]}"


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """Serve an application under uvicorn, in a thread and on a loop of its own."""
    bound = loopback()
    bound.listen()  # from here on a connection waits until the server takes it
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        yield address(bound)
    finally:
        server.should_exit = True
        thread.join()
        bound.close()


class Scripted:
    """What the scripted server was asked, and when its peer went away."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[bytes] = []
        self.hung_up = asyncio.Event()


@asynccontextmanager
async def scripted(
    pieces: Sequence[bytes], *, then_hold: bool = False, bound: socket.socket | None = None
) -> AsyncIterator[Scripted]:
    """Serve each connection these very pieces, one write each; then close it, or hold it until the peer hangs up."""
    bound = bound or loopback()
    bound.listen()
    server_side = Scripted(address(bound))

    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            serving.add(task)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            server_side.requests.append(head + await reader.readexactly(size))
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
            if then_hold:
                await reader.read()
                server_side.hung_up.set()
        except ConnectionError:
            server_side.hung_up.set()
        finally:
            writer.close()

    async with await asyncio.start_server(serve, sock=bound):
        yield server_side
        # A peer that has its answer is gone by now, and so is what served it.
        await asyncio.gather(*serving)


def reply(content_type: str, body: bytes = b"", *, status: str = "200 OK", headers: str = "") -> bytes:
    """A reply whose end is the connection's end."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nConnection: close\r\n{headers}\r\n"
    return head.encode("ascii") + body

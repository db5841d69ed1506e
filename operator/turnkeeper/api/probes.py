"""Answers probes from a thread of its own, so that a handler that blocks the event loop does not cost the process.

The loop leaves signs that it moves (`Vitals`); the thread judges by them. A loop that has stood still for a moment is
not ready, since it would not answer; one that has stood still for as long as its renewals are kept up is dead.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET6, socket

UNREADY_SECONDS = 3.0
"""A loop that has not moved for so long would not answer a call either. Arbitrary: a few of its beats."""

BEAT_SECONDS = 0.5
"""How often the loop leaves its sign. Arbitrary: often against a probe's period."""

CONNECTIONS_MAX = 32
"""Probes answered at once; who comes beyond is cut, so that nobody can fill the process with threads."""

SILENCE_SECONDS = 5.0
"""How long a client may say nothing."""

Answer = tuple[int, str, bytes]
"""Status, content type, body."""


@dataclass(slots=True)
class Vitals:
    """What the loop says of itself. Written there, read by the probing thread: each field changes as a whole.

    stalled_seconds: after how long without a beat the process counts as dead.
    """

    stalled_seconds: float
    reasons: tuple[str, ...] = ("it is starting",)
    faults: tuple[str, ...] = ()
    moved: float = 0.0

    def __post_init__(self) -> None:
        self.moved = time.monotonic()

    def beat(self, reasons: tuple[str, ...], faults: tuple[str, ...] = ()) -> None:
        """Say that the loop moves, why it is not ready, and what of it has ended that must not."""
        self.reasons, self.faults, self.moved = reasons, faults, time.monotonic()

    def livez(self) -> Answer:
        """Answer whether the process should be left running."""
        still = time.monotonic() - self.moved
        stalled = (f"the event loop has not moved for {still:.0f} s",) if still > self.stalled_seconds else ()
        return _health((*self.faults, *stalled))

    def readyz(self) -> Answer:
        """Answer whether it takes work."""
        still = time.monotonic() - self.moved
        blocked = (f"something blocks the event loop since {still:.0f} s",) if still > UNREADY_SECONDS else ()
        return _health((*self.reasons, *blocked))


class ProbeServer:
    """Serves answers by path until closed. port 0 takes any free one."""

    def __init__(self, host: str, port: int, answers: Mapping[str, Callable[[], Answer]]) -> None:
        """Open the port. Raises OSError where it can't be had."""
        self._server = _server(host, port, answers)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="turnkeeper-probes", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop to answer."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _health(reasons: tuple[str, ...]) -> Answer:
    body = json.dumps({"ok": not reasons, "reasons": reasons}).encode()
    return (503 if reasons else 200), "application/json", body


def _server(host: str, port: int, answers: Mapping[str, Callable[[], Answer]]) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        timeout = SILENCE_SECONDS

        def do_GET(self) -> None:
            """Answer, and close."""
            answer = answers.get(self.path.partition("?")[0])
            status, kind, body = answer() if answer else (404, "text/plain", b"not found\n")
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Probes come every few seconds: nobody reads of each."""

    class Server(ThreadingHTTPServer):
        address_family = AF_INET6 if ":" in host else ThreadingHTTPServer.address_family
        daemon_threads = True
        request_queue_size = 4 * CONNECTIONS_MAX  # who is not accepted yet is soon accepted or cut, never left waiting
        room = threading.BoundedSemaphore(CONNECTIONS_MAX)

        def process_request(self, request: socket | tuple[bytes, socket], client_address: object) -> None:
            """Give the client a thread, if there is room."""
            if self.room.acquire(blocking=False):
                super().process_request(request, client_address)
            else:
                self.shutdown_request(request)

        def process_request_thread(self, request: socket | tuple[bytes, socket], client_address: object) -> None:
            """Answer the client in its thread."""
            try:
                super().process_request_thread(request, client_address)
            finally:
                self.room.release()

        def handle_error(self, *_: object) -> None:
            """A client that went away is no news."""

    return Server((host, port), Handler)

"""Opens the port, with the one option that the API's promise about slow clients needs."""

from __future__ import annotations

import socket

UNSENT_SECONDS_MAX = 30
"""How long the kernel keeps what a peer does not take. A server's graceful close waits for the last byte to leave, so
without this a client that stops reading, or vanishes without a word, holds its connection for as long as it likes."""

BACKLOG = 1024


def open_listener(host: str, port: int) -> socket.socket:
    """Return a listening socket for `uvicorn.Server.serve(sockets=[…])`; port 0 takes any free one.

    Raises OSError where the address is taken or not this machine's.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; accepted sockets inherit it
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNSENT_SECONDS_MAX * 1000)
        listener.bind(address)
        listener.listen(BACKLOG)
        listener.settimeout(0)
    except OSError:
        listener.close()
        raise
    return listener

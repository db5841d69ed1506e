"""A process of turnkeeper's: its log lines and its signals. Loads nothing else: the controller needs no database."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys


def set_up_logs() -> None:
    """Write log lines to standard error, leaving out those who tell of each request, step and start."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    for talkative in ("httpx", "alembic", "uvicorn.error"):
        logging.getLogger(talkative).setLevel(logging.WARNING)


def stop_signals() -> asyncio.Event:
    """Return what is set by SIGTERM or SIGINT from now on."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    return stopping

"""A runner with its API in one process, until a signal."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import socket
import sys
from collections.abc import Callable, Iterator

import uvicorn
import uvloop

from turnkeeper.adapters.prometheus import PrometheusObserver
from turnkeeper.api.app import close_streams, create_app
from turnkeeper.api.listen import open_listener
from turnkeeper.errors import SettingsError
from turnkeeper.runner.service import Runner
from turnkeeper.settings import Settings
from turnkeeper.settings.stopping import CLOSE_SECONDS
from turnkeeper.wiring.parts import open_runner
from turnkeeper.wiring.process import set_up_logs, stop_signals

_log = logging.getLogger(__name__)


def serve(settings: Settings) -> int:
    """Run a runner and its API until a signal, and return the process's exit code.

    Raises SettingsError or UnavailableError where it can't start.
    """
    set_up_logs()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop_runner:
        return loop_runner.run(_serve(settings))


async def _serve(settings: Settings) -> int:
    listener = listen(settings)
    observer = PrometheusObserver()
    stopping = stop_signals()
    async with open_runner(settings, observer) as runner:
        await serve_runner(settings, runner, observer, listener, stopping, lambda: _greet(settings, listener))
    return 0


async def serve_runner(
    settings: Settings,
    runner: Runner,
    observer: PrometheusObserver,
    listener: socket.socket,
    stopping: asyncio.Event,
    greet: Callable[[], None],
) -> None:
    """Serve a runner's API until `stopping`, then drain the runner; set again, it interrupts what still runs."""
    tokens = [token.get_secret_value() for token in settings.auth.tokens]
    app = create_app(runner, tokens=tokens, metrics=observer)
    server = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=CLOSE_SECONDS,
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    # What is loaded by now stays: a full collection that walks it stops every turn for some 80 ms.
    gc.collect()
    gc.freeze()
    greet()
    stop = asyncio.create_task(stopping.wait())
    await asyncio.wait((serving, stop), return_when=asyncio.FIRST_COMPLETED)
    stopping.clear()
    _log.info("stopping: turns have %.0f s to end; a second signal interrupts them now", settings.runner.drain_seconds)
    await asyncio.gather(_drain(runner, settings, stopping), asyncio.sleep(settings.runner.leave_seconds))
    close_streams(app)
    server.should_exit = True
    stop.cancel()
    await serving


async def _drain(runner: Runner, settings: Settings, again: asyncio.Event) -> None:
    stopping = settings.runner
    draining = asyncio.create_task(runner.drain(stopping.drain_seconds, leave_seconds=stopping.leave_seconds))
    hurry = asyncio.create_task(again.wait())
    await asyncio.wait((draining, hurry), return_when=asyncio.FIRST_COMPLETED)
    hurry.cancel()
    if not draining.done():
        draining.cancel()
        await runner.drain(0.0)


class _Server(uvicorn.Server):
    """A server whose signals are handled here: draining comes before it stops to answer."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


def listen(settings: Settings) -> socket.socket:
    """Open the API's port. Raises SettingsError where it can't be had."""
    host, port = settings.listen.host, settings.listen.port
    try:
        return open_listener(host, port)
    except OSError as error:
        why = error.strerror or error
        msg = f"can't listen on {host} port {port}: {why}. Choose another with --port (0: any free one)"
        raise SettingsError(msg) from error


def _greet(settings: Settings, listener: socket.socket) -> None:
    host, port = listener.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    token = " -H 'Authorization: Bearer '$TURNKEEPER_TOKEN" if settings.auth.tokens else ""
    json = "-H 'Content-Type: application/json' -d '{\"content\": \"hello\"}'"
    lines = (
        f"turnkeeper serves the workspace {settings.workspace!r} at {address}  (API: {address}/docs)",
        "Try, in another terminal:",
        f"  curl -s {address}/v1/threads/alice/messages{token} {json}",
    )
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()

"""Puts the parts together, and runs them: the one place that knows all of them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import uvicorn
import uvloop
from sqlalchemy import URL, make_url

from turnkeeper.adapters.handlers import ChatHandler, EchoHandler, ExecHandler, HttpHandler, PythonHandler
from turnkeeper.adapters.machine_clock import MachineClock
from turnkeeper.adapters.polling_hints import PollingHints
from turnkeeper.adapters.prometheus import PrometheusObserver
from turnkeeper.adapters.sql_audit import SqlAudit
from turnkeeper.adapters.sql_claims import SqlClaims
from turnkeeper.adapters.sql_database import open_database
from turnkeeper.adapters.sql_journal import open_journal
from turnkeeper.adapters.sql_readonly import open_readonly
from turnkeeper.adapters.sql_taking import SqlTaking
from turnkeeper.api.app import close_streams, create_app
from turnkeeper.api.listen import open_listener
from turnkeeper.core.invariants import Findings
from turnkeeper.errors import SettingsError
from turnkeeper.ports import Claims, Handler
from turnkeeper.runner.drive import Tools
from turnkeeper.runner.options import RunnerOptions
from turnkeeper.runner.renewal_thread import RenewalThread
from turnkeeper.runner.service import Runner
from turnkeeper.settings import Settings

CLOSE_SECONDS = 5
"""How long open connections may finish once the turns have; a client that never reads is cut then."""

CLAIM_CALLS_PER_TTL = 6
"""A renewal has this part of the ttl: two tries fit between two renewals."""

CLAIM_CALL_SECONDS = 5.0
"""Shortest deadline of every other call about sessions and claims: what a transaction may wait for another writer. A
renewal that is late costs the claims; a start, a look at the sessions or a release that is late costs that time."""

CANCEL_GRACE_SECONDS = 10.0
"""What a cancelled handler has to clean up in. Arbitrary: long for a coroutine, short for a person."""

REAP_SECONDS = 6.0
"""What `exec` may take after its KILL. Arbitrary: its own bounds for the reaping and the pipes, and some."""

_log = logging.getLogger(__name__)


def serve(settings: Settings) -> int:
    """Run a runner and its API until a signal, and return the process's exit code.

    Raises SettingsError or UnavailableError where it can't start.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    for talkative in ("httpx", "alembic", "uvicorn.error"):  # they tell of each request, step and start
        logging.getLogger(talkative).setLevel(logging.WARNING)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop_runner:
        return loop_runner.run(_serve(settings))


async def _serve(settings: Settings) -> int:
    listener = _listen(settings)
    observer = PrometheusObserver()
    stopping = _signals()
    async with open_runner(settings, observer) as runner:
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
        _greet(settings, listener)
        stop = asyncio.create_task(stopping.wait())
        await asyncio.wait((serving, stop), return_when=asyncio.FIRST_COMPLETED)
        stopping.clear()
        _log.info(
            "stopping: turns have %.0f s to end; a second signal interrupts them now", settings.runner.drain_seconds
        )
        await _drain(runner, settings.runner.drain_seconds, stopping)
        close_streams(app)
        server.should_exit = True
        stop.cancel()
        await serving
    return 0


async def _drain(runner: Runner, seconds: float, again: asyncio.Event) -> None:
    draining = asyncio.create_task(runner.drain(seconds))
    hurry = asyncio.create_task(again.wait())
    await asyncio.wait((draining, hurry), return_when=asyncio.FIRST_COMPLETED)
    hurry.cancel()
    if not draining.done():
        draining.cancel()
        await runner.drain(0.0)


@contextlib.asynccontextmanager
async def open_runner(settings: Settings, observer: PrometheusObserver) -> AsyncIterator[Runner]:
    """Open the journal and start a runner on it; on leaving, interrupt what runs, and close all in order."""
    url = journal_url(settings)
    async with contextlib.AsyncExitStack() as stack:
        journal = await open_journal(url, settings.workspace, observer)
        stack.push_async_callback(journal.aclose)
        handler = make_handler(settings)
        stack.push_async_callback(handler.aclose)
        deadline = settings.claim_ttl_seconds / CLAIM_CALLS_PER_TTL
        patience = max(deadline, CLAIM_CALL_SECONDS)
        claims = SqlClaims(journal.database, settings.workspace, deadline_seconds=patience)
        clock = MachineClock()
        tools = Tools(
            workspace=settings.workspace,
            journal=journal,
            taking=SqlTaking(journal, claims),
            hints=PollingHints(journal, clock),
            clock=clock,
            handler=handler,
            observer=observer,
            options=runner_options(settings),
        )
        yield await stack.enter_async_context(Runner(tools, claims, RenewalThread(_connector(url, settings, deadline))))


def verify(settings: Settings, workspace: str | None, *, at_rest: bool) -> Findings:
    """Check the journal that the settings name, reading only; all its workspaces where none is named.

    Raises SettingsError or UnavailableError where it can't.
    """

    async def check() -> Findings:
        database = open_readonly(journal_url(settings))
        try:
            return await SqlAudit(database, workspace, at_rest=at_rest).run()
        finally:
            await database.aclose()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop_runner:
        return loop_runner.run(check())


def _connector(
    url: URL, settings: Settings, deadline_seconds: float
) -> Callable[[], Awaitable[tuple[Claims, Callable[[], Awaitable[None]]]]]:
    """Return what gives the renewing thread a database of its own, so that a full pool costs no claim."""

    async def connect() -> tuple[Claims, Callable[[], Awaitable[None]]]:
        database = open_database(url)
        return SqlClaims(database, settings.workspace, deadline_seconds=deadline_seconds), database.aclose

    return connect


def journal_url(settings: Settings) -> URL:
    """Return the URL of the journal's database."""
    journal = settings.journal
    if journal.postgres is not None:
        return make_url(journal.postgres.url.get_secret_value().replace("postgres://", "postgresql://", 1))
    if journal.sqlite is None:
        raise SettingsError("journal: set exactly one of sqlite, postgres")
    return URL.create("sqlite", database=str(journal.sqlite.path))


def runner_options(settings: Settings) -> RunnerOptions:
    """Return the runner's own part of the settings."""
    return RunnerOptions(
        runner=f"{socket.gethostname()}-{os.getpid()}",
        claim_ttl_seconds=settings.claim_ttl_seconds,
        max_turns=settings.runner.max_turns,
        turn_timeout_seconds=settings.turn.timeout_seconds,
        turn_progress_seconds=settings.turn.progress_seconds,
        max_attempts=settings.turn.max_attempts,
        sweep_interval_seconds=settings.recover.interval_seconds,
        cancel_grace_seconds=_cancel_grace_seconds(settings),
    )


def _cancel_grace_seconds(settings: Settings) -> float:
    """Leave a cancelled command the time from TERM to KILL, and some to be reaped."""
    command = settings.handler.exec
    return max(CANCEL_GRACE_SECONDS, command.kill_grace_seconds + REAP_SECONDS if command else 0.0)


def make_handler(settings: Settings) -> Handler:
    """Return the handler that the settings name. Raises SettingsError where it can't be made."""
    chosen = settings.handler
    if chosen.python is not None:
        return PythonHandler(chosen.python.entry_point, chosen.python.search_path)
    if chosen.exec is not None:
        return ExecHandler(
            chosen.exec.command,
            environment=chosen.exec.environment,
            directory=str(chosen.exec.directory) if chosen.exec.directory else None,
            kill_grace_seconds=chosen.exec.kill_grace_seconds,
        )
    if chosen.http is not None:
        return HttpHandler(chosen.http.url, headers=chosen.http.headers, timeout_seconds=chosen.http.timeout_seconds)
    if chosen.chat is not None:
        return ChatHandler(
            chosen.chat.base_url,
            chosen.chat.model,
            api_key=chosen.chat.api_key.get_secret_value() if chosen.chat.api_key else "",
            system_prompt=chosen.chat.system_prompt,
            temperature=chosen.chat.temperature,
            history_limit=chosen.chat.history_limit,
        )
    return EchoHandler(chosen.echo.delay_seconds if chosen.echo else 0.0)


class _Server(uvicorn.Server):
    """A server whose signals are handled here: draining comes before it stops to answer."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


def _signals() -> asyncio.Event:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    return stopping


def _listen(settings: Settings) -> socket.socket:
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

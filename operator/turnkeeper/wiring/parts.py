"""A runner's parts, as its settings name them: journal, claims, handler, options."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import uvloop
from sqlalchemy import URL, make_url

from turnkeeper.adapters.handlers import ChatHandler, EchoHandler, ExecHandler, HttpHandler, PythonHandler
from turnkeeper.adapters.machine_clock import MachineClock
from turnkeeper.adapters.peer_sockets import SocketPeers
from turnkeeper.adapters.polling_hints import PollingHints
from turnkeeper.adapters.postgres_hints import PostgresHints
from turnkeeper.adapters.prometheus import PrometheusObserver
from turnkeeper.adapters.sql_audit import SqlAudit
from turnkeeper.adapters.sql_claims import SqlClaims
from turnkeeper.adapters.sql_database import open_database
from turnkeeper.adapters.sql_journal import SqlJournal, open_journal
from turnkeeper.adapters.sql_readonly import open_readonly
from turnkeeper.adapters.sql_taking import SqlTaking
from turnkeeper.core.invariants import Findings
from turnkeeper.errors import SettingsError
from turnkeeper.ports import Claims, Clock, Handler, Hints, Peers, Taking
from turnkeeper.runner.drive import Tools
from turnkeeper.runner.options import RunnerOptions
from turnkeeper.runner.renewal_thread import RenewalThread
from turnkeeper.runner.service import Runner
from turnkeeper.settings import Settings
from turnkeeper.settings.stopping import cancel_grace_seconds

CLAIM_CALLS_PER_TTL = 6
"""A renewal has this part of the ttl: two tries fit between two renewals."""

CLAIM_CALL_SECONDS = 5.0
"""Shortest deadline of every other call about sessions and claims: what a transaction may wait for another writer. A
renewal that is late costs the claims; a start, a look at the sessions or a release that is late costs that time."""


LOOPBACK = "127.0.0.1"
"""Where a runner without a cluster answers its peers: they share a file, or are on this machine for a test."""


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
        name = f"{socket.gethostname()}-{os.getpid()}"
        peers = await stack.enter_async_context(SocketPeers(LOOPBACK)) if settings.runner.peers else None
        tools = make_tools(settings, name, journal, SqlTaking(journal, claims), handler, observer, peers)
        yield await stack.enter_async_context(Runner(tools, claims, RenewalThread(_connector(url, settings, deadline))))


def make_tools(
    settings: Settings,
    name: str,
    journal: SqlJournal,
    taking: Taking,
    handler: Handler,
    observer: PrometheusObserver,
    peers: Peers | None,
) -> Tools:
    """Return a runner's tools. name: the runner's, for people."""
    clock = MachineClock()
    return Tools(
        workspace=settings.workspace,
        journal=journal,
        taking=taking,
        hints=_hints(settings, journal, clock),
        clock=clock,
        handler=handler,
        observer=observer,
        options=runner_options(settings, name),
        peers=peers,
    )


def _hints(settings: Settings, journal: SqlJournal, clock: Clock) -> Hints:
    if settings.journal.postgres is None:
        return PollingHints(journal, clock)
    return PostgresHints(journal, clock, journal_url(settings), settings.workspace)


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


def runner_options(settings: Settings, name: str) -> RunnerOptions:
    """Return the runner's own part of the settings."""
    return RunnerOptions(
        runner=name,
        claim_ttl_seconds=settings.claim_ttl_seconds,
        max_turns=settings.runner.max_turns,
        turn_timeout_seconds=settings.turn.timeout_seconds,
        turn_progress_seconds=settings.turn.progress_seconds,
        max_attempts=settings.turn.max_attempts,
        sweep_interval_seconds=settings.recover.interval_seconds,
        cancel_grace_seconds=cancel_grace_seconds(settings.handler),
    )


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

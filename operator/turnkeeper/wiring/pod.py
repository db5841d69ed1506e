"""A runner in its pod: claims are Leases, and probes are answered from a thread of their own.

It starts although the journal or the API server can't be reached yet, and says so in its readiness: a process that
ended for that would be started again ever more rarely, and would be missed once they are back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Self

import uvloop

from turnkeeper.adapters.kube.api import open_kube_api
from turnkeeper.adapters.kube.lease_claims import LeaseClaims
from turnkeeper.adapters.kube.lease_records import Owner, Place
from turnkeeper.adapters.kube.lease_roster import LeaseRoster
from turnkeeper.adapters.machine_clock import MachineClock
from turnkeeper.adapters.peer_sockets import SocketPeers
from turnkeeper.adapters.prometheus import PrometheusObserver
from turnkeeper.adapters.sql_journal import open_journal
from turnkeeper.adapters.two_step import TwoStepTaking
from turnkeeper.api.probes import BEAT_SECONDS, ProbeServer, Vitals
from turnkeeper.errors import SettingsError, TurnkeeperError, UnavailableError
from turnkeeper.ports import Claims
from turnkeeper.runner.options import RunnerOptions
from turnkeeper.runner.renewal_thread import RenewalThread
from turnkeeper.runner.service import Runner
from turnkeeper.settings import Settings
from turnkeeper.settings.pod_variables import (
    JOURNAL_AWAY,
    NAMESPACE,
    PEER_PORT,
    POD_ADDRESS,
    POD_NAME,
    POD_UID,
    PROBE_PORT,
    WORKSPACE_NAME,
)
from turnkeeper.settings.workspace import GROUP, KIND, VERSION
from turnkeeper.wiring.parts import (
    CLAIM_CALL_SECONDS,
    CLAIM_CALLS_PER_TTL,
    journal_url,
    make_handler,
    make_tools,
)
from turnkeeper.wiring.process import set_up_logs, stop_signals
from turnkeeper.wiring.serving import listen, serve_runner

REQUESTS_PER_CALL = 2
"""A call about claims has time for a second request where the first was lost."""

START_SECONDS = 900.0
"""How long a start is tried before the process ends and is started anew. Arbitrary: longer than most outages."""

RETRY_SECONDS = (0.2, 5.0)
"""First and longest pause between two tries to start. Arbitrary: at once, and then without hurry."""

ANYWHERE = ""
"""Every address of the pod, of either family."""

JOURNAL_CHECK_SECONDS = 2.0
"""How often the journal is asked for a row, for readiness, and how long that may take. Arbitrary: soon enough that
calls go to another runner, rare against what turns ask of it."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pod:
    """Who this runner is to the cluster."""

    namespace: str
    name: str
    uid: str
    workspace: str
    address: str

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """Return what the pod's variables say. Raises SettingsError where this is no runner's pod."""
        names = (NAMESPACE, POD_NAME, POD_UID, WORKSPACE_NAME, POD_ADDRESS)
        missing = [name for name in names if not environment.get(name)]
        if missing:
            msg = f"not set: {', '.join(missing)}. `turnkeeper runner` is for a Workspace's pods; elsewhere use `run`"
            raise SettingsError(msg)
        return cls(*(environment[name] for name in names))

    def place(self, workspace_uid: str) -> Place:
        """Return where the Leases lie, and what they end with."""
        return Place(
            namespace=self.namespace,
            workspace=self.workspace,
            uid=workspace_uid,
            workspace_owner=Owner(api_version=f"{GROUP}/{VERSION}", kind=KIND, name=self.workspace, uid=workspace_uid),
            pod=Owner(api_version="v1", kind="Pod", name=self.name, uid=self.uid),
        )


class Pulse:
    """Leaves the signs by which the probes judge, until cancelled."""

    def __init__(self, vitals: Vitals) -> None:
        self._vitals = vitals
        self._journal_reason = ""
        self.runner: Runner | None = None
        self.reason = "it is starting"

    async def beat(self) -> None:
        """Beat."""
        while True:
            if self.runner is None:
                self._vitals.beat((self.reason,))
            else:
                journal = (self._journal_reason,) if self._journal_reason else ()
                reasons = (*self.runner.readiness().reasons, *journal)
                self._vitals.beat(reasons, self.runner.liveness().reasons)
            await asyncio.sleep(BEAT_SECONDS)

    async def watch_journal(self, runner: Runner) -> None:
        """Read a row now and then: claims that are Leases say nothing of the journal."""
        while True:
            try:
                async with asyncio.timeout(JOURNAL_CHECK_SECONDS):
                    await runner.journal.thread("readyz")
            except (TurnkeeperError, TimeoutError) as error:
                reason = f"{JOURNAL_AWAY}: {str(error) or f'no answer in {JOURNAL_CHECK_SECONDS:.0f} s'}"
                if not self._journal_reason:
                    _log.warning("%s", reason)
                self._journal_reason = reason
            else:
                self._journal_reason = ""
            await asyncio.sleep(JOURNAL_CHECK_SECONDS * random.uniform(0.75, 1.25))  # noqa: S311 - jitter, not a secret


def serve_pod(settings: Settings) -> int:
    """Run a Workspace's runner until a signal, and return the process's exit code.

    Raises SettingsError where it can't be one, UnavailableError where it could not start for a long time.
    """
    set_up_logs()
    pod = Pod.read(os.environ)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop_runner:
        return loop_runner.run(_serve(settings, pod))


async def _serve(settings: Settings, pod: Pod) -> int:
    listener = listen(settings)
    stopping = stop_signals()
    observer = PrometheusObserver()
    vitals = Vitals(stalled_seconds=_stalled_seconds(settings))
    pulse = Pulse(vitals)
    async with contextlib.AsyncExitStack() as stack:
        try:
            probes = ProbeServer(settings.listen.host, PROBE_PORT, {"/livez": vitals.livez, "/readyz": vitals.readyz})
        except OSError as error:
            raise SettingsError(f"can't listen on port {PROBE_PORT} for probes: {error.strerror}") from error
        stack.callback(probes.close)
        _keep(stack, pulse.beat())
        runner = await _open_patiently(stack, settings, pod, observer, pulse, stopping)
        if runner is None:
            return 0
        _keep(stack, pulse.watch_journal(runner))
        pulse.runner = runner

        def greet() -> None:
            _log.info("runner %s takes turns of the Workspace %s/%s", pod.name, pod.namespace, pod.workspace)

        await serve_runner(settings, runner, observer, listener, stopping, greet)
    return 0


def _stalled_seconds(settings: Settings) -> float:
    """Return when a loop that stands still is dead: when its renewals stop, too."""
    return RunnerOptions(runner="").loop_stall_ttls * settings.claim_ttl_seconds


def _keep(stack: contextlib.AsyncExitStack, work: Awaitable[None]) -> None:
    """Run a task until the stack ends."""
    task = asyncio.ensure_future(work)

    async def end() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(end)


async def _open_patiently(
    stack: contextlib.AsyncExitStack,
    settings: Settings,
    pod: Pod,
    observer: PrometheusObserver,
    pulse: Pulse,
    stopping: asyncio.Event,
) -> Runner | None:
    """Start a runner, again and again while a part can't be reached; None if it is told to stop meanwhile."""
    deadline = time.monotonic() + START_SECONDS
    pause, longest = RETRY_SECONDS
    stop = asyncio.create_task(stopping.wait())
    stack.callback(stop.cancel)
    while not stopping.is_set():
        opening = asyncio.ensure_future(stack.enter_async_context(open_pod_runner(settings, pod, observer)))
        await asyncio.wait((opening, stop), return_when=asyncio.FIRST_COMPLETED)
        if not opening.done():
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            return None
        try:
            return opening.result()
        except UnavailableError as error:
            if time.monotonic() >= deadline:
                raise
            pulse.reason = f"it is starting: {error}"
            _log.warning("not started yet: %s", error)
        await asyncio.wait((stop,), timeout=pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
        pause = min(2 * pause, longest)
    return None


@contextlib.asynccontextmanager
async def open_pod_runner(settings: Settings, pod: Pod, observer: PrometheusObserver) -> AsyncIterator[Runner]:
    """Open the journal, the API server and the handler, and start a runner; on leaving, close all in order."""
    place, clock = pod.place(settings.workspace), MachineClock()
    deadline = settings.claim_ttl_seconds / CLAIM_CALLS_PER_TTL
    patience = max(deadline, CLAIM_CALL_SECONDS)
    async with contextlib.AsyncExitStack() as stack:
        try:
            journal = await open_journal(journal_url(settings), settings.workspace, observer)
        except UnavailableError as error:
            raise UnavailableError(f"{JOURNAL_AWAY}: {error}") from error
        stack.push_async_callback(journal.aclose)
        api = await open_kube_api(deadline_seconds=patience / REQUESTS_PER_CALL, on_called=observer.kube_called)
        stack.push_async_callback(api.aclose)
        handler = make_handler(settings)
        stack.push_async_callback(handler.aclose)
        claims = LeaseClaims(api, place, clock, deadline_seconds=patience)
        await _bury_earlier_lives(claims, pod)
        taking = TwoStepTaking(journal, claims, clock)
        stack.push_async_callback(taking.aclose)
        watching = await open_kube_api(deadline_seconds=patience / REQUESTS_PER_CALL, on_called=observer.kube_called)
        stack.push_async_callback(watching.aclose)
        ttl = settings.claim_ttl_seconds
        roster = LeaseRoster(watching, place, claim_ttl_seconds=ttl, deadline_seconds=patience)
        await stack.enter_async_context(roster)
        peers = await _open_peers(stack, settings, pod)
        tools = make_tools(settings, pod.name, journal, taking, handler, observer, peers)
        renewals = RenewalThread(_connector(place, clock, deadline, observer))
        yield await stack.enter_async_context(Runner(tools, claims, renewals, roster))


async def _open_peers(stack: contextlib.AsyncExitStack, settings: Settings, pod: Pod) -> SocketPeers | None:
    if not settings.runner.peers:
        return None
    try:
        return await stack.enter_async_context(SocketPeers(ANYWHERE, PEER_PORT, advertised=pod.address))
    except OSError as error:
        raise SettingsError(f"can't listen on port {PEER_PORT} for other runners: {error.strerror}") from error


async def _bury_earlier_lives(claims: LeaseClaims, pod: Pod) -> None:
    """Declare dead the sessions of this pod's earlier containers: nobody has to wait for their end."""
    for record in await claims.sessions():
        if record.runner == pod.name and await claims.declare_dead(record):
            _log.info("session %s of an earlier life of this pod is declared dead", record.session)


def _connector(
    place: Place, clock: MachineClock, deadline_seconds: float, observer: PrometheusObserver
) -> Callable[[], Awaitable[tuple[Claims, Callable[[], Awaitable[None]]]]]:
    """Return what gives the renewing thread a client of its own."""

    async def connect() -> tuple[Claims, Callable[[], Awaitable[None]]]:
        patience = deadline_seconds / REQUESTS_PER_CALL
        api = await open_kube_api(deadline_seconds=patience, on_called=observer.kube_called)
        return LeaseClaims(api, place, clock, deadline_seconds=deadline_seconds), api.aclose

    return connect

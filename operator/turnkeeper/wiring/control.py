"""The controller in its pod: behind its Lease, with probes and metrics, until a signal or until the Lease is lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import uuid
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Final, Self

import uvloop

from turnkeeper.adapters.kube.api import open_kube_api
from turnkeeper.api.probes import BEAT_SECONDS, ProbeServer, Vitals
from turnkeeper.controller.gate import Gate
from turnkeeper.controller.kopf_events import follow_workspaces
from turnkeeper.controller.metrics import ControllerMetrics
from turnkeeper.controller.service import Controller, ControllerOptions
from turnkeeper.errors import SettingsError
from turnkeeper.wiring.process import set_up_logs, stop_signals

LEASE_NAME: Final = "turnkeeper-controller"

PORT: Final = 8080

STALLED_SECONDS: Final = 120.0
"""A loop that has stood still for so long is dead. Arbitrary: nothing here blocks it for more than a moment."""

STOP_SECONDS: Final = 10.0
"""How long everything may take to end before the process does."""

DEADLINE_SECONDS: Final = 10.0
"""Of one call to the API server. Arbitrary: a page of a long list on a busy server."""

GATE_DEADLINE_SECONDS: Final = 5.0
"""Of one call about the Lease: two fit between its renewals."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the controller is told by its Deployment. namespace: its own, where its Lease lies."""

    name: str
    namespace: str
    image: str
    namespaces: tuple[str, ...]
    port: int = PORT

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """Return what the environment says. Raises SettingsError where something is missing."""
        image = environment.get("TURNKEEPER_IMAGE", "")
        if not image:
            raise SettingsError(
                "TURNKEEPER_IMAGE is not set: the image that runners are given whose Workspace names none"
            )
        named = environment.get("TURNKEEPER_NAMESPACES", "").split(",")
        return cls(
            name=environment.get("POD_NAME") or socket.gethostname(),
            namespace=environment.get("POD_NAMESPACE") or "default",
            image=image,
            namespaces=tuple(name.strip() for name in named if name.strip()),
        )


def control(surroundings: Surroundings, log_level: str = "info") -> int:
    """Run the controller until a signal, and return the process's exit code: 1 where its Lease was lost.

    Raises SettingsError where it can't start.
    """
    set_up_logs()
    logging.getLogger("turnkeeper").setLevel(log_level.upper())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop_runner:
        return loop_runner.run(_control(surroundings))


async def _control(surroundings: Surroundings) -> int:
    stopping = stop_signals()
    metrics = ControllerMetrics()
    vitals = Vitals(stalled_seconds=STALLED_SECONDS)
    answers = {"/livez": vitals.livez, "/readyz": vitals.readyz, "/metrics": metrics.render}
    async with contextlib.AsyncExitStack() as stack:
        try:
            server = ProbeServer("0.0.0.0", surroundings.port, answers)  # noqa: S104 - the kubelet and Prometheus ask
        except OSError as error:
            raise SettingsError(f"can't listen on port {surroundings.port}: {error.strerror}") from error
        stack.callback(server.close)
        api = await open_kube_api(deadline_seconds=DEADLINE_SECONDS)
        stack.push_async_callback(api.aclose)
        gate_api = await open_kube_api(deadline_seconds=GATE_DEADLINE_SECONDS)
        stack.push_async_callback(gate_api.aclose)
        identity = f"{surroundings.name}_{uuid.uuid4().hex[:8]}"  # another at each life: none renews an earlier one's
        options = ControllerOptions(identity=identity, image=surroundings.image, namespaces=surroundings.namespaces)
        controller = Controller(api, options, metrics)
        gate = Gate(gate_api, surroundings.namespace, LEASE_NAME, identity)
        metrics.watch("acting", "Whether this controller holds the Lease.", lambda: float(gate.is_held))
        beating = asyncio.create_task(_beat(vitals, gate, controller))
        stack.callback(beating.cancel)
        if not await _first(stopping.wait(), gate.enter()):
            return 0
        return await _act(gate, controller, options, stopping)


async def _beat(vitals: Vitals, gate: Gate, controller: Controller) -> None:
    """Leave signs of life. A standby is ready: it stands by, and a rollout may go on."""
    while True:
        is_acting = gate.is_held
        vitals.beat(controller.reasons() if is_acting else (), controller.faults() if is_acting else ())
        await asyncio.sleep(BEAT_SECONDS)


async def _first(stop: Awaitable[object], work: Awaitable[object]) -> bool:
    """Whether the work was done before the stop came."""
    stopped, done = asyncio.ensure_future(stop), asyncio.ensure_future(work)
    await asyncio.wait((stopped, done), return_when=asyncio.FIRST_COMPLETED)
    for task in (stopped, done):
        task.cancel()
    await asyncio.gather(stopped, done, return_exceptions=True)
    return done.done() and not done.cancelled() and done.exception() is None


async def _follow(controller: Controller, options: ControllerOptions) -> None:
    """Watch Workspaces once the API server knows them: kopf asks once, and never watches what was not there then."""
    await controller.listed.wait()
    await follow_workspaces(options.namespaces, controller.workspace_event)


async def _act(gate: Gate, controller: Controller, options: ControllerOptions, stopping: asyncio.Event) -> int:
    """Act until told to stop (0), or until the Lease or a part of this is lost (1)."""
    parts = {
        asyncio.create_task(controller.run()): "the controller's loops",
        asyncio.create_task(_follow(controller, options)): "the watch",
        asyncio.create_task(gate.hold()): "the hold on the Lease",
        asyncio.create_task(stopping.wait()): "the wait for a signal",
    }
    await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
    for task, name in parts.items():
        if task.done() and not stopping.is_set():
            error = None if task.cancelled() else task.exception()
            _log.critical("%s ended; the process ends and is started anew", name, exc_info=error)
        task.cancel()
    await asyncio.wait(parts, timeout=STOP_SECONDS)
    await gate.leave()
    return 0 if stopping.is_set() else 1

"""The controller as a whole: what it sees, looks at, sweeps and writes. It rests on its own list and timers alone."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

from turnkeeper.adapters.kube.api import KubeApi
from turnkeeper.adapters.kube.resources import PODS, WORKSPACES
from turnkeeper.adapters.kube.watching import Followed, Follower
from turnkeeper.controller.caretaker import Caretaker
from turnkeeper.controller.events import EventPoster
from turnkeeper.controller.leases import LeaseCollector
from turnkeeper.controller.manifests.names import OWNED_SELECTOR
from turnkeeper.controller.manifests.owned import OWNED_RESOURCES
from turnkeeper.controller.metrics import ControllerMetrics
from turnkeeper.controller.pods import PodSeen
from turnkeeper.controller.queue import Queue
from turnkeeper.controller.reconcile import Reconciler
from turnkeeper.controller.runner_calls import RunnerCalls
from turnkeeper.controller.view import Key, Object, View
from turnkeeper.errors import TurnkeeperError

RESYNC_SECONDS: Final = 60.0
"""How often Workspaces are listed, whatever the watch said. Arbitrary: the bound for what a watch lost; one read."""

DOUBT_SECONDS: Final = 900.0
"""How often every object is compared afresh. Arbitrary: rare against what it costs."""

COLLECT_SECONDS: Final = 300.0
"""How often claims without a session are looked for. Arbitrary: they cost nobody anything while they stand."""

NOTICES_MAX: Final = 100
"""Deaths looked into at once; of more, the ttl takes care."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """identity: of this life. image: for runners whose Workspace names none. namespaces: all where empty."""

    identity: str
    image: str
    namespaces: tuple[str, ...] = ()


class Controller:
    """Use `run`; `workspace_event` takes what comes from outside. calls: how runners are reached; closed by `run`."""

    def __init__(
        self, api: KubeApi, options: ControllerOptions, metrics: ControllerMetrics, calls: RunnerCalls | None = None
    ) -> None:
        self._api = api
        self._options = options
        self._metrics = metrics
        self._calls = calls or RunnerCalls()
        self._view = View(self)
        self._reconciler = Reconciler(api, self._view, options.image, metrics)
        self._queue = Queue(self._look)
        events = EventPoster(api, options.identity)
        self._care = Caretaker(api, self._view, self._reconciler, self._calls, events, metrics, self._queue.ask)
        self._schedule = self._care.schedule
        self._leases = LeaseCollector(api, metrics)
        self._notices: set[asyncio.Task[None]] = set()
        self._failure = "it has not seen the Workspaces yet"
        self.listed = asyncio.Event()
        """Set once the Workspaces could be listed: before that, their definition may not be served yet."""
        metrics.watch("workspaces", "Workspaces that are looked after.", lambda: len(self._view.workspaces))
        metrics.watch("queue", "Workspaces that wait to be looked at.", lambda: self._queue.length)

    def faults(self) -> tuple[str, ...]:
        """Return why this process should not be left running."""
        overdue = self._schedule.overdue()
        shown = ", ".join("/".join(key) for key in overdue[:3])
        return (f"{len(overdue)} Workspaces should have been swept long ago: {shown}",) if overdue else ()

    def reasons(self) -> tuple[str, ...]:
        """Return what keeps it from its work."""
        return (self._failure,) if self._failure else ()

    async def run(self) -> None:
        """Look after every Workspace until cancelled."""
        followers = [Follower(self._api, followed) for followed in self._followed()]
        try:
            async with asyncio.TaskGroup() as tasks:
                await self._list_first()
                for follower in followers:  # one after the other: thousands of objects at once would cost their memory
                    tasks.create_task(follower.run())
                    await follower.listed.wait()
                for loop in self._loops():
                    tasks.create_task(loop)
        finally:
            self._queue.close()
            for notice in self._notices:
                notice.cancel()
            await asyncio.gather(*self._notices, return_exceptions=True)
            await self._calls.aclose()

    def workspace_event(self, kind: str | None, workspace: Object) -> None:
        """Take in an event of a Workspace."""
        if kind == "DELETED":
            self._view.drop_workspace((workspace["metadata"]["namespace"], workspace["metadata"]["name"]))
        else:
            self._view.put_workspace(workspace)

    async def _look(self, key: Key) -> float | None:
        return await self._care.look(key)

    def _loops(self) -> Sequence[Coroutine[Any, Any, None]]:
        return (
            self._queue.run(),
            self._schedule.run(),
            self._every(RESYNC_SECONDS, self._list_workspaces),
            self._every(COLLECT_SECONDS, self._collect),
            self._every(DOUBT_SECONDS, self._doubt),
        )

    def _namespaces(self) -> Sequence[str | None]:
        return self._options.namespaces or (None,)

    def _followed(self) -> list[Followed]:
        found = []
        for namespace in self._namespaces():
            found.append(Followed(PODS, namespace, OWNED_SELECTOR, self._view.put_pod, self._view.drop_pod))
            for resource in OWNED_RESOURCES:

                def put(owned: Object, resource: Any = resource) -> None:  # noqa: ANN401 - bound for the loop
                    self._view.put_owned(resource, owned)

                def drop(owned: Object, resource: Any = resource) -> None:  # noqa: ANN401 - bound for the loop
                    self._view.drop_owned(resource, owned)

                found.append(Followed(resource, namespace, OWNED_SELECTOR, put, drop))
        return found

    async def _list_first(self) -> None:
        while True:
            try:
                await self._list_workspaces()
            except TurnkeeperError as error:
                self._failure = f"the Workspaces can't be listed: {error}"
                _log.warning("%s", self._failure)
                await asyncio.sleep(random.uniform(2.0, 5.0))  # noqa: S311 - jitter, not a secret
            else:
                self.listed.set()
                return

    async def _list_workspaces(self) -> None:
        for namespace in self._namespaces():
            try:
                found = await self._api.list(WORKSPACES, namespace, is_lean=True)
            except TurnkeeperError as error:
                self._failure = f"the Workspaces can't be listed: {error}"
                raise
            for workspace in found.items:
                self._view.put_workspace(workspace)
            keys = {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in found.items}
            others = {key for key in self._view.workspaces if namespace not in {None, key[0]}}
            self._view.keep_workspaces(keys | others, found.resource_version)
        self._failure = ""

    async def _collect(self) -> None:
        for namespace in self._namespaces():
            await self._leases.collect_claims(namespace)

    async def _doubt(self) -> None:
        self._reconciler.doubt()
        for key in self._view.workspaces:
            self._care.doubt(key)

    async def _every(self, seconds: float, work: Any) -> None:  # noqa: ANN401 - one of the methods above
        while True:
            await asyncio.sleep(seconds * random.uniform(0.8, 1.2))  # noqa: S311 - jitter, not a secret
            try:
                await work()
            except TurnkeeperError as error:
                _log.warning("%s: %s", work.__name__.strip("_"), error)

    def changed(self, key: Key) -> None:
        """See `view.Listener`."""
        self._care.doubt(key)

    def became_ready(self, key: Key) -> None:
        """See `view.Listener`: it is asked at once what it finds."""
        self._schedule.ask(key)

    def died(self, key: Key, pod: PodSeen) -> None:
        """See `view.Listener`: what it ran is owed again."""
        self._schedule.ask(key)
        if len(self._notices) < NOTICES_MAX:
            task = asyncio.create_task(self._notice(key, pod))
            self._notices.add(task)
            task.add_done_callback(self._notices.discard)

    async def _notice(self, key: Key, pod: PodSeen) -> None:
        try:
            await self._leases.end_sessions(key, pod)
        except TurnkeeperError as error:
            _log.info("pod %s/%s has stopped; its session is left to its ttl: %s", key[0], pod.name, error)
        self._schedule.ask(key)

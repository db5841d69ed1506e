"""One look at one Workspace, and one sweep of it: what is done, and what is told of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from turnkeeper.adapters.kube.api import KubeApi
from turnkeeper.controller.conditions import Facts, Problem
from turnkeeper.controller.events import EventPoster, news
from turnkeeper.controller.manifests import Names
from turnkeeper.controller.metrics import ControllerMetrics
from turnkeeper.controller.reconcile import Reconciled, Reconciler
from turnkeeper.controller.recovery import Swept
from turnkeeper.controller.recovery import sweep as sweep_runners
from turnkeeper.controller.runner_calls import RunnerCalls
from turnkeeper.controller.schedule import Schedule
from turnkeeper.controller.status import StatusWriter
from turnkeeper.controller.tokens import Tokens, tokens_of
from turnkeeper.controller.view import Key, Object, View
from turnkeeper.errors import KubeNotFoundError, SettingsError, TurnkeeperError
from turnkeeper.settings.workspace import WorkspaceSpec, read_spec

PROBLEM_SECONDS: Final = 30.0
"""When to try again what was refused or missing. Arbitrary: a person's pace."""

NOBODY: Final = Swept()
"""What a sweep finds where there are no runners."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Known:
    """What is remembered of a Workspace from one look to the next."""

    uid: str
    reconciled: Reconciled | None = None
    swept: Swept | None = None
    acted_generation: int | None = None
    is_stale: bool = True


class Caretaker:
    """Remembers each Workspace from one look to the next. ask: has a Workspace looked at again."""

    def __init__(
        self,
        api: KubeApi,
        view: View,
        reconciler: Reconciler,
        calls: RunnerCalls,
        events: EventPoster,
        metrics: ControllerMetrics,
        ask: Callable[[Key], None],
    ) -> None:
        self._api = api
        self._view = view
        self._reconciler = reconciler
        self._calls = calls
        self._events = events
        self._metrics = metrics
        self._ask = ask
        self._status = StatusWriter(api)
        self._known: dict[Key, _Known] = {}
        self.schedule = Schedule(self.sweep)

    def doubt(self, key: Key) -> None:
        """Compare a Workspace's objects again at the next look, and have one."""
        if (known := self._known.get(key)) is not None:
            known.is_stale = True
        if known is not None or key in self._view.workspaces:
            self._ask(key)

    async def look(self, key: Key) -> float | None:
        """Bring one Workspace's objects to its spec, where something changed, and tell how it is."""
        workspace = self._view.workspaces.get(key)
        if workspace is None or "deletionTimestamp" in workspace["metadata"]:
            self._forget(key)
            return None
        names = Names.of(workspace)
        known = self._remember(key, names, workspace)
        try:
            spec = read_spec(workspace)
        except SettingsError as error:
            problem = Problem("InvalidSpec", f"{error}. Is the definition of Workspaces older or newer than this?")
            known.reconciled = Reconciled(problem)
            return await self._tell(names, workspace, None, known) or PROBLEM_SECONDS
        if spec.suspend:
            self.schedule.forget(key)
            known.swept = None
        else:
            self.schedule.plan(key, spec.recover.interval_seconds)
        if known.is_stale or known.reconciled is None:
            known.is_stale = False
            try:
                known.reconciled = await self._reconciler.reconcile(names, spec)
            except TurnkeeperError:
                known.is_stale = True
                self._metrics.looked("failed")
                raise
            self._metrics.looked("problem" if known.reconciled.problem else "done")
        if known.reconciled.problem is None:
            known.acted_generation = workspace["metadata"]["generation"]
        after = await self._tell(names, workspace, spec, known)
        if known.reconciled.problem is not None:
            known.is_stale = True
            return min(after or PROBLEM_SECONDS, PROBLEM_SECONDS)
        return after

    def _remember(self, key: Key, names: Names, workspace: Object) -> _Known:
        known = self._known.get(key)
        if known is None or known.uid != names.uid:
            known = self._known[key] = _Known(names.uid)
            stalled = _condition(workspace.get("status", {}), "Stalled")
            if stalled.get("status") == "False":
                known.acted_generation = stalled.get("observedGeneration")
        return known

    def _forget(self, key: Key) -> None:
        self._known.pop(key, None)
        self.schedule.forget(key)
        self._status.forget(key)
        self._metrics.forget(key)

    async def _tell(self, names: Names, workspace: Object, spec: WorkspaceSpec | None, known: _Known) -> float | None:
        """Write the status, where it changed, and post what is news in it."""
        old = workspace.get("status", {})
        facts = self._facts(names, workspace, spec, known)
        with suppress(KubeNotFoundError):  # it was deleted meanwhile
            written, after = await self._status.write(names, facts, old, self._workload(names, known))
            if written is None:
                return after
            self._metrics.wrote_status()
            workspace["status"] = written
            key = (names.namespace, names.workspace)
            self._metrics.show_conditions(
                key,
                is_ready=_condition(written, "Ready")["status"] == "True",
                is_recovered=_condition(written, "Recovered")["status"] == "True",
            )
            for told in news(old, written):
                await self._events.post(names, told)
        return None

    def _facts(self, names: Names, workspace: Object, spec: WorkspaceSpec | None, known: _Known) -> Facts:
        return Facts(
            generation=workspace["metadata"]["generation"],
            acted_generation=known.acted_generation,
            wanted=spec.runner.replicas if spec else 0,
            is_suspended=spec.suspend if spec else False,
            claim_ttl_seconds=spec.claim_ttl_seconds if spec else 0,
            interval_seconds=spec.recover.interval_seconds if spec else 0,
            pods=self._view.pods(names.uid),
            problem=known.reconciled.problem if known.reconciled else None,
            swept=known.swept,
        )

    def _workload(self, names: Names, known: _Known) -> dict[str, Any]:
        workload = known.reconciled.workload if known.reconciled else None
        seen = self._view.owned.get((workload[0], names.namespace, workload[1])) if workload else None
        return dict(seen.status) if seen else {}

    async def sweep(self, key: Key) -> bool:
        """Sweep one Workspace; whether nothing was left that another sweep soon might take."""
        workspace = self._view.workspaces.get(key)
        if workspace is None:
            return True
        names = Names.of(workspace)
        pods = self._view.pods(names.uid)
        known = self._remember(key, names, workspace)
        if not pods:
            self._metrics.swept("nobody", 0.0)
            if known.swept not in {None, NOBODY}:
                known.swept = NOBODY
                self._ask(key)
            return True
        tokens = known.reconciled.tokens if known.reconciled else None
        if tokens is None:
            found = await tokens_of(self._api, names, read_spec(workspace))
            if not isinstance(found, Tokens):
                return True
            tokens = found
        swept = await sweep_runners(self._calls, pods, tokens.first)
        known.swept = swept
        known.is_stale = known.is_stale or any("(401)" in failure for failure in swept.failures)
        self._metrics.swept("complete" if swept.is_complete else "partial", swept.seconds)
        if swept.stats is not None:
            self._metrics.show(key, swept.stats)
        if swept.report.started:
            _log.info("Workspace %s/%s: the sweep started %d turns", *key, swept.report.started)
        self._ask(key)
        return swept.is_complete or swept.runners == 0


def _condition(status: Object, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next((each for each in status.get("conditions", ()) if each["type"] == kind), {})
    return found

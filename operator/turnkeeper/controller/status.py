"""Writes what a Workspace says of itself: only what changed, and what only counts not more often than people read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from turnkeeper.adapters.kube.api import KubeApi
from turnkeeper.adapters.kube.resources import WORKSPACES
from turnkeeper.controller.conditions import Facts, merge, say
from turnkeeper.controller.manifests import Names
from turnkeeper.controller.recovery import Swept
from turnkeeper.controller.view import Key
from turnkeeper.settings.workspace import GROUP, KIND, VERSION

FIELD_MANAGER: Final = "turnkeeper-controller"

COUNTS_SECONDS: Final = 10.0
"""The shortest time between two writes that change counts alone. Arbitrary: as often as a person looks."""

OLDEST_STEP: Final = 0.1
"""A wait is written anew once it differs by this part: it grows every second, and the alert is the metric's."""


def status_of(
    names: Names, facts: Facts, old: Mapping[str, Any], workload: Mapping[str, Any], now: str
) -> dict[str, Any]:
    """Return the whole status. old: as it stands. workload: the status of the Deployment or StatefulSet."""
    found: dict[str, Any] = {
        "observedGeneration": facts.generation,
        "conditions": merge(say(facts), old.get("conditions", ()), facts.generation, now),
        "replicas": workload.get("replicas", 0),
        "readyReplicas": facts.ready,
        "selector": ",".join(f"{key}={value}" for key, value in sorted(names.selector.items())),
    }
    swept = facts.swept
    if swept is not None and swept.stats is not None:
        stats = swept.stats
        counts = {"owed": stats.owed, "running": stats.running, "paused": stats.paused, "parked": stats.parked}
        found["threads"] = counts
        found["oldestOwedSeconds"] = _stepped(stats.oldest_owed_seconds, old.get("oldestOwedSeconds"))
    else:
        found |= {name: old[name] for name in ("threads", "oldestOwedSeconds") if name in old}
    found |= _last_recover(swept, old.get("lastRecover"), now)
    return found


def _last_recover(swept: Swept | None, old: Mapping[str, Any] | None, now: str) -> dict[str, Any]:
    """Return the last sweep that told something new: a status that changed with each would be written with each."""
    if swept is None or swept.runners == 0:
        return {} if old is None else {"lastRecover": dict(old)}
    report = swept.report
    told = {
        "runners": swept.runners,
        "started": report.started,
        "held": report.held,
        "refused": report.refused,
        "failed": report.failed + len(swept.failures),
        "parked": report.parked,
        "remaining": report.remaining,
        "complete": swept.is_complete,
    }
    if old is not None and all(old.get(name) == value for name, value in told.items()):
        return {"lastRecover": dict(old)}
    return {"lastRecover": {"time": now, **told, "seconds": round(swept.seconds, 3)}}


def _stepped(seconds: float, old: int | None) -> int:
    new = int(seconds)
    return old if old and new and abs(new - old) <= OLDEST_STEP * old else new


class StatusWriter:
    """Writes statuses by server-side apply: a status that somebody else changed is put back."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._written: dict[Key, float] = {}

    def forget(self, key: Key) -> None:
        """Forget a Workspace that is gone."""
        self._written.pop(key, None)

    async def write(
        self, names: Names, facts: Facts, old: Mapping[str, Any], workload: Mapping[str, Any]
    ) -> tuple[dict[str, Any] | None, float | None]:
        """Write what differs. Return what was written, and after how many seconds to come again with what was not."""
        key = (names.namespace, names.workspace)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        wanted = status_of(names, facts, old, workload, now)
        if wanted == old:
            return None, None
        since = time.monotonic() - self._written.get(key, -COUNTS_SECONDS)
        if since < COUNTS_SECONDS and _essence(wanted) == _essence(old):
            return None, COUNTS_SECONDS - since
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            # The uid, so that a Workspace that was made anew meanwhile does not get the status of the earlier one.
            "metadata": {"name": names.workspace, "namespace": names.namespace, "uid": names.uid},
            "status": wanted,
        }
        await self._api.apply(
            WORKSPACES,
            names.namespace,
            names.workspace,
            body,
            field_manager=FIELD_MANAGER,
            subresource="status",
        )
        self._written[key] = time.monotonic()
        return wanted, None


def _essence(status: Mapping[str, Any]) -> dict[str, Any]:
    counts = {"threads", "oldestOwedSeconds", "lastRecover"}
    essence = {name: value for name, value in status.items() if name not in counts}
    parked = status.get("threads", {}).get("parked", 0)
    return {**essence, "parked": parked}

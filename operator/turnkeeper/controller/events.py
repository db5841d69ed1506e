"""What people see under `kubectl describe`: what changed for a Workspace, told once. Best effort, like all Events."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from turnkeeper.adapters.kube.api import KubeApi
from turnkeeper.adapters.kube.resources import EVENTS
from turnkeeper.controller.manifests import Names
from turnkeeper.errors import TurnkeeperError
from turnkeeper.settings.workspace import GROUP, KIND, VERSION

MESSAGE_MAX: Final = 1000
"""The API server takes 1,024 characters."""

GOOD: Final = {"Ready": "True", "JournalReachable": "True", "Recovered": "True", "Stalled": "False"}
"""Each condition's status that needs nobody."""

ORDINARY: Final = frozenset({"RunnersStarting", "NoRunners", "Suspended"})
"""Reasons of what somebody asked for, or of what is on its way."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class News:
    """One Event."""

    reason: str
    message: str
    is_warning: bool


def news(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[News]:
    """Yield what is told of the step from one status to the next. What is only on its way is not told."""
    before = {each["type"]: each for each in old.get("conditions", ())}
    for condition in new.get("conditions", ()):
        kind, status, reason = condition["type"], condition["status"], condition["reason"]
        earlier = before.get(kind, {})
        is_good, was_good = status == GOOD[kind], earlier.get("status") == GOOD[kind]
        was_bad = _is_bad(kind, earlier.get("status", "Unknown"))
        if is_good and (was_bad or (kind == "Ready" and not was_good)):
            yield News(reason, condition["message"], is_warning=False)
        elif _is_bad(kind, status) and earlier.get("reason") != reason and (was_good or reason not in ORDINARY):
            yield News(reason, condition["message"], is_warning=reason not in ORDINARY)
    yield from _parked(old, new)


def _is_bad(kind: str, status: str) -> bool:
    return status not in {GOOD[kind], "Unknown"}


def _parked(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[News]:
    before, now = (status.get("threads", {}).get("parked", 0) for status in (old, new))
    if now > before:
        message = (
            f"{now} threads have a turn that was set aside after its runners died of it. "
            "`turnkeeper threads --state parked` lists them, `turnkeeper parked` retries or drops one."
        )
        yield News("TurnParked", message, is_warning=True)


class EventPoster:
    """Posts Events under this controller's name."""

    def __init__(self, api: KubeApi, identity: str) -> None:
        self._api = api
        self._identity = identity

    async def post(self, names: Names, told: News) -> None:
        """Post an Event; one that can't be posted is logged and given up."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{names.workspace}.{secrets.token_hex(8)}", "namespace": names.namespace},
            "involvedObject": {
                "apiVersion": f"{GROUP}/{VERSION}",
                "kind": KIND,
                "namespace": names.namespace,
                "name": names.workspace,
                "uid": names.uid,
            },
            "type": "Warning" if told.is_warning else "Normal",
            "reason": told.reason,
            "message": told.message[:MESSAGE_MAX],
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "source": {"component": "turnkeeper"},
            "reportingComponent": f"{GROUP}/controller",
            "reportingInstance": self._identity[:128],
        }
        try:
            await self._api.create(EVENTS, names.namespace, body)
        except TurnkeeperError as error:
            _log.info("Workspace %s/%s: an Event is not posted: %s", names.namespace, names.workspace, error)

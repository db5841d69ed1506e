"""What is seen of a runner's pod: whether it can be asked, and if not, what keeps it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from turnkeeper.controller.manifests.names import UID_LABEL

CONTAINER: Final = "runner"

ORDINARY: Final = frozenset({"ContainerCreating", "PodInitializing", "Completed"})
"""Reasons of a pod on its way, or at its end: nothing for a person to do."""

TEXT_MAX: Final = 300
"""Characters of a reason that are shown. Arbitrary: some lines in `kubectl describe`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSeen:
    """A runner's pod.

    life: changes whenever its container is started anew. trouble: what keeps it from running, or "".
    """

    name: str
    uid: str
    workspace_uid: str
    address: str
    is_ready: bool
    is_running: bool
    is_leaving: bool
    life: int
    trouble: str


def pod_seen(pod: Mapping[str, Any]) -> PodSeen:
    """Return what is seen of a pod as the API server gave it."""
    metadata, status = pod["metadata"], pod.get("status", {})
    container = _container(status)
    conditions = {each["type"]: each for each in status.get("conditions", ())}
    return PodSeen(
        name=metadata["name"],
        uid=metadata["uid"],
        workspace_uid=metadata.get("labels", {}).get(UID_LABEL, ""),
        address=status.get("podIP", ""),
        is_ready=conditions.get("Ready", {}).get("status") == "True",
        is_running="running" in container.get("state", {}),
        is_leaving="deletionTimestamp" in metadata or status.get("phase") in {"Succeeded", "Failed"},
        life=container.get("restartCount", 0),
        trouble=_trouble(status, container, conditions),
    )


def _container(status: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Iterator[Mapping[str, Any]] = (
        each for each in status.get("containerStatuses", ()) if each.get("name") == CONTAINER
    )
    return next(found, {})


def _trouble(status: Mapping[str, Any], container: Mapping[str, Any], conditions: Mapping[str, Any]) -> str:
    """Return why a pod does not run, in the words of whoever keeps it from running."""
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False":
        return _told(scheduled.get("reason", "Unschedulable"), scheduled.get("message", ""))
    if status.get("phase") == "Failed":
        return _told(status.get("reason", "Failed"), status.get("message", ""))
    state = container.get("state", {})
    waiting, ended = state.get("waiting"), state.get("terminated")
    earlier = container.get("lastState", {}).get("terminated")
    if waiting and waiting.get("reason") not in ORDINARY:
        last = f"; it ended before: {_end(earlier)}" if earlier else ""
        return _told(waiting.get("reason", "Waiting"), waiting.get("message", "")) + last
    if ended and ended.get("reason") not in ORDINARY:
        return _end(ended)
    return ""


def _end(terminated: Mapping[str, Any]) -> str:
    return _told(
        f"{terminated.get('reason', 'Error')}, exit {terminated.get('exitCode')}", terminated.get("message", "")
    )


def _told(reason: str, message: str) -> str:
    text = " ".join(message.split())
    return f"{reason}: {text[-TEXT_MAX:]}" if text else reason

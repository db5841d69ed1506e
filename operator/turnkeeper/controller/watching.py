"""Follows objects of one kind: lists them, watches on, and lists afresh whenever it can't be sure to have seen all."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from turnkeeper.adapters.kube.api import KubeApi
from turnkeeper.adapters.kube.resources import Resource
from turnkeeper.controller.view import Object
from turnkeeper.errors import KubeGoneError, TurnkeeperError

RELIST_SECONDS = 600.0
"""How long a watch is believed before everything is read again. Arbitrary: rare against its cost; what a watch may
have lost without a word is found by then."""

PAUSE_SECONDS = (0.5, 15.0)
"""First and longest pause after a failure. Arbitrary: at once, and then without burdening a server in trouble."""

STALL_SECONDS = 60.0
"""A loop that was away for so long has seen nothing meanwhile: it lists afresh. Arbitrary: above a watch's length."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Followed:
    """What is followed, and who is told: of each object that there is, and of each that is gone."""

    resource: Resource
    namespace: str | None
    selector: str
    put: Callable[[Object], None]
    drop: Callable[[Object], None]


class Follower:
    """Keeps somebody told until cancelled. `listed` is set once everything there was has been told."""

    def __init__(self, api: KubeApi, followed: Followed) -> None:
        self._api = api
        self._followed = followed
        self._known: dict[tuple[str, str], dict[str, str]] = {}  # the labels, by which its owner is known
        self.listed = asyncio.Event()
        self.failure = ""

    async def run(self) -> None:
        """Follow."""
        pause, longest = PAUSE_SECONDS
        while True:
            try:
                await self._follow()
                pause = PAUSE_SECONDS[0]
            except KubeGoneError:
                continue
            except TurnkeeperError as error:
                self.failure = f"{self._followed.resource} can't be watched: {error}"
                _log.warning("%s", self.failure)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
                pause = min(2 * pause, longest)

    async def _follow(self) -> None:
        followed = self._followed
        found = await self._api.list(followed.resource, followed.namespace, followed.selector, is_lean=True)
        self._take_all(found.items)
        self.listed.set()
        self.failure = ""
        version = found.resource_version
        until = time.monotonic() + RELIST_SECONDS * random.uniform(0.75, 1.0)  # noqa: S311 - jitter, not a secret
        while (began := time.monotonic()) < until:
            watching = self._api.watch(followed.resource, followed.namespace, version, followed.selector)
            async with contextlib.aclosing(watching) as events:
                async for kind, changed in events:
                    version = changed["metadata"]["resourceVersion"]
                    self._take(kind, changed)
            if time.monotonic() - began > 2 * STALL_SECONDS:
                return

    def _take_all(self, items: tuple[Object, ...]) -> None:
        present = {_name(item) for item in items}
        for name in self._known.keys() - present:
            namespace, own = name
            labels = self._known.pop(name)
            self._followed.drop({"metadata": {"namespace": namespace, "name": own, "labels": labels}})
        for item in items:
            self._put(item)

    def _take(self, kind: str, changed: Object) -> None:
        if kind in {"ADDED", "MODIFIED"}:
            self._put(changed)
        elif kind == "DELETED":
            self._known.pop(_name(changed), None)
            self._followed.drop(changed)

    def _put(self, item: Object) -> None:
        self._known[_name(item)] = item["metadata"].get("labels", {})
        self._followed.put(item)


def _name(item: Object) -> tuple[str, str]:
    return item["metadata"]["namespace"], item["metadata"]["name"]

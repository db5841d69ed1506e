"""Follows objects of one kind: lists them, watches on, and lists afresh whenever it can't be sure to have seen all.

Theory. A list without a version goes through to etcd, so what is missing from it is gone: whoever was known and is not
in it is told as gone, as a deletion that was watched would be. A watch from the list's version tells all that came
after it, or 410. What neither tells is a watch that lies still: so one that is quiet for longer than what is followed
can be is given up, and everything is listed once in a while whatever the watch said.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from turnkeeper.adapters.kube.answers import Object
from turnkeeper.adapters.kube.api import QUIET_SECONDS, KubeApi
from turnkeeper.adapters.kube.resources import Resource
from turnkeeper.errors import KubeGoneError, TurnkeeperError

SHORT_SECONDS = 1.0
"""A watch that ended sooner has failed, whoever ended it. Arbitrary: far below any length that is asked for."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Followed:
    """What is followed, and who is told: of each object that there is, and of each that is gone."""

    resource: Resource
    namespace: str | None
    selector: str
    put: Callable[[Object], None]
    drop: Callable[[Object], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long what is waited for, in seconds."""

    relist_seconds: float = 600.0
    """How long a watch is believed before everything is read again. Arbitrary: rare against its cost; what a watch may
    have lost without a word is found by then."""

    quiet_seconds: float = QUIET_SECONDS
    """The longest that a watch may be quiet: how often what is followed changes, where that is known."""

    pause_seconds: tuple[float, float] = (0.5, 15.0)
    """First and longest pause after a failure. Arbitrary: soon, and then without burdening a server in trouble."""


class Follower:
    """Keeps somebody told until cancelled. `listed` is set once everything there was has been told.

    failure: why the last list or watch ended, "" since a list went well. heard_seconds: when the server last told
    anything, on the monotonic clock.
    """

    def __init__(self, api: KubeApi, followed: Followed, patience: Patience | None = None) -> None:
        self._api = api
        self._followed = followed
        self._patience = patience or Patience()
        self._known: dict[tuple[str, str], dict[str, str]] = {}  # the labels, by which its owner is known
        self.listed = asyncio.Event()
        self.failure = ""
        self.heard_seconds = time.monotonic()

    async def run(self) -> None:
        """Follow."""
        first, longest = self._patience.pause_seconds
        pause = first
        while True:
            began_seconds = time.monotonic()
            try:
                await self._follow()
            except KubeGoneError as error:
                _log.info("%s: listed afresh: %s", self._followed.resource, error)
            except TurnkeeperError as error:
                self.failure = f"{self._followed.resource} can't be watched: {error}"
                _log.warning("%s", self.failure)
            if time.monotonic() - began_seconds > longest:
                pause = first
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
            pause = min(2 * pause, longest)

    async def _follow(self) -> None:
        """List, and watch on until it is time to list again."""
        followed = self._followed
        found = await self._api.list(followed.resource, followed.namespace, followed.selector, is_lean=True)
        self._heard()
        self._take_all(found.items)
        self.failure = ""
        self.listed.set()
        until = self._patience.relist_seconds * random.uniform(0.75, 1.0)  # noqa: S311 - jitter, not a secret
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(until):
                await self._watch_on(found.resource_version)

    async def _watch_on(self, version: str) -> None:
        """Watch from a version, and again from the last that was told, since the server ends each watch."""
        followed, quiet_seconds = self._followed, self._patience.quiet_seconds
        while True:
            began_seconds = time.monotonic()
            watching = self._api.watch(
                followed.resource, followed.namespace, version, followed.selector, quiet_seconds=quiet_seconds
            )
            async with contextlib.aclosing(watching) as events:
                async for kind, changed in events:
                    self._heard()
                    version = changed["metadata"]["resourceVersion"]
                    self._take(kind, changed)
            if time.monotonic() - began_seconds < SHORT_SECONDS:
                _log.warning("%s: the watch was ended at once, so all is listed afresh", followed.resource)
                return

    def _heard(self) -> None:
        self.heard_seconds = time.monotonic()

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

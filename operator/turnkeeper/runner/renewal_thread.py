"""A thread with a loop of its own for renewals, so that neither a blocked loop nor a full pool costs the claims."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from turnkeeper.ports import Claims

JOIN_SECONDS = 5.0
"""How long the thread's end is waited for. Its calls have deadlines well below; past that it dies as a daemon."""

RESTART_SECONDS = 1.0
"""Pause before renewals that failed in an unforeseen way begin anew. Arbitrary: a small part of any real ttl."""

_log = logging.getLogger(__name__)


class RenewalThread:
    """See `session.RenewalHost`. connect: makes the thread's own claims client and what closes it, on its own loop."""

    def __init__(self, connect: Callable[[], Awaitable[tuple[Claims, Callable[[], Awaitable[None]]]]]) -> None:
        self._connect = connect
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, renewals: Callable[[Claims], Coroutine[Any, Any, None]]) -> None:
        """See `session.RenewalHost`."""
        self._thread = threading.Thread(target=self._run, args=(renewals,), name="turnkeeper-renew", daemon=True)
        self._thread.start()

    async def aclose(self) -> None:
        """See `session.RenewalHost`."""
        if self._thread is None:
            return
        if self._loop is not None and self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join, JOIN_SECONDS)

    def _run(self, renewals: Callable[[Claims], Coroutine[Any, Any, None]]) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(self._renew(renewals))

    async def _renew(self, renewals: Callable[[Claims], Coroutine[Any, Any, None]]) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        while True:
            try:
                await self._renew_once(renewals)
            except Exception:  # noqa: BLE001 - without renewals every claim is lost: begin anew rather than die silently
                _log.exception("the renewing thread begins anew")
                await asyncio.sleep(RESTART_SECONDS)

    async def _renew_once(self, renewals: Callable[[Claims], Coroutine[Any, Any, None]]) -> None:
        claims, close = await self._connect()
        try:
            await renewals(claims)
        finally:
            await close()

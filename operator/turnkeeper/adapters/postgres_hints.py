"""Hints between processes by PostgreSQL's LISTEN and NOTIFY, with the poll of threads' heads behind them.

A notification says that threads may have news: hashes of their ids, gathered for a moment, so that a burst of events is
one of them. It goes by a connection of its own after the commit that it is about, not in its transaction: PostgreSQL
commits transactions that notify one after the other. A hint that is lost so costs a poll's time and nothing else.

Whether hints arrive at all is known by hearing oneself: each process says now and then that it is there, and one that
does not hear its own word (a broken connection, a pooler that lends connections out for single transactions) polls as
if there were no notifications, and connects anew. A process that hears of no other notifies nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import random
import uuid
from collections import defaultdict
from collections.abc import Iterator

import asyncpg  # type: ignore[import-untyped]  # it ships no types
from sqlalchemy import URL

from turnkeeper.adapters.polling_hints import PollingHints, PollingWatch
from turnkeeper.ports import Clock, Journal

GATHER_SECONDS = 0.003
"""What is told within it goes out together. Arbitrary: nothing that a person feels, and 300 statements a second."""

HEARTBEAT_SECONDS = 5.0
"""How often a process says that it is there."""

SILENT_SECONDS = 12.0
"""Who was not heard for so long is not there, oneself included: two heartbeats and some time."""

HEARING_POLL_SECONDS = 1.0
"""Between two polls while hints arrive: what a lost one costs. Arbitrary: one small statement a second."""

RECONNECT_SECONDS = (0.2, 10.0)
"""First and longest pause before connecting anew, doubled and with jitter."""

CALL_SECONDS = 5.0
"""Deadline of each call."""

NAMED_MAX = 400
"""Threads in one notification: PostgreSQL takes 7,999 bytes of text."""

TOLD_MAX = 10_000
"""Threads remembered to be told of; what is beyond is left to the poll."""

APPLICATION_NAME = "turnkeeper hints"
"""What the database's administrator sees."""

_log = logging.getLogger(__name__)


class PostgresHints(PollingHints):
    """See `ports.Hints`. url: as the journal's own; the server must be reached without a pooler for this to help."""

    def __init__(self, journal: Journal, clock: Clock, url: URL, workspace: str) -> None:
        super().__init__(journal, clock)
        self._url = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._channel = "turnkeeper_" + _hash(workspace)
        self._me = uuid.uuid4().hex
        self._told: dict[str, None] = {}
        self._has_told = asyncio.Event()
        self._heard: dict[str, float] = {}  # processes by when they were last heard
        self._is_greeted = False  # somebody new is there, who should hear of this process at once
        self._by_hash: defaultdict[str, set[str]] = defaultdict(set)

    @property
    def poll_seconds(self) -> float:
        """See `PollingHints`."""
        return HEARING_POLL_SECONDS if self.is_hearing else super().poll_seconds

    @property
    def is_hearing(self) -> bool:
        """Whether notifications arrive here."""
        return self._is_heard(self._me)

    def watch(self, thread_id: str) -> PollingWatch:
        """See `ports.Hints`."""
        self._by_hash[_hash(thread_id)].add(thread_id)
        return super().watch(thread_id)

    def forget(self, thread_id: str, watch: PollingWatch) -> None:
        """See `PollingHints`."""
        super().forget(thread_id, watch)
        if thread_id not in self._watches:
            name = _hash(thread_id)
            self._by_hash[name].discard(thread_id)
            if not self._by_hash[name]:
                del self._by_hash[name]

    def tell(self, thread_id: str) -> None:
        """See `ports.Hints`."""
        super().tell(thread_id)
        if self.is_hearing and len(self._told) < TOLD_MAX and any(map(self._is_heard, self._others())):
            self._told[_hash(thread_id)] = None
            self._has_told.set()

    async def run(self) -> None:
        """See `ports.Hints`."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super().run())
            tasks.create_task(self._keep_listening())

    def _others(self) -> Iterator[str]:
        return (process for process in self._heard if process != self._me)

    def _is_heard(self, process: str) -> bool:
        heard = self._heard.get(process)
        return heard is not None and self._clock.monotonic() - heard < SILENT_SECONDS

    async def _keep_listening(self) -> None:
        pause, longest = RECONNECT_SECONDS
        while True:
            began = self._clock.monotonic()
            try:
                await self._listen()
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
                self._heard.pop(self._me, None)
                _log.info("notifications do not arrive, so threads are polled: %s: %s", type(error).__name__, error)
            if self._clock.monotonic() - began > SILENT_SECONDS:
                pause = RECONNECT_SECONDS[0]
            await self._clock.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
            pause = min(2 * pause, longest)

    async def _listen(self) -> None:
        """Listen and notify until the connection breaks or falls silent. Raises what says why."""
        async with asyncio.timeout(CALL_SECONDS):
            connection = await asyncpg.connect(
                self._url,
                timeout=CALL_SECONDS,
                command_timeout=CALL_SECONDS,
                server_settings={"application_name": APPLICATION_NAME},
            )
        try:
            connection.add_termination_listener(lambda _: self._has_told.set())
            await connection.add_listener(self._channel, self._hear)
            await self._say(connection)
        finally:
            connection.terminate()

    async def _say(self, connection: asyncpg.Connection) -> None:
        """Send what was told, and signs of life. Raises TimeoutError once one's own are not heard any more."""
        began, said = self._clock.monotonic(), float("-inf")
        while not connection.is_closed():
            now = self._clock.monotonic()
            if now - self._heard.get(self._me, began) > SILENT_SECONDS:
                msg = "this process does not hear its own notifications: is there a pooler before PostgreSQL?"
                raise TimeoutError(msg)
            if self._is_greeted or now - said >= HEARTBEAT_SECONDS:
                self._is_greeted, said = False, now
                await self._notify(connection, [])
            if named := list(self._told)[:NAMED_MAX]:
                for name in named:
                    del self._told[name]
                await self._notify(connection, named)
            else:
                await self._until_told(HEARTBEAT_SECONDS)
        msg = "the connection for notifications is gone"
        raise ConnectionError(msg)

    async def _until_told(self, seconds: float) -> None:
        self._has_told.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._has_told.wait()
                await self._clock.sleep(GATHER_SECONDS)

    async def _notify(self, connection: asyncpg.Connection, named: list[str]) -> None:
        await connection.execute("SELECT pg_notify($1, $2)", self._channel, " ".join([self._me, *named]))

    def _hear(self, _connection: object, _process_id: int, _channel: str, payload: str) -> None:
        process, *named = payload.split(" ")
        if process != self._me and not self._is_heard(process):
            self._is_greeted = True
            self._has_told.set()
        self._heard = {known: heard for known, heard in self._heard.items() if self._is_heard(known)}
        self._heard[process] = self._clock.monotonic()
        if process != self._me:
            for name in named:
                for thread_id in self._by_hash.get(name, ()):
                    super().tell(thread_id)


def _hash(text: str) -> str:
    """A short name of any text: a hint that is meant for another thread of the same hash does no harm."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

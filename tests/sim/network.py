"""What goes from process to process: connections that notice a death, and hints, with what may be wrong with either.

Both ports' adapters for virtual time are here. `NetworkPeers` does as `SocketPeers` does, over doors in place of
sockets. `NetworkHints` is `PostgresHints` itself, whose connection is one to all others here in place of a database's.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import URL

from tests.sim.faults import Fault, Harm
from tests.sim.virtual import now, pause
from tests.sim.wires import LATENCY_SECONDS, Line
from turnkeeper.adapters.postgres_hints import PostgresHints, _hash
from turnkeeper.core.claim import SessionRecord
from turnkeeper.ports import Clock, Journal

LATE_NOTICE_SECONDS = 6.0
"""Longest that a notice is late: two claim_ttls, so that the timer has come before it."""

Hear = Callable[[object, int, str, str], None]


@dataclass
class Door:
    """Where a machine's process answers its peers. session: whose it is; empty where nobody listens."""

    session: str = ""
    slandered: str = ""  # a session that lives, and in whose name connections are refused all the same
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def show(self, session: str) -> None:
        """Answer with this session from now on."""
        self.session = session
        self._tell()

    def slander(self) -> None:
        """Refuse connections in the name of whoever answers here now."""
        self.slandered = self.session
        self._tell()

    async def change(self) -> None:
        """Wait until connections end."""
        await self._changed.wait()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class Reception:
    """What reaches one life of a process of what others tell: all, but in the windows of its faults."""

    def __init__(self, rng: random.Random) -> None:
        self.windows: list[Fault] = []
        self.rng = rng

    def is_hit(self, harm: Harm) -> bool:
        """Draw whether this piece of news meets a fault of the kind."""
        moment = now()
        self.windows = [fault for fault in self.windows if fault.at + fault.seconds > moment]
        return any(fault.harm is harm and self.rng.random() < fault.share for fault in self.windows)

    @property
    def is_deaf(self) -> bool:
        """Whether nothing is heard at all."""
        return any(fault.harm is Harm.DEAF and fault.at + fault.seconds > now() for fault in self.windows)

    async def way(self) -> None:
        """Let the time pass that news is on its way."""
        await pause(min(self.rng.expovariate(1 / LATENCY_SECONDS), 10 * LATENCY_SECONDS))


class NetworkPeers:
    """See `ports.Peers`. noticed: told of each session that is said to be gone here."""

    def __init__(
        self, doors: dict[str, Door], address: str, line: Line, reception: Reception, noticed: Callable[[str], None]
    ) -> None:
        self.address = address
        self._doors = doors
        self._line = line
        self._reception = reception
        self._noticed = noticed

    def present(self, session: str) -> None:
        """See `ports.Peers`."""
        self._doors[self.address].show(session)

    async def until_gone(self, record: SessionRecord) -> None:
        """See `ports.Peers`. A notice that is lost is a connection that stays open at this end for ever."""
        door, was_heard = self._doors[record.address], False
        while not _says_gone(door, record.session, was_heard=was_heard):
            was_heard = was_heard or door.session == record.session
            await door.change()
        if self._reception.is_hit(Harm.NOTICE_LOST):
            await asyncio.get_running_loop().create_future()
        if self._reception.is_hit(Harm.NOTICE_LATE):
            await pause(self._reception.rng.uniform(0.0, LATE_NOTICE_SECONDS))
        await self._reception.way()
        await self._line.gate()
        self._noticed(record.session)


def _says_gone(door: Door, session: str, *, was_heard: bool) -> bool:
    if door.slandered == session:
        return True
    return was_heard if not door.session else door.session != session


class Listening:
    """One life's connection for hints."""

    def __init__(self, bus: Bus, line: Line, reception: Reception) -> None:
        self.line = line
        self.reception = reception
        self.hear: Hear | None = None
        self.on_end: Callable[[object], None] | None = None
        self._bus = bus
        self._is_closed = False

    def is_closed(self) -> bool:
        """See asyncpg."""
        return self._is_closed

    def add_termination_listener(self, on_end: Callable[[object], None]) -> None:
        """See asyncpg."""
        self.on_end = on_end

    async def add_listener(self, _channel: str, hear: Hear) -> None:
        """See asyncpg."""
        self.hear = hear

    async def execute(self, _query: str, channel: str, payload: str) -> None:
        """See asyncpg."""
        await self.line.gate()
        if not self.reception.is_deaf:
            self._bus.carry(channel, payload)

    def terminate(self) -> None:
        """See asyncpg."""
        self._is_closed = True
        self._bus.connected = [other for other in self._bus.connected if other is not self]

    def break_off(self) -> None:
        """End the connection from without."""
        self.terminate()
        if self.on_end is not None:
            self.on_end(self)


class Bus:
    """Carries hints to whoever listens, each on its own way. thread_ids: what a hint may be wrong about."""

    def __init__(self, thread_ids: Sequence[str]) -> None:
        self.connected: list[Listening] = []
        self._names = [_hash(thread_id) for thread_id in thread_ids]
        self._carried: set[asyncio.Task[None]] = set()

    async def connect(self, line: Line, reception: Reception) -> Listening:
        """Connect a life. Raises OSError where its connections fail."""
        await line.gate()
        if reception.is_deaf:
            msg = "nobody answers"
            raise ConnectionRefusedError(msg)
        self.connected.append(Listening(self, line, reception))
        return self.connected[-1]

    def break_off(self, reception: Reception) -> None:
        """End a life's connection from without."""
        for listening in self.connected:
            if listening.reception is reception:
                listening.break_off()

    def carry(self, channel: str, payload: str) -> None:
        """Send a notification on its way to all."""
        for listening in self.connected:
            reception = listening.reception
            if reception.is_deaf or reception.is_hit(Harm.HINT_LOST):
                continue
            told = [payload]
            if reception.is_hit(Harm.HINT_WRONG):
                sender, *named = payload.split(" ")
                wrong = [sender, *(reception.rng.choice(self._names) for _ in named)]
                told = [payload, payload] if reception.rng.random() < 0.5 else [" ".join(wrong)]
            for each in told:
                task = asyncio.get_running_loop().create_task(self._deliver(listening, channel, each))
                self._carried.add(task)
                task.add_done_callback(self._carried.discard)

    async def _deliver(self, listening: Listening, channel: str, payload: str) -> None:
        await listening.reception.way()
        if listening.line.is_dead or listening.is_closed() or listening.hear is None:
            return
        await listening.line.gate()
        listening.hear(listening, 0, channel, payload)


class NetworkHints(PostgresHints):
    """See `ports.Hints`."""

    def __init__(
        self, journal: Journal, clock: Clock, workspace: str, connect: Callable[[], Awaitable[Listening]]
    ) -> None:
        super().__init__(journal, clock, URL.create("postgresql"), workspace)
        self._connect = connect

    async def _listen(self) -> None:
        connection = await self._connect()
        try:
            connection.add_termination_listener(lambda _: self._has_told.set())
            await connection.add_listener(self._channel, self._hear)
            await self._say(connection)
        finally:
            connection.terminate()

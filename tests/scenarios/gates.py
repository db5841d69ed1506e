"""The adapters of a life that can end at a named point: all of it passes a gate that closes for good."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from turnkeeper.adapters.polling_hints import PollingHints
from turnkeeper.adapters.sql_claims import SqlClaims
from turnkeeper.adapters.sql_database import Database, Transaction
from turnkeeper.adapters.sql_journal import SqlJournal
from turnkeeper.core.draft import Act
from turnkeeper.core.values import Claim
from turnkeeper.ports import Observer

T = TypeVar("T")

WORKSPACE = "scenarios"

Hook = Callable[[str, str], Awaitable[None]]
"""Awaited at each point: its name, such as `after:take`, and the thread."""


class Gate:
    """A database that can be closed for good, from one moment to the next."""

    def __init__(self, database: Database) -> None:
        self.dialect = database.dialect
        self.behind = database
        self.is_shut = False

    async def write(self, transaction: Transaction[T]) -> T:
        """See `Database`."""
        return await self._pass(self.behind.write, transaction)

    async def read(self, transaction: Transaction[T]) -> T:
        """See `Database`."""
        return await self._pass(self.behind.read, transaction)

    async def aclose(self) -> None:
        """See `Database`."""
        await self.behind.aclose()

    async def hold(self) -> None:
        """Wait for ever, if the gate is shut."""
        if self.is_shut:
            await asyncio.Event().wait()

    async def _pass(self, way: Callable[[Transaction[T]], Awaitable[T]], transaction: Transaction[T]) -> T:
        await self.hold()
        result = await way(transaction)
        await self.hold()
        return result


class PointedJournal(SqlJournal):
    """A journal with a point before and after each act."""

    def __init__(self, gate: Gate, hook: Hook, observer: Observer) -> None:
        super().__init__(gate, WORKSPACE, observer)
        self._gate = gate
        self._hook = hook

    async def transact(self, act: Act[T]) -> T:
        """See `ports.Journal`."""
        await self._gate.hold()
        await self._hook(f"before:{act.name}", act.thread_id)
        verdict = await super().transact(act)
        for name, _ in act.parts(verdict):
            await self._hook(f"after:{name}", act.thread_id)
        await self._gate.hold()
        return verdict


class PointedClaims(SqlClaims):
    """Claims with a point before and after each release and claim."""

    hook: Hook

    async def release(self, thread_id: str, claim: Claim) -> None:
        """See `ports.Claims`."""
        await self.hook("before:release", thread_id)
        await super().release(thread_id, claim)
        await self.hook("after:release", thread_id)


class DeafHints(PollingHints):
    """Hints that hear of nothing that other processes write."""

    async def run(self) -> None:
        """See `ports.Hints`."""
        await asyncio.Event().wait()

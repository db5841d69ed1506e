"""Where a contract is tried: one store of each kind, and as many independent clients of it as a test wants.

Clients of one store are what processes would be: each has its own connections and lane, and knows nothing of the
others but through the store. An adapter joins the suites by a `Store` of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from sqlalchemy import delete, insert, select

from turnkeeper.adapters.kube import lease_records
from turnkeeper.adapters.kube.api import KubeApi, open_kube_api
from turnkeeper.adapters.kube.lease_claims import LeaseClaims
from turnkeeper.adapters.kube.lease_records import Place
from turnkeeper.adapters.kube.resources import LEASES
from turnkeeper.adapters.machine_clock import MachineClock
from turnkeeper.adapters.memory import MemoryClaims, MemoryJournal, MemoryStore
from turnkeeper.adapters.sql_claims import SqlClaims
from turnkeeper.adapters.sql_database import Database, open_database
from turnkeeper.adapters.sql_journal import SqlJournal, open_journal
from turnkeeper.adapters.sql_rows import claim_from, claim_values
from turnkeeper.adapters.sql_tables import claims as claims_table
from turnkeeper.adapters.sql_taking import SqlTaking
from turnkeeper.adapters.two_step import TwoStepTaking
from turnkeeper.core.values import Claim
from turnkeeper.errors import KubeNotFoundError
from turnkeeper.ports import Claims, Journal, Taking

WORKSPACE = "w"
DEADLINE_SECONDS = 20.0
"""Of a call about claims: long, since here a slow machine must not look like a lost answer."""


class Store(Protocol):
    """A store and its clients. `edit_claim` and `claim_of` are the hand that goes past every client."""

    async def journal(self, workspace: str = WORKSPACE) -> Journal:
        """Return a journal of a process of its own."""

    async def claims(self, workspace: str = WORKSPACE) -> Claims:
        """Return sessions and claims as another process sees them."""

    async def edit_claim(self, thread_id: str, claim: Claim | None) -> None:
        """Put a claim object there, or remove it, whoever holds it."""

    async def claim_of(self, thread_id: str) -> Claim | None:
        """Return the claim object as it stands."""

    async def aclose(self) -> None:
        """Close every client."""


@dataclass
class MemoryStores:
    """One memory store for each workspace."""

    stores: dict[str, MemoryStore] = field(default_factory=dict)

    def _store(self, workspace: str) -> MemoryStore:
        return self.stores.setdefault(workspace, MemoryStore())

    async def journal(self, workspace: str = WORKSPACE) -> Journal:
        return MemoryJournal(workspace, self._store(workspace))

    async def claims(self, workspace: str = WORKSPACE) -> Claims:
        return MemoryClaims(workspace, self._store(workspace))

    async def edit_claim(self, thread_id: str, claim: Claim | None) -> None:
        claims = self._store(WORKSPACE).claims
        claims.pop(thread_id, None)
        if claim is not None:
            claims[thread_id] = claim

    async def claim_of(self, thread_id: str) -> Claim | None:
        return self._store(WORKSPACE).claims.get(thread_id)

    async def aclose(self) -> None:
        pass


@dataclass
class SqlStore:
    """One database; each client has an engine of its own."""

    url: str
    closers: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    has_tables: bool = False

    async def journal(self, workspace: str = WORKSPACE) -> SqlJournal:
        journal = await open_journal(self.url, workspace)
        self.has_tables = True
        self.closers.append(journal.aclose)
        return journal

    async def claims(self, workspace: str = WORKSPACE) -> Claims:
        return SqlClaims(await self.database(), workspace, deadline_seconds=DEADLINE_SECONDS)

    async def database(self) -> Database:
        """Return connections of one's own, to a database that has its tables."""
        if not self.has_tables:
            await self.journal()
        database = open_database(self.url)
        self.closers.append(database.aclose)
        return database

    async def edit_claim(self, thread_id: str, claim: Claim | None) -> None:
        of_thread = (claims_table.c.workspace == WORKSPACE) & (claims_table.c.thread_id == thread_id)
        database = await self.database()
        await database.write(lambda connection: connection.execute(delete(claims_table).where(of_thread)))
        if claim is not None:
            values = claim_values(WORKSPACE, thread_id, claim)
            await database.write(lambda connection: connection.execute(insert(claims_table).values(**values)))

    async def claim_of(self, thread_id: str) -> Claim | None:
        of_thread = (claims_table.c.workspace == WORKSPACE) & (claims_table.c.thread_id == thread_id)
        database = await self.database()
        row = await database.read(
            lambda connection: connection.execute(select(claims_table).where(of_thread)).one_or_none()
        )
        return claim_from(row) if row is not None else None

    async def aclose(self) -> None:
        await asyncio.gather(*(close() for close in self.closers))


@dataclass
class LeaseStore:
    """A namespace of a real API server for sessions and claims, and a journal in memory; each client has its own way.

    Nothing here is owned by an object that is not there: a cluster would collect it at once.
    """

    kubeconfig: Path
    namespace: str
    journals: MemoryStores = field(default_factory=MemoryStores)
    opened: list[KubeApi] = field(default_factory=list)

    async def api(self) -> KubeApi:
        """Return a client of one's own."""
        self.opened.append(await open_kube_api(deadline_seconds=DEADLINE_SECONDS / 2, kubeconfig=self.kubeconfig))
        return self.opened[-1]

    def place(self, workspace: str = WORKSPACE) -> Place:
        """Return where a workspace's Leases lie."""
        return Place(namespace=self.namespace, workspace=workspace, uid=f"uid-of-{workspace}")

    async def journal(self, workspace: str = WORKSPACE) -> Journal:
        return await self.journals.journal(workspace)

    async def claims(self, workspace: str = WORKSPACE) -> Claims:
        return LeaseClaims(await self.api(), self.place(workspace), MachineClock(), deadline_seconds=DEADLINE_SECONDS)

    async def edit_claim(self, thread_id: str, claim: Claim | None) -> None:
        api, place = await self.api(), self.place()
        with contextlib.suppress(KubeNotFoundError):
            await api.delete(LEASES, self.namespace, lease_records.claim_name(place, thread_id))
        if claim is not None:
            lease = lease_records.claim_lease(place, thread_id, claim, 0, runner="", seen=None)
            await api.create(LEASES, self.namespace, lease)

    async def claim_of(self, thread_id: str) -> Claim | None:
        api = await self.api()
        try:
            lease = await api.get(LEASES, self.namespace, lease_records.claim_name(self.place(), thread_id))
        except KubeNotFoundError:
            return None
        return lease_records.claim_from(thread_id, lease)

    async def aclose(self) -> None:
        await asyncio.gather(*(api.aclose() for api in self.opened))


def two_step(journal: Journal, claims: Claims) -> Taking:
    """Return the taking of two stores."""
    return TwoStepTaking(journal, claims, MachineClock())


def fused(journal: Journal, claims: Claims) -> Taking:
    """Return the taking of one database."""
    return SqlTaking(journal, claims)

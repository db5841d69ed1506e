"""Sessions and claims in SQL, under the protocol that Leases keep: expiry is observed, death is a conditional delete.

A renewal only ever updates; a row that is gone stays gone. What this door does not promise is in `ports.Claims`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from turnkeeper.adapters import sql_rows as rows
from turnkeeper.adapters.sql_database import Database, Transaction
from turnkeeper.adapters.sql_load import existing_sessions
from turnkeeper.adapters.sql_tables import claims, sessions
from turnkeeper.core.claim import Busy, Claimed, SessionGone, SessionRecord
from turnkeeper.core.claim import claim as decide
from turnkeeper.core.values import Claim
from turnkeeper.errors import UnknownOutcomeError

T = TypeVar("T")

_RACES_MAX = 3
"""How often a claim that appeared between look and insert is looked at again. A second race in a row is rare."""


class SqlClaims:
    """See `ports.Claims`. deadline_seconds: of each call, to be well under a third of the session's duration."""

    def __init__(self, database: Database, workspace: str, *, deadline_seconds: float) -> None:
        self._database = database
        self.workspace = workspace
        self._deadline_seconds = deadline_seconds

    async def open_session(
        self, session: str, runner: str, duration_seconds: float, address: str = ""
    ) -> SessionRecord:
        """See `ports.Claims`."""
        fresh = SessionRecord(
            session=session, runner=runner, version="1", duration_seconds=duration_seconds, address=address
        )

        def write(connection: Connection) -> SessionRecord:
            if known := self._session(connection, session):
                return known
            connection.execute(insert(sessions).values(workspace=self.workspace, **{**asdict(fresh), "version": 1}))
            return fresh

        return await self._write(write)

    async def renew(self, session: str) -> SessionRecord | SessionGone:
        """See `ports.Claims`."""

        def write(connection: Connection) -> SessionRecord | SessionGone:
            newer = update(sessions).where(self._is(session)).values(version=sessions.c.version + 1)
            if connection.execute(newer).rowcount == 0:
                return SessionGone()
            return self._session(connection, session) or SessionGone()

        return await self._write(write)

    async def close_session(self, session: str) -> None:
        """See `ports.Claims`."""
        await self._write(lambda connection: connection.execute(delete(sessions).where(self._is(session))))

    async def sessions(self) -> Sequence[SessionRecord]:
        """See `ports.Claims`."""
        query = select(sessions).where(sessions.c.workspace == self.workspace)

        def read(connection: Connection) -> Sequence[SessionRecord]:
            return [_record_from(row) for row in connection.execute(query)]

        return await self._within_deadline(self._database.read(read))

    async def session(self, session: str) -> SessionRecord | None:
        """See `ports.Claims`."""
        return await self._within_deadline(self._database.read(lambda connection: self._session(connection, session)))

    async def declare_dead(self, record: SessionRecord) -> bool:
        """See `ports.Claims`."""
        dead = delete(sessions).where(self._is(record.session), sessions.c.version == int(record.version))
        return await self._write(lambda connection: connection.execute(dead).rowcount == 1)

    async def claim(self, thread_id: str, session: str, nonce: str, journal_token: int) -> Claimed | Busy | SessionGone:
        """See `ports.Claims`."""

        def write(connection: Connection) -> Claimed | Busy | SessionGone:
            for _ in range(_RACES_MAX):
                seen = self._claim(connection, thread_id)
                named = [session, *([seen.session] if seen else [])]
                verdict = decide(
                    seen,
                    session=session,
                    nonce=nonce,
                    journal_token=journal_token,
                    existing=existing_sessions(connection, self.workspace, named),
                )
                if not isinstance(verdict, Claimed) or self._store(connection, thread_id, seen, verdict.claim):
                    return verdict
            msg = f"thread {thread_id!a}: its claim changed {_RACES_MAX} times while it was being claimed"
            raise UnknownOutcomeError(msg)

        return await self._write(write)

    async def release(self, thread_id: str, claim: Claim) -> None:
        """See `ports.Claims`."""
        gone = delete(claims).where(
            self._of(thread_id), claims.c.session == claim.session, claims.c.token == claim.token
        )
        await self._write(lambda connection: connection.execute(gone))

    async def _write(self, transaction: Transaction[T]) -> T:
        return await self._within_deadline(self._database.write(transaction))

    async def _within_deadline(self, answer: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._deadline_seconds):
                return await answer
        except TimeoutError as error:
            msg = f"no answer about sessions and claims in {self._deadline_seconds:.1f} s"
            raise UnknownOutcomeError(msg) from error

    def _is(self, session: str) -> ColumnElement[bool]:
        return (sessions.c.workspace == self.workspace) & (sessions.c.session == session)

    def _of(self, thread_id: str) -> ColumnElement[bool]:
        return (claims.c.workspace == self.workspace) & (claims.c.thread_id == thread_id)

    def _session(self, connection: Connection, session: str) -> SessionRecord | None:
        row = connection.execute(select(sessions).where(self._is(session))).one_or_none()
        return _record_from(row) if row is not None else None

    def _claim(self, connection: Connection, thread_id: str) -> Claim | None:
        row = connection.execute(select(claims).where(self._of(thread_id)).with_for_update()).one_or_none()
        return rows.claim_from(row) if row is not None else None

    def _store(self, connection: Connection, thread_id: str, seen: Claim | None, claim: Claim) -> bool:
        """Put the claim where `seen` was; False if another came first."""
        if seen is not None:
            values = {"session": claim.session, "token": claim.token, "nonce": claim.nonce}
            connection.execute(update(claims).where(self._of(thread_id)).values(**values))
            return True
        dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
        new = dialect.insert(claims).values(rows.claim_values(self.workspace, thread_id, claim))
        return connection.execute(new.on_conflict_do_nothing()).rowcount == 1


def _record_from(row: Row[Any]) -> SessionRecord:
    return SessionRecord(
        session=row.session,
        runner=row.runner,
        version=str(row.version),
        duration_seconds=row.duration_seconds,
        address=row.address,
    )

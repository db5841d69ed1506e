"""Claiming with starting, and ending with releasing, in one transaction: where claims and journal share a database."""

from __future__ import annotations

from turnkeeper.core import ending, taking
from turnkeeper.core.cursor import AcceptVerdict
from turnkeeper.core.draft import Act
from turnkeeper.core.ending import Ending, EndVerdict
from turnkeeper.core.taking import OpenVerdict, Taker, TakeVerdict
from turnkeeper.core.turn import Start, Started, StartVerdict
from turnkeeper.core.values import Claim
from turnkeeper.ports import Claims, Journal


class SqlTaking:
    """See `ports.Taking`. A claim without a run is never committed, so an error leaves nothing to clean up."""

    def __init__(self, journal: Journal, claims: Claims) -> None:
        self._journal = journal
        self._claims = claims

    async def take(self, thread_id: str, session: str, how: Start) -> TakeVerdict:
        """See `ports.Taking`."""
        return await self._journal.transact(taking.take(thread_id, Taker(session, how.run_id), how))

    async def accept(self, accepting: Act[AcceptVerdict], session: str, how: Start) -> OpenVerdict:
        """See `ports.Taking`."""
        return await self._journal.transact(taking.accept_and_take(accepting, Taker(session, how.run_id), how))

    async def take_again(self, started: Started, how: Start) -> StartVerdict:
        """See `ports.Taking`."""
        return await self._journal.transact(taking.take_again(started.thread.thread_id, started.fence, how))

    async def end(self, started: Started, ending_: Ending, now_ms: int, *, keep_claim: bool) -> EndVerdict:
        """See `ports.Taking`."""
        act = ending.end(
            started.thread.thread_id, started.run.run_id, started.fence, ending_, now_ms, keep_claim=keep_claim
        )
        return await self._journal.transact(act)

    async def let_go(self, started: Started) -> None:
        """See `ports.Taking`."""
        claim = Claim(session=started.fence.session, token=started.fence.token, nonce="")
        await self._claims.release(started.thread.thread_id, claim)

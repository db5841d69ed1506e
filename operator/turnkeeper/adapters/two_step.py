"""Claiming, then starting; ending, then releasing: where the claim store is not the journal's database.

Between the two steps anything may happen. What keeps the promise there: a claim that did not lead to a run is released
here, whatever the reason, by a task that this adapter owns; and if this process dies between them, its session does not
exist for long and whoever takes next replaces the claim.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Coroutine
from dataclasses import replace

from turnkeeper.core import ending, turn
from turnkeeper.core.claim import Busy, Claimed
from turnkeeper.core.cursor import AcceptVerdict
from turnkeeper.core.draft import Act
from turnkeeper.core.ending import Ended, Ending, EndVerdict
from turnkeeper.core.taking import OpenVerdict, TakeVerdict
from turnkeeper.core.turn import NothingOwed, Start, Started, StartVerdict, Superseded
from turnkeeper.core.values import Claim, Fence, Thread
from turnkeeper.errors import UnavailableError
from turnkeeper.ports import Claims, Clock, Journal

RAISES_MAX = 5
"""How often a claim's token is raised above what the journal has seen. Each raise answers a claim object that somebody
put back by hand; more than a few in a row is a defect that must show."""

RELEASE_SECONDS = (0.1, 5.0)
"""First and longest pause between tries to release. Arbitrary: a call's time, and what a waiting thread may lose."""

SETTLE_SECONDS = 1.0
"""How long a take waits for an earlier claim of this process to be settled. Arbitrary: some calls' time."""

RELEASE_TRIES = 12
"""Tries to release a claim before it is left to the end of its session: about 40 s at the pauses above."""

_log = logging.getLogger(__name__)


class TwoStepTaking:
    """See `ports.Taking`."""

    def __init__(self, journal: Journal, claims: Claims, clock: Clock) -> None:
        self._journal = journal
        self._claims = claims
        self._clock = clock
        self._releases: set[asyncio.Task[None]] = set()
        self._unsettled: dict[str, asyncio.Task[None]] = {}  # by thread, where a claim's answer was lost

    async def take(self, thread_id: str, session: str, how: Start) -> TakeVerdict:
        """See `ports.Taking`."""
        if not await self._is_settled(thread_id):
            return Busy(session)
        verdict: TakeVerdict = NothingOwed()
        for _ in range(RAISES_MAX):
            thread = await self._journal.thread(thread_id)
            if thread is None or (thread.run is None and not thread.is_owed):
                return verdict
            verdict = await self._claim_and_start(thread, session, how)
            if not isinstance(verdict, NothingOwed | Superseded):
                return verdict
            # Superseded: the claim object was behind the journal, and is made anew above it. NothingOwed: a message
            # that came before the release was refused busy, so the row is read once more after it.
        return verdict

    async def accept(
        self,
        accepting: Act[AcceptVerdict],
        session: str,  # noqa: ARG002 - the claim is in another store, and so another step
        how: Start,  # noqa: ARG002 - as for the session: nothing is started here
    ) -> OpenVerdict:
        """See `ports.Taking`."""
        return await self._journal.transact(accepting), None

    async def _claim_and_start(self, thread: Thread, session: str, how: Start) -> TakeVerdict:
        try:
            claimed = await self._claims.claim(thread.thread_id, session, how.run_id, thread.token)
        except BaseException:
            self._unsettled[thread.thread_id] = self._later(self._undo(thread.thread_id, session, how.run_id))
            raise
        if not isinstance(claimed, Claimed):
            return claimed
        try:
            holder_gone = thread.run is None or await self._claims.session(thread.session) is None
        except BaseException:
            self._later(self._keep_releasing(thread.thread_id, claimed.claim))
            raise
        return await self._start_or_release(thread.thread_id, claimed.claim, how, holder_gone=holder_gone)

    async def take_again(self, started: Started, how: Start) -> StartVerdict:
        """See `ports.Taking`."""
        return await self._start_or_release(started.thread.thread_id, _claim_of(started), how, holder_gone=False)

    async def end(self, started: Started, ending_: Ending, now_ms: int, *, keep_claim: bool) -> EndVerdict:
        """See `ports.Taking`."""
        act = ending.end(
            started.thread.thread_id, started.run.run_id, started.fence, ending_, now_ms, keep_claim=keep_claim
        )
        verdict = await self._journal.transact(act)
        if isinstance(verdict, Ended) and not verdict.released:
            return verdict
        await self.let_go(started)
        return await self._read_after(verdict)

    async def _read_after(self, verdict: EndVerdict) -> EndVerdict:
        """Return the verdict with the row as it is after the release: who came before it was refused busy."""
        if not isinstance(verdict, Ended):
            return verdict
        thread = await self._journal.thread(verdict.thread.thread_id)
        return replace(verdict, thread=thread or verdict.thread)

    async def let_go(self, started: Started) -> None:
        """See `ports.Taking`."""
        await self._release(started.thread.thread_id, _claim_of(started))

    async def aclose(self) -> None:
        """Give up the releases that are still being tried; their session is about to go anyway."""
        for task in self._releases:
            task.cancel()
        await asyncio.gather(*self._releases, return_exceptions=True)

    async def _start_or_release(self, thread_id: str, claim: Claim, how: Start, *, holder_gone: bool) -> StartVerdict:
        try:
            act = turn.start(thread_id, Fence(claim.token, claim.session), how, holder_gone=holder_gone)
            started = await self._journal.transact(act)
        except BaseException:
            self._later(self._keep_releasing(thread_id, claim))
            raise
        if not isinstance(started, Started):
            await self._release(thread_id, claim)
        return started

    async def _release(self, thread_id: str, claim: Claim) -> None:
        """Release now; if that fails, go on in the background and let the caller go on too."""
        try:
            await self._claims.release(thread_id, claim)
        except BaseException as error:
            self._later(self._keep_releasing(thread_id, claim))
            if not isinstance(error, UnavailableError):
                raise

    def _later(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)
        return task

    async def _is_settled(self, thread_id: str) -> bool:
        """Wait a moment for an earlier claim whose answer was lost; False if it is still not known."""
        undoing = self._unsettled.get(thread_id)
        if undoing is None:
            return True
        sleeping = asyncio.ensure_future(self._clock.sleep(SETTLE_SECONDS))
        await asyncio.wait((undoing, sleeping), return_when=asyncio.FIRST_COMPLETED)
        sleeping.cancel()
        return undoing.done()

    async def _undo(self, thread_id: str, session: str, nonce: str) -> None:
        """Find out whether a claim whose answer was lost was made, by making it again, and release it.

        Until that is known this process claims the thread under no other nonce: it would be its own rival.
        """
        try:
            await self._claim_and_release(thread_id, session, nonce)
        finally:
            self._unsettled.pop(thread_id, None)

    async def _claim_and_release(self, thread_id: str, session: str, nonce: str) -> None:
        pause, longest = RELEASE_SECONDS
        for _ in range(RELEASE_TRIES):
            try:
                claimed = await self._claims.claim(thread_id, session, nonce, 0)
            except UnavailableError:
                await self._clock.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
                pause = min(2 * pause, longest)
                continue
            if isinstance(claimed, Claimed):
                await self._keep_releasing(thread_id, claimed.claim)
            return

    async def _keep_releasing(self, thread_id: str, claim: Claim) -> None:
        pause, longest = RELEASE_SECONDS
        for _ in range(RELEASE_TRIES):
            try:
                await self._claims.release(thread_id, claim)
            except UnavailableError as error:
                _log.warning("thread %a: its claim can't be released yet: %s", thread_id, error)
            else:
                return
            await self._clock.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
            pause = min(2 * pause, longest)
        _log.error("thread %a: its claim was not released; it ends with this runner's session", thread_id)


def _claim_of(started: Started) -> Claim:
    return Claim(session=started.fence.session, token=started.fence.token, nonce="")

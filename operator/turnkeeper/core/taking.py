"""Claiming and starting as one decision, where claims and journal share a database (spec actions Claim and Start).

A crash between a claim and its start can't happen here, and a turn costs one transaction less. The verdicts are those
of the two steps, so a runner does not know which of the two ways it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from turnkeeper.core import turn
from turnkeeper.core.claim import Busy, Claimed, SessionGone, claim
from turnkeeper.core.cursor import Accepted, AcceptVerdict
from turnkeeper.core.draft import Act, Change, Needs, Seen
from turnkeeper.core.pairing import Pair, pair
from turnkeeper.core.turn import NothingOwed, Start, Started, StartVerdict, Superseded
from turnkeeper.core.values import Fence
from turnkeeper.core.words import Mode

TakeVerdict = StartVerdict | Busy | SessionGone
OpenVerdict = tuple[AcceptVerdict, TakeVerdict | None]
"""What became of a message, and of the take that it set off; None where none was tried."""


@dataclass(frozen=True, slots=True)
class Taker:
    """Who would take: a session, and the nonce of this very attempt."""

    session: str
    nonce: str


def take(thread_id: str, taker: Taker, how: Start) -> Act[TakeVerdict]:
    """Return the act that claims a thread and starts its turn, or answers why not. No run, no claim."""

    def decide(seen: Seen) -> tuple[TakeVerdict, Change | None]:
        thread = seen.thread
        if thread is None or (thread.run is None and not thread.is_owed):
            return NothingOwed(), None
        verdict = claim(
            seen.claim,
            session=taker.session,
            nonce=taker.nonce,
            journal_token=thread.token,
            existing=seen.sessions,
        )
        if not isinstance(verdict, Claimed):
            return verdict, None
        fence = Fence(verdict.claim.token, taker.session)
        started, change = turn.begin(seen, thread, fence, how, holder_gone=thread.session not in seen.sessions)
        if change is None:
            return started, None
        if not isinstance(started, Started):
            # No run, so no claim: what was found of a dead holder's goes, for the thread may never be taken again.
            found = seen.claim.session if seen.claim is not None else taker.session
            return started, replace(change, claim_changes=True, claim=None, claim_of=found)
        return started, replace(change, claim_changes=True, claim=verdict.claim)

    needs = Needs(pending=True, turn=True, questions=True, claim_for=taker.session)
    return Act("take", thread_id, decide, needs)


def accept_and_take(accepting: Act[AcceptVerdict], taker: Taker, how: Start) -> Pair[AcceptVerdict, TakeVerdict]:
    """Return the act that records a message and, where it finds its thread free, starts the turn that it asks for."""
    return pair(accepting, take(accepting.thread_id, taker, how), lambda verdict: sets_off(verdict, how.run_id))


def sets_off(verdict: AcceptVerdict, run_id: str) -> bool:
    """Whether a message that was just accepted is to be taken at once. Where a run is open, its holder is asked first.

    run_id: the run that would be started; open already, where the answer to the first try was lost.
    """
    if not isinstance(verdict, Accepted) or verdict.message.mode is Mode.NOTE or verdict.answered:
        return False
    return verdict.thread.run is None or verdict.thread.run.run_id == run_id


def take_again(thread_id: str, fence: Fence, how: Start) -> Act[StartVerdict]:
    """Return the act that starts the next turn under a claim that was kept, or gives the claim back."""

    def decide(seen: Seen) -> tuple[StartVerdict, Change | None]:
        if seen.thread is None:
            return NothingOwed(), None
        started, change = turn.begin(seen, seen.thread, fence, how, holder_gone=False)
        if isinstance(started, Started | Superseded):
            return started, change  # a claim that the journal refuses is no more the row's to give back
        return started, replace(change or Change(thread=seen.thread), claim_changes=True, claim=None)

    return Act("take_again", thread_id, decide, turn.START_NEEDS)

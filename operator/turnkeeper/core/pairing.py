"""Two acts of one thread in one transaction: the second sees what the first has changed, as if it came right behind.

Each is decided by itself, so nothing new can happen by it: it is a moment in which nobody came between. What it saves
is a transaction, where the second nearly always follows the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from turnkeeper.core.draft import PENDING_LOADED_MAX, Act, Change, Needs, Seen
from turnkeeper.core.words import Fate

A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair(Act[tuple[A, B | None]]):
    """See `pair`."""

    first: Act[A]
    second: Act[B]

    def parts(self, verdict: tuple[A, B | None]) -> tuple[tuple[str, object], ...]:
        """See `Act`."""
        one, other = verdict
        return ((self.first.name, one), *(((self.second.name, other),) if other is not None else ()))


def pair(first: Act[A], second: Act[B], goes_on: Callable[[A], bool]) -> Pair[A, B]:
    """Return both acts as one; the second is decided only where `goes_on` says so of the first's verdict.

    The first must leave alone what the second needs, but for the thread's row and messages that it adds.
    """

    def decide(seen: Seen) -> tuple[tuple[A, B | None], Change | None]:
        verdict, change = first.decide(seen)
        if not goes_on(verdict):
            return (verdict, None), change
        later, further = second.decide(after(seen, change) if change is not None else seen)
        return (verdict, later), merged(change, further)

    return Pair(
        name=first.name,
        thread_id=first.thread_id,
        decide=decide,
        needs=_both(first.needs, second.needs),
        creates=first.creates,
        first=first,
        second=second,
    )


def after(seen: Seen, change: Change) -> Seen:
    """Return what the next act of the transaction sees: the row as it now is, and new messages behind what waits."""
    added = tuple(message for message in change.messages if message.fate is Fate.PENDING)
    pending = (*seen.pending, *added)[:PENDING_LOADED_MAX]
    return replace(seen, thread=change.thread, pending=pending)


def merged(one: Change | None, other: Change | None) -> Change | None:
    """Return two changes as one: of what both store, the later stands."""
    if one is None or other is None:
        return one or other
    claiming = other if other.claim_changes else one
    return Change(
        thread=other.thread,
        entries=one.entries + other.entries,
        messages=tuple({message.message_id: message for message in one.messages + other.messages}.values()),
        runs=tuple({run.run_id: run for run in one.runs + other.runs}.values()),
        questions=tuple({question.question_id: question for question in one.questions + other.questions}.values()),
        steps=one.steps + other.steps,
        parked=tuple({parked.seq: parked for parked in one.parked + other.parked}.values()),
        claim_changes=claiming.claim_changes,
        claim=claiming.claim,
        claim_of=claiming.claim_of,
    )


def _both(one: Needs, other: Needs) -> Needs:
    return Needs(**{each.name: getattr(one, each.name) or getattr(other, each.name) for each in fields(Needs)})

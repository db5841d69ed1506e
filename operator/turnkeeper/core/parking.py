"""A parked turn, resolved by a person: tried again from its first attempt, or dropped. Each once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from turnkeeper.core.draft import Act, Change, Draft, Needs, Seen
from turnkeeper.core.values import Parked, Thread
from turnkeeper.core.words import Fate, Kind


class ParkedAction(StrEnum):
    """What a person does about a parked turn."""

    RETRY = "retry"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Unparked:
    """The turn is resolved, by this call."""

    thread: Thread


@dataclass(frozen=True, slots=True)
class AlreadyUnparked:
    """The turn was resolved before; `parked.resolved` says how."""

    parked: Parked


@dataclass(frozen=True, slots=True)
class NoSuchParked:
    """No turn was parked at that seq."""


def resolve_parked(
    thread_id: str, seq: int, action: ParkedAction, now_ms: int
) -> Act[Unparked | AlreadyUnparked | NoSuchParked]:
    """Return the act that retries or drops the turn parked at `seq`."""

    def decide(seen: Seen) -> tuple[Unparked | AlreadyUnparked | NoSuchParked, Change | None]:
        thread, parked = seen.thread, seen.parked
        if thread is None or parked is None:
            return NoSuchParked(), None
        if parked.resolved == action and seen.repeated:
            return Unparked(thread), None
        if parked.resolved:
            return AlreadyUnparked(parked), None
        draft = Draft(thread, now_ms)
        is_retry = action is ParkedAction.RETRY
        kind = Kind.PARKED_RETRIED if is_retry else Kind.PARKED_DROPPED
        ask_seq = draft.write(kind, {"parked_seq": seq, "turn_id": parked.turn_id})
        draft.put_parked(replace(parked, resolved=action.value, ask_seq=ask_seq if is_retry else 0))
        for message in seen.prompts:
            fate = Fate.RETRYING if is_retry else Fate.DROPPED
            draft.put_message(replace(message, fate=fate, reason="" if is_retry else "dropped by a person"))
        asked = ask_seq if is_retry else draft.thread.asked
        draft.thread = replace(draft.thread, parked=thread.parked - 1, asked=asked)
        change = draft.change()
        return Unparked(change.thread), change

    return Act("resolve_parked", thread_id, decide, Needs(parked_seq=seq))

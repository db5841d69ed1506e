"""The two cursors of a thread, and how a message moves the first: `accept`.

Theory. `asked` is the newest seq that asks for a turn, `taken` the newest that a turn has consumed; both only rise. A
message that asks is written and raises `asked` in one transaction, so nothing can be accepted and not be asked. Only a
transaction that consumes raises `taken`. The thread owes a turn while asked > taken, and that is all that anybody has
to look at to find it: not who died, not who was told.

Which waiting messages a turn consumes: the oldest, and those right behind it up to the next one that wants a turn of
its own (`mode: queue`). Steering offers the same prefix, so that one sender's messages are consumed in the order in
which they were accepted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TypeAlias

from turnkeeper.core.draft import PENDING_LOADED_MAX, Act, Change, Draft, Needs, Seen
from turnkeeper.core.names import digest
from turnkeeper.core.questions import reply
from turnkeeper.core.values import Json, Message, Thread
from turnkeeper.core.words import Fate, Kind, Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """What somebody sends. The id is given by the sender or made by the runner before its first try."""

    message_id: str
    content: Json
    sender: str = ""
    mode: Mode = Mode.STEER


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The message is recorded. `answered` names the questions that it resolved as a plain reply."""

    message: Message
    thread: Thread
    answered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """The very same message was accepted before; this is its receipt."""

    message: Message
    thread: Thread


@dataclass(frozen=True, slots=True)
class Clash:
    """Another message was accepted under this id."""

    message: Message


AcceptVerdict: TypeAlias = Accepted | Known | Clash


def accept(new: NewMessage, thread_id: str, now_ms: int) -> Act[AcceptVerdict]:
    """Return the act that records a message and, unless it is a note, asks for a turn (spec action Accept).

    Repeating it with the same id and body answers Known, whatever became of the first: a lost answer is asked again.
    """
    mark = digest(new.content, new.sender, new.mode)

    def decide(seen: Seen) -> tuple[AcceptVerdict, Change | None]:
        thread = seen.thread or Thread(thread_id=thread_id)
        if seen.message is not None:
            if seen.message.digest == mark and seen.repeated:
                return Accepted(message=seen.message, thread=thread), None
            if seen.message.digest == mark:
                return Known(seen.message, thread), None
            return Clash(seen.message), None
        return _record(new, mark, thread, seen, now_ms)

    needs = Needs(message_id=new.message_id, questions=True)
    return Act("accept", thread_id, decide, needs, creates=True)


def _record(new: NewMessage, mark: str, thread: Thread, seen: Seen, now_ms: int) -> tuple[Accepted, Change]:
    draft = Draft(thread, now_ms)
    asks = new.mode is not Mode.NOTE
    body = {"message_id": new.message_id, "sender": new.sender, "mode": new.mode, "content": new.content}
    seq = draft.write(Kind.MESSAGE if asks else Kind.NOTE, body)
    message = Message(
        message_id=new.message_id,
        seq=seq,
        sender=new.sender,
        mode=new.mode,
        digest=mark,
        created_ms=now_ms,
        content=new.content,
        fate=Fate.PENDING if asks else Fate.NOTED,
    )
    draft.put_message(message)
    answered: tuple[str, ...] = ()
    if asks:
        draft.thread = replace(draft.thread, asked=seq)
        answered = reply(draft, message, seen.questions)
    change = draft.change()
    return Accepted(message=message, thread=change.thread, answered=answered), change


def prompts_among(pending: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the waiting messages that the next turn consumes, oldest first; empty if none waits."""
    if not pending:
        return ()
    return (pending[0], *steerable_among(pending[1:]))


def steerable_among(pending: Iterable[Message]) -> tuple[Message, ...]:
    """Return the waiting messages that a run in progress may be offered, oldest first."""
    return tuple(takewhile(lambda message: message.mode is Mode.STEER, pending))


def settle_taken(draft: Draft, seen: Seen, consumed: tuple[Message, ...], *, retry_taken: bool = False) -> None:
    """Move `taken` over what was just consumed; to `asked` if nothing else waits. Never back.

    Between two turns the thread has waited since its oldest message that is left, not since the one before: else a
    thread that is always asked again would always be the oldest.
    """
    done = {message.seq for message in consumed}
    left = {message.seq: message for message in seen.pending if message.seq not in done}
    retry_waits = seen.retrying is not None and not retry_taken
    thread = draft.thread
    # Only the oldest retry is loaded, so once it is taken another may wait behind it.
    is_all_seen = len(seen.pending) < PENDING_LOADED_MAX and not retry_taken
    if not left and not retry_waits and is_all_seen:
        taken = thread.asked
    else:
        # Below the oldest that still waits: a retry may have consumed something newer than it.
        waiting = [*left, *([seen.retrying.ask_seq] if retry_waits and seen.retrying else [])]
        newest = max([message.seq for message in consumed], default=0)
        if retry_taken and seen.retrying:
            newest = seen.retrying.ask_seq  # a retry asks there, whatever its messages' seqs
        taken = min([newest, *(seq - 1 for seq in waiting)])
    waits_since_ms = thread.owed_since_ms
    if thread.turn is None and left:
        waits_since_ms = left[min(left)].created_ms
    draft.thread = replace(thread, taken=max(thread.taken, taken), owed_since_ms=waits_since_ms)

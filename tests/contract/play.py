"""Short ways to say what people and runners do, for tests that are about what the journal does."""

from __future__ import annotations

from typing import TypeVar

from turnkeeper.core.cursor import Accepted, Clash, Known, NewMessage, accept
from turnkeeper.core.ending import Ending, EndVerdict, append, end
from turnkeeper.core.turn import Start, Started, StartVerdict, start
from turnkeeper.core.values import Fence, Json, Question
from turnkeeper.core.words import Ask, Mode, Outcome
from turnkeeper.ports import Journal

T = TypeVar("T")


async def send(
    journal: Journal,
    thread_id: str = "t",
    message_id: str = "m1",
    content: Json = "hello",
    *,
    sender: str = "",
    mode: Mode = Mode.STEER,
    now_ms: int = 1,
) -> Accepted | Known | Clash:
    """Send a message."""
    new = NewMessage(message_id=message_id, content=content, sender=sender, mode=mode)
    return await journal.transact(accept(new, thread_id, now_ms))


def how(run_id: str = "r1", *, max_attempts: int = 3, now_ms: int = 2) -> Start:
    """Return how a runner that is willing to do anything would start."""
    return Start(run_id=run_id, runner="runner", now_ms=now_ms, max_attempts=max_attempts, ripe=True, apart=True)


async def try_start(
    journal: Journal, thread_id: str, run_id: str, fence: Fence, *, gone: bool = True, max_attempts: int = 3
) -> StartVerdict:
    """Try to start a turn under a fence."""
    act = start(thread_id, fence, how(run_id, max_attempts=max_attempts), holder_gone=gone)
    return await journal.transact(act)


async def begin(
    journal: Journal,
    thread_id: str = "t",
    run_id: str = "r1",
    token: int = 1,
    session: str = "s1",
    *,
    gone: bool = True,
) -> Started:
    """Start a turn that can be."""
    started = await try_start(journal, thread_id, run_id, Fence(token, session), gone=gone)
    return expect(started, Started)


async def emit(journal: Journal, started: Started, number: int, event: Json = "event") -> object:
    """Write an event of a run."""
    act = append(started.thread.thread_id, started.run.run_id, started.fence, number, event, 3)
    return await journal.transact(act)


async def finish(
    journal: Journal, started: Started, ending: Ending | None = None, *, keep_claim: bool = False
) -> EndVerdict:
    """End a run, as completed if nothing else is said."""
    how_it_ends = ending or Ending(outcome=Outcome.COMPLETED, answer="done")
    act = end(started.thread.thread_id, started.run.run_id, started.fence, how_it_ends, 4, keep_claim=keep_claim)
    return await journal.transact(act)


def asking(
    started: Started, *question_ids: str, ask: Ask = Ask.FREE, detail: Json = None, expires_ms: int | None = None
) -> Ending:
    """Return the ending of a run that asks."""
    questions = tuple(
        Question(
            question_id=question_id,
            turn_id=started.turn.turn_id,
            ask=ask,
            text=f"about {question_id}?",
            detail=detail,
            expires_ms=expires_ms,
        )
        for question_id in question_ids
    )
    return Ending(outcome=Outcome.PAUSED, questions=questions)


def expect(value: object, kind: type[T]) -> T:
    """Return a value that must be of a kind."""
    assert isinstance(value, kind), value
    return value

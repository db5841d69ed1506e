"""Questions of a paused turn: asked at the end of a run, each resolved once, by an answer, a plain reply or the clock.

Theory. A thread is paused while questions are open, and holds no claim then. A question is resolved under the thread's
row lock, so that of two answers in the same instant one wins and the other is told what stands. When the last one is
resolved the resolving entry asks for a turn, and the turn goes on in a new run with the resolutions.

A plain message to a paused thread is the reply: it answers what is free and *declines* what wants an approval. Chat
never approves. A message that was waiting unread as its run paused counts as sent just after: the thread could
otherwise wait for a person who believes to have been heard.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from turnkeeper.core.draft import Act, Change, Draft, Needs, Seen
from turnkeeper.core.values import Json, Message, Question, Thread
from turnkeeper.core.words import Ask, Kind, Resolution


@dataclass(frozen=True, slots=True)
class Answered:
    """The question is resolved, and by this call."""

    question: Question
    thread: Thread


@dataclass(frozen=True, slots=True)
class AlreadyResolved:
    """The question was resolved before; `question` says how it stands."""

    question: Question


@dataclass(frozen=True, slots=True)
class NoSuchQuestion:
    """The thread has no question of that id."""


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """The question wants the other form of answer."""

    question: Question


def answer(
    thread_id: str, question_id: str, verdict: Resolution, value: Json, now_ms: int
) -> Act[Answered | AlreadyResolved | NoSuchQuestion | WrongAnswer]:
    """Return the act that resolves one question (spec action Answer).

    verdict: ANSWERED with a value for a free question, APPROVED or DENIED for an approval, EXPIRED for either.
    """

    def decide(seen: Seen) -> tuple[Answered | AlreadyResolved | NoSuchQuestion | WrongAnswer, Change | None]:
        question, thread = seen.question, seen.thread
        if question is None or thread is None:
            return NoSuchQuestion(), None
        if seen.repeated and question.resolution is verdict and question.answer == value:
            return Answered(question, thread), None
        if question.resolution is not Resolution.OPEN:
            return AlreadyResolved(question), None
        is_free = verdict is Resolution.ANSWERED
        if verdict is not Resolution.EXPIRED and is_free is not (question.ask is Ask.FREE):
            return WrongAnswer(question), None
        draft = Draft(thread, now_ms)
        resolved = replace(question, resolution=verdict, answer=value)
        seq = _resolve(draft, resolved, "expiry" if verdict is Resolution.EXPIRED else "answer")
        if draft.thread.open_questions == 0:
            draft.thread = replace(draft.thread, asked=seq)
        change = draft.change()
        return Answered(resolved, change.thread), change

    return Act("answer", thread_id, decide, Needs(question_id=question_id))


def reply(draft: Draft, message: Message, questions: tuple[Question, ...]) -> tuple[str, ...]:
    """Let a plain message resolve every open question, and return their ids; none where none is open.

    The message is bound to the paused turn, which consumes it as it goes on, whatever the message's mode.
    """
    found = tuple(question for question in questions if question.resolution is Resolution.OPEN)
    if found and draft.thread.turn is not None:
        turn = draft.thread.turn
        draft.put_message(replace(message, turn_id=turn.turn_id, leg=turn.leg))
    for question in found:
        if question.ask is Ask.FREE:
            resolved = replace(question, resolution=Resolution.ANSWERED, answer=message.content)
        else:
            resolved = replace(question, resolution=Resolution.DECLINED)
        _resolve(draft, resolved, "message", message.seq)
    return tuple(question.question_id for question in found)


def cancel(draft: Draft, questions: tuple[Question, ...]) -> None:
    """Resolve every open question of a turn that was stopped."""
    for question in questions:
        if question.resolution is Resolution.OPEN:
            _resolve(draft, replace(question, resolution=Resolution.CANCELLED), "stop")


def _resolve(draft: Draft, resolved: Question, by: str, message_seq: int = 0) -> int:
    draft.put_question(resolved)
    body: dict[str, Json] = {"question_id": resolved.question_id, "resolution": resolved.resolution, "by": by}
    if resolved.resolution is Resolution.ANSWERED:
        # A reply's content stands in its own entry already; an answer's stands nowhere else.
        body |= {"message_seq": message_seq} if by == "message" else {"answer": resolved.answer}
    draft.thread = replace(draft.thread, open_questions=draft.thread.open_questions - 1)
    return draft.write(Kind.ANSWER, body)

"""What a run writes while it lasts, and how it ends.

Theory. Each write finds the run open under the writer's own fence, or is refused. What the handler was offered and has
not used stays waiting and starts the next turn: `end` consumes the steering up to `used_seq` and nothing more. A stop
that stands before the end makes the outcome `stopped`, whatever the handler returned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from turnkeeper.core.cursor import settle_taken, steerable_among
from turnkeeper.core.draft import Act, Change, Draft, Needs, Seen
from turnkeeper.core.names import safe_text
from turnkeeper.core.questions import reply
from turnkeeper.core.recovery import close_run
from turnkeeper.core.turn import Superseded
from turnkeeper.core.values import Fence, Json, Question, Run, Step, Thread
from turnkeeper.core.words import Fate, Kind, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run would end. `used_seq`: the newest steering that the handler used. `questions`: with PAUSED only."""

    outcome: Outcome
    answer: Json = None
    reason: str = ""
    used_seq: int = 0
    questions: tuple[Question, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How the run ended. `released`: the claim was given back in the same transaction."""

    outcome: Outcome
    thread: Thread
    released: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """The entry is in the log; `seq` is None where an earlier try had written it."""

    seq: int | None


@dataclass(frozen=True, slots=True)
class Recorded:
    """The step's result as it stands: this one, or the one that was recorded before."""

    value: Json
    is_new: bool


@dataclass(frozen=True, slots=True)
class AlreadyEnded:
    """The run has ended, and the thread was opened anew since; its outcome stands."""

    run: Run


@dataclass(frozen=True, slots=True)
class NotRecorded:
    """No attempt of the turn has recorded the step."""


def append(
    thread_id: str, run_id: str, fence: Fence, number: int, event: Json, now_ms: int
) -> Act[Written | Superseded]:
    """Return the act that writes a run's event `number` (from 0) to the log (spec action Append)."""

    def decide(seen: Seen) -> tuple[Written | Superseded, Change | None]:
        thread = seen.thread
        if thread is None or thread.run is None or not _is_held(thread, run_id, fence):
            return _superseded(thread), None
        if number < thread.run.events:
            return Written(None), None
        draft = Draft(replace(thread, run=replace(thread.run, events=number + 1)), now_ms)
        seq = draft.write(Kind.EVENT, {"event": event}, run_id)
        return Written(seq), draft.change()

    return Act("append", thread_id, decide)


def record_step(
    thread_id: str, run_id: str, fence: Fence, name: str, value: Json, now_ms: int
) -> Act[Recorded | Superseded]:
    """Return the act that records a side effect's result once for the turn, whatever attempt did it."""

    def decide(seen: Seen) -> tuple[Recorded | Superseded, Change | None]:
        thread = seen.thread
        if thread is None or thread.turn is None or not _is_held(thread, run_id, fence):
            return _superseded(thread), None
        if seen.step is not None:
            return Recorded(seen.step.value, is_new=False), None
        draft = Draft(thread, now_ms)
        draft.write(Kind.STEP, {"name": name, "value": value}, run_id)
        draft.put_step(Step(turn_id=thread.turn.turn_id, name=name, value=value))
        return Recorded(value, is_new=True), draft.change()

    return Act("record_step", thread_id, decide, Needs(step_name=name))


def find_step(thread_id: str, run_id: str, fence: Fence, name: str) -> Act[Recorded | NotRecorded | Superseded]:
    """Return the act that looks, under the run's fence, for a side effect's result that an earlier attempt recorded."""

    def decide(seen: Seen) -> tuple[Recorded | NotRecorded | Superseded, Change | None]:
        if seen.thread is None or not _is_held(seen.thread, run_id, fence):
            return _superseded(seen.thread), None
        return (Recorded(seen.step.value, is_new=False) if seen.step is not None else NotRecorded()), None

    return Act("find_step", thread_id, decide, Needs(step_name=name))


EndVerdict = Ended | AlreadyEnded | Superseded


def end(thread_id: str, run_id: str, fence: Fence, ending: Ending, now_ms: int, *, keep_claim: bool) -> Act[EndVerdict]:
    """Return the act that ends a run (spec action End).

    keep_claim: the holder goes on at once if the thread is owed another turn; else a claim that shares the database is
    given back in the same transaction.
    """

    def decide(seen: Seen) -> tuple[EndVerdict, Change | None]:
        thread = seen.thread
        if thread is None or not _is_held(thread, run_id, fence):
            return _ended_before(thread, seen.run, fence, keep_claim=keep_claim)
        draft = Draft(thread, now_ms)
        outcome = _close(draft, seen, thread, ending)
        keeps = keep_claim and draft.thread.is_owed
        if not keeps:
            draft.put_claim(None)
        change = draft.change()
        return Ended(outcome=outcome, thread=change.thread, released=not keeps), change

    return Act("end", thread_id, decide, Needs(run_id=run_id, pending=True))


def _ended_before(
    thread: Thread | None, run: Run | None, fence: Fence, *, keep_claim: bool
) -> tuple[EndVerdict, Change | None]:
    """Answer for a run that is not open: as the first time, if nobody has opened the thread since."""
    if thread is None or run is None or run.outcome is None or Fence(run.token, run.session) != fence:
        return _superseded(thread), None
    if thread.run or thread.fence != fence:
        return AlreadyEnded(run), None
    keeps = keep_claim and thread.is_owed
    change = None if keeps else Change(thread=thread, claim_changes=True)
    return Ended(outcome=run.outcome, thread=thread, released=not keeps), change


def _close(draft: Draft, seen: Seen, thread: Thread, ending: Ending) -> Outcome:
    is_stopped = thread.run is not None and thread.run.stop_asked
    outcome = Outcome.STOPPED if is_stopped else ending.outcome
    used = tuple(message for message in steerable_among(seen.pending) if message.seq <= ending.used_seq)
    run_id, turn_id = thread.run.run_id if thread.run else "", thread.turn.turn_id if thread.turn else ""
    for message in used:
        draft.put_message(replace(message, fate=Fate.STEERED, run_id=run_id, turn_id=turn_id))
    body: dict[str, Json] = {"used": [message.seq for message in used]}
    if outcome is Outcome.COMPLETED:
        body["answer"] = ending.answer
    close_run(draft, seen, outcome, "" if is_stopped else safe_text(ending.reason), body)
    if outcome is Outcome.PAUSED:
        _pause(draft, seen, ending.questions, len(used))
    if used or outcome.ends_turn:
        settle_taken(draft, seen, used)
    return outcome


def _pause(draft: Draft, seen: Seen, questions: tuple[Question, ...], used: int) -> None:
    turn = draft.thread.turn
    if turn is None or not questions:
        return
    going_on = replace(turn, leg=turn.leg + 1, attempts=0, charged=0, crowd_deaths=0)
    draft.thread = replace(draft.thread, turn=going_on, open_questions=len(questions))
    for question in questions:
        draft.put_question(question)
        body: dict[str, Json] = {
            "question_id": question.question_id,
            "ask": question.ask,
            "text": question.text,
            "detail": question.detail,
            "expires_ms": question.expires_ms,
        }
        draft.write(Kind.QUESTION, body)
    unread = seen.pending[used:]
    if unread:
        reply(draft, unread[0], questions)


def _is_held(thread: Thread, run_id: str, fence: Fence) -> bool:
    return thread.run is not None and thread.run.run_id == run_id and thread.fence == fence


def _superseded(thread: Thread | None) -> Superseded:
    return Superseded(thread.token if thread else 0)

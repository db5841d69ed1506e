"""What people do: `accept`, `answer`, `stop` and `resolve_parked`, with their whole changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.states import (
    APPROVAL,
    IDLE,
    NOW,
    PARKED,
    PAUSED,
    PROMPT,
    QUESTION,
    RUN,
    RUNNING,
    SEEN_PAUSED,
    SEEN_RUNNING,
    TURN,
    message,
)
from turnkeeper.core.cursor import Accepted, Clash, Known, NewMessage, accept
from turnkeeper.core.draft import Change, Seen
from turnkeeper.core.ending import AlreadyEnded
from turnkeeper.core.names import digest
from turnkeeper.core.parking import AlreadyUnparked, NoSuchParked, ParkedAction, Unparked, resolve_parked
from turnkeeper.core.questions import AlreadyResolved, Answered, NoSuchQuestion, WrongAnswer, answer
from turnkeeper.core.stopping import NoSuchRun, StopRecorded, stop
from turnkeeper.core.values import Entry, Json, Message, Thread
from turnkeeper.core.words import Fate, Kind, Mode, Outcome, Resolution

NEW = NewMessage(message_id="m", content="yes", sender="x")


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("thread", [None, IDLE, RUNNING])
def test_a_message_is_recorded_and_asks_unless_it_is_a_note(thread: Thread | None, mode: Mode) -> None:
    """Entry, receipt and cursor in one change, on a thread that nobody made before too."""
    new = replace(NEW, mode=mode)
    verdict, change = accept(new, "t", NOW).decide(Seen(thread=thread))
    before = thread or Thread(thread_id="t")
    seq, asks = before.last_seq + 1, mode is not Mode.NOTE
    since = before.owed_since_ms or (NOW if asks else None)
    after = replace(before, last_seq=seq, asked=seq if asks else before.asked, owed_since_ms=since)
    body: dict[str, Json] = {"message_id": "m", "sender": "x", "mode": mode, "content": "yes"}
    entry = Entry(seq=seq, kind=Kind.MESSAGE if asks else Kind.NOTE, created_ms=NOW, body=body)
    receipt = Message(
        message_id="m",
        seq=seq,
        sender="x",
        mode=mode,
        digest=digest("yes", "x", mode),
        created_ms=NOW,
        content="yes",
        fate=Fate.PENDING if asks else Fate.NOTED,
    )
    assert change == Change(thread=after, entries=(entry,), messages=(receipt,))
    assert verdict == Accepted(message=receipt, thread=after)


def test_a_known_message_is_answered_by_its_receipt_and_another_body_refused() -> None:
    """Whatever became of the first. Where the first answer was lost, it is given now."""
    known = replace(message(1), message_id="m", digest=digest("yes", "x", Mode.STEER), fate=Fate.STARTED)
    seen = Seen(thread=RUNNING, message=known)
    assert accept(NEW, "t", NOW).decide(seen) == (Known(known, RUNNING), None)
    lost = replace(seen, repeated=True)
    assert accept(NEW, "t", NOW).decide(lost) == (Accepted(message=known, thread=RUNNING), None)
    for other in (replace(NEW, content="no"), replace(NEW, sender="y"), replace(NEW, mode=Mode.QUEUE)):
        for found in (seen, lost):
            assert accept(other, "t", NOW).decide(found) == (Clash(known), None)


@pytest.mark.parametrize("mode", [Mode.STEER, Mode.QUEUE])
def test_a_plain_message_to_a_paused_thread_is_the_reply(mode: Mode) -> None:
    """S20: it answers what is free, declines what wants an approval ("yes" too), and is bound to the turn."""
    verdict, change = accept(replace(NEW, mode=mode), "t", NOW).decide(SEEN_PAUSED)
    assert change is not None
    assert change.questions == (
        replace(QUESTION, resolution=Resolution.ANSWERED, answer="yes"),
        replace(APPROVAL, resolution=Resolution.DECLINED),
    )
    assert [(m.seq, m.turn_id, m.leg, m.fate) for m in change.messages] == [(6, "old", 1, Fate.PENDING)]
    assert [entry.kind for entry in change.entries] == [Kind.MESSAGE, Kind.ANSWER, Kind.ANSWER]
    assert [entry.body.get("message_seq") for entry in change.entries[1:]] == [6, None]
    thread = change.thread
    assert (thread.open_questions, thread.asked, thread.last_seq, thread.owed_since_ms) == (0, 6, 8, NOW)
    assert isinstance(verdict, Accepted)
    assert verdict.answered == ("q1", "q2")


def test_a_note_answers_nothing() -> None:
    """It is recorded beside the pause."""
    verdict, change = accept(replace(NEW, mode=Mode.NOTE), "t", NOW).decide(SEEN_PAUSED)
    assert change is not None
    assert (change.thread, change.questions) == (replace(PAUSED, last_seq=6), ())
    assert isinstance(verdict, Accepted)
    assert verdict.answered == ()


ANSWERS: dict[str, tuple[str, Resolution, str]] = {
    "a free question, answered": ("q1", Resolution.ANSWERED, "Answered"),
    "a free question, approved": ("q1", Resolution.APPROVED, "WrongAnswer"),
    "a free question, denied": ("q1", Resolution.DENIED, "WrongAnswer"),
    "a free question, out of time": ("q1", Resolution.EXPIRED, "Answered"),
    "an approval, answered": ("q2", Resolution.ANSWERED, "WrongAnswer"),
    "an approval, approved": ("q2", Resolution.APPROVED, "Answered"),
    "an approval, denied": ("q2", Resolution.DENIED, "Answered"),
    "an approval, out of time": ("q2", Resolution.EXPIRED, "Answered"),
}


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("is_last", [False, True])
def test_a_question_takes_its_own_form_of_answer(name: str, *, is_last: bool) -> None:
    """Approvals are approved or denied, free questions answered; the last one that is resolved asks for the turn."""
    question_id, verdict, expected = ANSWERS[name]
    question = QUESTION if question_id == "q1" else APPROVAL
    thread = replace(PAUSED, open_questions=1 if is_last else 2)
    found, change = answer("t", question_id, verdict, "a", NOW).decide(Seen(thread=thread, question=question))
    assert type(found).__name__ == expected
    if isinstance(found, WrongAnswer):
        assert change is None
        return
    resolved = replace(question, resolution=verdict, answer="a")
    after = replace(thread, last_seq=6, open_questions=thread.open_questions - 1)
    if is_last:
        after = replace(after, asked=6, owed_since_ms=NOW)
    body: dict[str, Json] = {
        "question_id": question_id,
        "resolution": verdict,
        "by": "expiry" if verdict is Resolution.EXPIRED else "answer",
    }
    if verdict is Resolution.ANSWERED:
        body["answer"] = "a"
    entry = Entry(seq=6, kind=Kind.ANSWER, created_ms=NOW, body=body)
    assert change == Change(thread=after, entries=(entry,), questions=(resolved,))
    assert found == Answered(resolved, after)


@pytest.mark.parametrize("stands", [r for r in Resolution if r is not Resolution.OPEN])
@pytest.mark.parametrize("verdict", [Resolution.APPROVED, Resolution.DENIED, Resolution.EXPIRED])
def test_a_question_is_resolved_once(stands: Resolution, verdict: Resolution) -> None:
    """S21: who comes later is told what stands; after a stop too, and nothing is gated on a late approval."""
    question = replace(APPROVAL, resolution=stands)
    found = answer("t", "q2", verdict, None, NOW).decide(Seen(thread=IDLE, question=question))
    assert found == (AlreadyResolved(question), None)


def test_an_answer_that_was_lost_is_given_again_to_the_same_alone() -> None:
    """Another verdict, or another value, is told what stands."""
    question = replace(QUESTION, resolution=Resolution.ANSWERED, answer=1)
    seen = Seen(thread=IDLE, question=question, repeated=True)
    assert answer("t", "q1", Resolution.ANSWERED, 1, NOW).decide(seen) == (Answered(question, IDLE), None)
    assert answer("t", "q1", Resolution.ANSWERED, 2, NOW).decide(seen) == (AlreadyResolved(question), None)
    assert answer("t", "q1", Resolution.EXPIRED, 1, NOW).decide(seen) == (AlreadyResolved(question), None)
    assert answer("t", "q", Resolution.EXPIRED, 1, NOW).decide(Seen(thread=IDLE)) == (NoSuchQuestion(), None)


def test_a_stop_of_a_running_turn_is_recorded_and_left_to_its_runner() -> None:
    """Once: asked again, by whatever run's name of that turn, it stands already."""
    verdict, change = stop("t", "old", NOW).decide(SEEN_RUNNING)
    assert RUNNING.run is not None
    after = replace(RUNNING, last_seq=3, run=replace(RUNNING.run, stop_asked=True))
    entry = Entry(seq=3, kind=Kind.STOP_REQUESTED, created_ms=NOW, body={"run_id": "old", "turn_id": "old"})
    assert (verdict, change) == (StopRecorded(after, is_running=True), Change(thread=after, entries=(entry,)))
    seen = Seen(thread=after, run=replace(RUN, run_id="earlier", outcome=Outcome.ABANDONED))
    assert stop("t", "earlier", NOW).decide(seen) == (StopRecorded(after, is_running=True), None)


def test_a_stop_of_a_paused_turn_ends_it_and_cancels_its_questions() -> None:
    """At once: nobody runs it. What is open is cancelled, what was sent behind it would run."""
    paused = replace(RUN, outcome=Outcome.PAUSED, ended_seq=3)
    verdict, change = stop("t", "old", NOW).decide(replace(SEEN_PAUSED, run=paused))
    assert change is not None
    assert change.thread == replace(PAUSED, last_seq=9, open_questions=0, turn=None)
    assert {q.resolution for q in change.questions} == {Resolution.CANCELLED}
    assert [e.kind for e in change.entries] == [Kind.STOP_REQUESTED, Kind.ANSWER, Kind.ANSWER, Kind.TURN_STOPPED]
    assert verdict == StopRecorded(change.thread, is_running=False)


@pytest.mark.parametrize("pending", [(), (message(4),)])
def test_a_stop_between_two_attempts_ends_the_turn(pending: tuple[Message, ...]) -> None:
    """The next attempt is not made, and what waits behind it is still owed."""
    thread = replace(RUNNING, run=None, last_seq=4, asked=4 if pending else 1, owed_since_ms=1)
    seen = Seen(thread=thread, run=replace(RUN, outcome=Outcome.INTERRUPTED), pending=pending)
    verdict, change = stop("t", "old", NOW).decide(seen)
    assert change is not None
    assert (change.thread.turn, change.thread.taken, change.thread.is_owed) == (None, 1, bool(pending))
    assert verdict == StopRecorded(change.thread, is_running=False)


def test_a_stop_after_the_end_is_told_the_outcome_that_stands() -> None:
    """And one that names no run of this thread is told so."""
    over = replace(RUN, outcome=Outcome.COMPLETED)
    assert stop("t", "old", NOW).decide(Seen(thread=IDLE, run=over)) == (AlreadyEnded(over), None)
    other = replace(RUNNING, turn=replace(TURN, turn_id="next"))
    assert stop("t", "old", NOW).decide(Seen(thread=other, run=over)) == (AlreadyEnded(over), None)
    assert stop("t", "old", NOW).decide(Seen(thread=IDLE)) == (NoSuchRun(), None)
    assert stop("t", "old", NOW).decide(Seen()) == (NoSuchRun(), None)


SET_ASIDE = Seen(
    thread=replace(IDLE, last_seq=4, parked=1),
    parked=PARKED,
    prompts=(replace(PROMPT, fate=Fate.PARKED, reason="it died"),),
)


def test_a_parked_turn_is_retried_by_an_entry_that_asks() -> None:
    """Its messages wait for it again, apart from all others."""
    verdict, change = resolve_parked("t", 4, ParkedAction.RETRY, NOW).decide(SET_ASIDE)
    thread = replace(IDLE, last_seq=5, asked=5, parked=0, owed_since_ms=NOW)
    entry = Entry(seq=5, kind=Kind.PARKED_RETRIED, created_ms=NOW, body={"parked_seq": 4, "turn_id": "old"})
    assert change == Change(
        thread=thread,
        entries=(entry,),
        messages=(replace(PROMPT, fate=Fate.RETRYING),),
        parked=(replace(PARKED, resolved="retry", ask_seq=5),),
    )
    assert verdict == Unparked(thread)


def test_a_parked_turn_is_dropped_and_asks_nothing() -> None:
    """Its messages are dropped with it, and say so."""
    verdict, change = resolve_parked("t", 4, ParkedAction.DROP, NOW).decide(SET_ASIDE)
    thread = replace(IDLE, last_seq=5, parked=0)
    assert change is not None
    assert change.thread == thread
    assert [(m.fate, m.reason) for m in change.messages] == [(Fate.DROPPED, "dropped by a person")]
    assert change.parked == (replace(PARKED, resolved="drop"),)
    assert verdict == Unparked(thread)


@pytest.mark.parametrize("action", list(ParkedAction))
def test_a_parked_turn_is_resolved_once(action: ParkedAction) -> None:
    """Who comes later is told how; only the very same, whose answer was lost, is told that it did it."""
    for stands in ParkedAction:
        resolved = replace(PARKED, resolved=stands.value)
        seen = Seen(thread=IDLE, parked=resolved)
        act = resolve_parked("t", 4, action, NOW)
        assert act.decide(seen) == (AlreadyUnparked(resolved), None)
        lost = Unparked(IDLE) if action is stands else AlreadyUnparked(resolved)
        assert act.decide(replace(seen, repeated=True)) == (lost, None)
    assert resolve_parked("t", 4, action, NOW).decide(Seen(thread=IDLE)) == (NoSuchParked(), None)


def test_a_stop_leaves_nothing_asked_of_the_turn_that_it_ends() -> None:
    """The answer had asked for the turn to go on; with the turn gone nothing is owed."""
    thread = replace(PAUSED, open_questions=0, last_seq=6, asked=6, owed_since_ms=1)
    _, change = stop("t", "old", NOW).decide(Seen(thread=thread, run=replace(RUN, outcome=Outcome.PAUSED)))
    assert change is not None
    assert (change.thread.taken, change.thread.is_owed) == (6, False)

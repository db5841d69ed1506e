"""What a run writes and how it ends: `append`, `record_step`, `find_step` and `end`, with their whole changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.states import (
    APPROVAL,
    IDLE,
    NOW,
    PARKED,
    PROMPT,
    QUESTION,
    RUN,
    RUNNING,
    SEEN_RUNNING,
    TURN,
    message,
)
from turnkeeper.core.draft import PENDING_LOADED_MAX, Act, Change, Seen
from turnkeeper.core.ending import (
    AlreadyEnded,
    Ended,
    Ending,
    NotRecorded,
    Recorded,
    Written,
    append,
    end,
    find_step,
    record_step,
)
from turnkeeper.core.turn import Superseded
from turnkeeper.core.values import Entry, Fence, Json, Message, Question, Step, TurnState
from turnkeeper.core.words import Fate, Kind, Mode, Outcome, Resolution

HELD = Fence(2, "theirs")
DONE = Ending(outcome=Outcome.COMPLETED, answer="done")


def ended(seen: Seen, ending: Ending = DONE, *, keep: bool = False) -> tuple[Ended, Change]:
    """Decide an end that ends the run."""
    verdict, change = end("t", "old", HELD, ending, NOW, keep_claim=keep).decide(seen)
    assert isinstance(verdict, Ended)
    assert change is not None
    return verdict, change


def with_pending(*pending: Message) -> Seen:
    """Return the running thread with messages behind its run."""
    newest = max((m.seq for m in pending), default=2)
    asked = newest if pending else 1
    return replace(SEEN_RUNNING, thread=replace(RUNNING, last_seq=newest, asked=asked), pending=pending)


STRANGERS: dict[str, tuple[str, Fence]] = {
    "a smaller token": ("old", Fence(1, "theirs")),
    "a greater token": ("old", Fence(3, "theirs")),
    "another session": ("old", Fence(2, "mine")),
    "another run": ("new", HELD),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_who_does_not_hold_the_run_writes_nothing(name: str) -> None:
    """Not an event, not a step, not an end; and is told the token that stands."""
    run_id, fence = STRANGERS[name]
    seen = SEEN_RUNNING if run_id == "old" else replace(SEEN_RUNNING, run=None)
    writes: list[Act[object]] = [
        append("t", run_id, fence, 0, "event", NOW),
        record_step("t", run_id, fence, "s", 1, NOW),
        find_step("t", run_id, fence, "s"),
        end("t", run_id, fence, DONE, NOW, keep_claim=False),
    ]
    for act in writes:
        assert act.decide(seen) == (Superseded(2), None), act.name
        assert act.decide(Seen()) == (Superseded(0), None), act.name


def test_an_event_is_written_once_by_its_number() -> None:
    """A repeated number writes nothing; one that skips some, after answers that were lost, is written."""
    verdict, change = append("t", "old", HELD, 0, {"a": 1}, NOW).decide(SEEN_RUNNING)
    assert RUNNING.run is not None
    after = replace(RUNNING, last_seq=3, run=replace(RUNNING.run, events=1))
    entry = Entry(seq=3, kind=Kind.EVENT, created_ms=NOW, run_id="old", token=2, body={"event": {"a": 1}})
    assert (verdict, change) == (Written(3), Change(thread=after, entries=(entry,)))
    seen = replace(SEEN_RUNNING, thread=after)
    assert append("t", "old", HELD, 0, {"a": 1}, NOW).decide(seen) == (Written(None), None)
    assert append("t", "old", HELD, 5, "later", NOW).decide(seen)[0] == Written(4)


def test_a_step_is_recorded_once_and_found_again() -> None:
    """The first result stands, whoever brings another."""
    record = record_step("t", "old", HELD, "s", 7, NOW)
    verdict, change = record.decide(SEEN_RUNNING)
    step = Step(turn_id="old", name="s", value=7)
    body: dict[str, Json] = {"name": "s", "value": 7}
    entry = Entry(seq=3, kind=Kind.STEP, created_ms=NOW, run_id="old", token=2, body=body)
    assert (verdict, change) == (
        Recorded(7, is_new=True),
        Change(thread=replace(RUNNING, last_seq=3), entries=(entry,), steps=(step,)),
    )
    seen = replace(SEEN_RUNNING, step=replace(step, value=6))
    assert record.decide(seen) == (Recorded(6, is_new=False), None)
    assert find_step("t", "old", HELD, "s").decide(seen) == (Recorded(6, is_new=False), None)
    assert find_step("t", "old", HELD, "s").decide(SEEN_RUNNING) == (NotRecorded(), None)


def test_a_completed_run_leaves_a_thread_at_rest() -> None:
    """One terminal entry, the run's row, the cursor, and the claim given back: the whole of it."""
    verdict, change = ended(SEEN_RUNNING)
    thread = replace(RUNNING, last_seq=3, run=None, turn=None, owed_since_ms=None)
    body: dict[str, Json] = {"outcome": Outcome.COMPLETED, "reason": "", "used": [], "answer": "done"}
    entry = Entry(seq=3, kind=Kind.RUN_ENDED, created_ms=NOW, run_id="old", token=2, body=body)
    run = replace(RUN, outcome=Outcome.COMPLETED, ended_seq=3, ended_ms=NOW)
    assert change == Change(thread=thread, entries=(entry,), runs=(run,), claim_changes=True)
    assert verdict == Ended(outcome=Outcome.COMPLETED, thread=thread, released=True)


@pytest.mark.parametrize("outcome", [o for o in Outcome if o is not Outcome.PAUSED])
@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_stop_that_came_first_is_the_outcome(outcome: Outcome, *, is_stopped: bool) -> None:
    """Whatever the handler returned; and only an outcome that ends the turn ends it."""
    assert RUNNING.run is not None
    running = replace(RUNNING, run=replace(RUNNING.run, stop_asked=is_stopped))
    verdict, change = ended(replace(SEEN_RUNNING, thread=running), Ending(outcome=outcome, answer="x", reason="y"))
    stands = Outcome.STOPPED if is_stopped else outcome
    assert verdict.outcome is stands
    assert change.entries[0].body["outcome"] is stands
    assert ("answer" in change.entries[0].body) is (stands is Outcome.COMPLETED)
    assert change.entries[0].body["reason"] == ("" if is_stopped else "y")
    assert (change.thread.turn is None) is stands.ends_turn
    assert change.thread.is_owed is not stands.ends_turn


STEER, QUEUE = Mode.STEER, Mode.QUEUE

USED: dict[str, tuple[list[Mode], int, Outcome, list[int], int]] = {
    "nothing waits": ([], 0, Outcome.COMPLETED, [], 1),
    "nothing was used": ([STEER, STEER], 0, Outcome.COMPLETED, [], 1),
    "all was used": ([STEER, STEER], 4, Outcome.COMPLETED, [3, 4], 4),
    "the first was used": ([STEER, STEER], 3, Outcome.COMPLETED, [3], 3),
    "more is said to be used than there is": ([STEER], 99, Outcome.COMPLETED, [3], 3),
    "what is queued is no steering": ([QUEUE, STEER], 99, Outcome.COMPLETED, [], 1),
    "nor is what is behind it": ([STEER, QUEUE, STEER], 99, Outcome.COMPLETED, [3], 3),
    "used, then interrupted": ([STEER, STEER], 3, Outcome.INTERRUPTED, [3], 3),
    "used, then failed": ([STEER], 3, Outcome.FAILED, [3], 3),
    "interrupted with nothing used": ([STEER], 0, Outcome.INTERRUPTED, [], 1),
}


@pytest.mark.parametrize("name", USED)
def test_the_end_consumes_the_steering_that_was_used_and_no_more(name: str) -> None:
    """Neither both nor neither: what is left starts the next turn."""
    modes, used_seq, outcome, used, taken = USED[name]
    pending = tuple(message(seq, mode) for seq, mode in enumerate(modes, 3))
    verdict, change = ended(with_pending(*pending), Ending(outcome=outcome, used_seq=used_seq))
    consumed = tuple(replace(m, fate=Fate.STEERED, run_id="old", turn_id="old") for m in pending if m.seq in used)
    assert change.messages == consumed
    assert change.entries[0].body["used"] == used
    assert change.thread.taken == taken
    assert verdict.thread.is_owed is (len(used) < len(modes) or not outcome.ends_turn)


def test_a_full_page_of_steering_does_not_hide_what_waits_behind_it() -> None:
    """Of more messages than one decision sees, `taken` moves over those that it saw."""
    pending = tuple(message(seq) for seq in range(3, 3 + PENDING_LOADED_MAX))
    seen = with_pending(*pending)
    assert seen.thread is not None
    seen = replace(seen, thread=replace(seen.thread, last_seq=500, asked=500))
    verdict, change = ended(seen, Ending(outcome=Outcome.COMPLETED, used_seq=1000))
    assert (change.thread.taken, verdict.thread.is_owed) == (2 + PENDING_LOADED_MAX, True)


def test_a_waiting_retry_keeps_the_thread_owed() -> None:
    """The end of another turn does not move `taken` over it."""
    thread = replace(RUNNING, last_seq=9, asked=9)
    verdict, change = ended(replace(SEEN_RUNNING, thread=thread, retrying=replace(PARKED, ask_seq=9)))
    assert (change.thread.taken, verdict.thread.is_owed) == (1, True)


@pytest.mark.parametrize(
    ("keep", "is_owed", "released"), [(True, True, False), (True, False, True), (False, True, True)]
)
def test_a_claim_is_kept_only_for_a_turn_that_is_owed(*, keep: bool, is_owed: bool, released: bool) -> None:
    """Else it is given back in the same transaction."""
    seen = with_pending(message(3)) if is_owed else SEEN_RUNNING
    verdict, change = ended(seen, keep=keep)
    assert (verdict.released, change.claim_changes, change.claim) == (released, released, None)


def test_a_repeated_end_is_answered_as_the_first_time_while_nobody_has_come() -> None:
    """And gives the claim back again if it was to be; once the thread was opened anew it only says how it ended."""
    over = replace(RUN, outcome=Outcome.COMPLETED, ended_seq=3, ended_ms=NOW)
    idle = replace(IDLE, last_seq=3)
    again = end("t", "old", HELD, DONE, NOW, keep_claim=True)
    at_rest = Ended(outcome=Outcome.COMPLETED, thread=idle, released=True)
    assert again.decide(Seen(thread=idle, run=over)) == (at_rest, Change(thread=idle, claim_changes=True))
    owed = replace(idle, asked=3)
    assert again.decide(Seen(thread=owed, run=over)) == (Ended(outcome=Outcome.COMPLETED, thread=owed), None)
    for later in (replace(RUNNING, token=3, session="mine"), replace(idle, token=3, session="mine")):
        assert again.decide(Seen(thread=later, run=over)) == (AlreadyEnded(over), None)


def test_a_run_that_was_abandoned_is_told_so() -> None:
    """Its holder was declared dead; what it brings now changes nothing."""
    gone = replace(RUN, outcome=Outcome.ABANDONED, ended_seq=3)
    seen = Seen(thread=replace(RUNNING, token=3, session="mine"), run=gone)
    assert end("t", "old", HELD, DONE, NOW, keep_claim=True).decide(seen) == (AlreadyEnded(gone), None)


ASKING = Ending(outcome=Outcome.PAUSED, questions=(QUESTION, APPROVAL))


def test_a_run_that_asks_pauses_its_turn() -> None:
    """A new leg that has not been tried, no claim, nothing owed, and each question an entry."""
    verdict, change = ended(SEEN_RUNNING, ASKING, keep=True)
    assert change.thread.turn == TurnState(turn_id="old", leg=1)
    assert (change.thread.open_questions, change.thread.is_owed, change.thread.owed_since_ms) == (2, False, None)
    assert (verdict.released, change.questions) == (True, (QUESTION, APPROVAL))
    assert [entry.kind for entry in change.entries] == [Kind.RUN_ENDED, Kind.QUESTION, Kind.QUESTION]
    assert [entry.run_id for entry in change.entries] == ["old", "", ""]


@pytest.mark.parametrize("mode", [STEER, QUEUE])
def test_a_message_that_was_waiting_unread_counts_as_the_reply(mode: Mode) -> None:
    """It answers what is free and declines what wants an approval: nobody waits for who has spoken already."""
    unread = message(3, mode)
    verdict, change = ended(with_pending(unread), ASKING, keep=True)
    resolved = {q.question_id: (q.resolution, q.answer) for q in change.questions}
    assert resolved == {"q1": (Resolution.ANSWERED, "c3"), "q2": (Resolution.DECLINED, None)}
    assert change.messages == (replace(unread, turn_id="old", leg=1),)
    assert (change.thread.open_questions, verdict.thread.is_owed, verdict.released) == (0, True, False)


def test_steering_that_was_used_is_not_the_reply() -> None:
    """Only what is left unread is."""
    ending = replace(ASKING, used_seq=3)
    _, change = ended(with_pending(message(3)), ending)
    assert (change.thread.open_questions, change.thread.taken) == (2, 3)


def test_a_stopped_run_asks_nothing() -> None:
    """Its questions are never put."""
    assert RUNNING.run is not None
    stopping = replace(RUNNING, run=replace(RUNNING.run, stop_asked=True))
    verdict, change = ended(replace(SEEN_RUNNING, thread=stopping), ASKING)
    assert (verdict.outcome, change.questions, change.thread.open_questions) == (Outcome.STOPPED, (), 0)


def test_a_pause_between_attempts_forgets_the_deaths_before_it() -> None:
    """A leg begins with a clean sheet: the turn came as far as to ask."""
    turn = replace(TURN, charged=1, crowd_deaths=2, attempts=4)
    _, change = ended(replace(SEEN_RUNNING, thread=replace(RUNNING, turn=turn)), ASKING)
    assert change.thread.turn == TurnState(turn_id="old", leg=1)
    assert isinstance(change.questions[0], Question)
    assert PROMPT not in change.messages


def test_a_reason_is_made_safe_before_it_is_kept() -> None:
    """No text of a handler's error may keep a run from ending: not a NUL, not half a character."""
    _, change = ended(SEEN_RUNNING, Ending(outcome=Outcome.FAILED, reason="a\x00b\ud83d\n"))
    assert [run.reason for run in change.runs] == ["a\N{REPLACEMENT CHARACTER}b?\n"]
    assert change.entries[0].body["reason"] == change.runs[0].reason

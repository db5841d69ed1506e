"""How a turn begins: `start`, `take` and `take_again`, each with its whole change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.states import (
    FENCE,
    HOW,
    IDLE,
    NOW,
    OWED,
    PARKED,
    PAUSED,
    PROMPT,
    QUESTION,
    RUN,
    RUNNING,
    SEEN_OWED,
    SEEN_RUNNING,
    TURN,
    WILLING,
    begun,
    message,
    try_start,
)
from turnkeeper.core.draft import Change, Seen
from turnkeeper.core.turn import NothingOwed, Started, StartVerdict, Superseded
from turnkeeper.core.values import Entry, Fence, Json, Message, OpenRun, Run, Thread, TurnState
from turnkeeper.core.words import Fate, Kind, Mode


def test_an_owed_turn_is_opened_whole() -> None:
    """Fence, run, prompts, cursor and entry in one change, and the verdict is that change."""
    started, change = begun(SEEN_OWED)
    turn = TurnState(turn_id="new", attempts=1)
    thread = replace(
        OWED, last_seq=2, taken=1, token=3, session="mine", turn=turn, run=OpenRun(run_id="new", attempt=1)
    )
    run = Run(run_id="new", turn_id="new", attempt=1, token=3, session="mine", started_seq=2, started_ms=NOW)
    taken = replace(message(1), fate=Fate.STARTED, turn_id="new", run_id="new")
    body: dict[str, Json] = {"turn_id": "new", "attempt": 1, "prompts": [1], "runner": "runner", "apart": False}
    entry = Entry(seq=2, kind=Kind.RUN_STARTED, created_ms=NOW, run_id="new", token=3, body=body)
    assert change == Change(thread=thread, entries=(entry,), messages=(taken,), runs=(run,))
    assert started == Started(run=run, thread=thread, fence=FENCE, turn=turn, prompts=(taken,))


CHOICES: dict[str, tuple[list[Mode], list[int], int]] = {
    "one": ([Mode.STEER], [1], 1),
    "all that steer": ([Mode.STEER, Mode.STEER, Mode.STEER], [1, 2, 3], 3),
    "a queued one and what steers behind it": ([Mode.QUEUE, Mode.STEER, Mode.QUEUE, Mode.STEER], [1, 2], 2),
    "up to the next queued one": ([Mode.STEER, Mode.QUEUE], [1], 1),
    "queued ones, one by one": ([Mode.QUEUE, Mode.QUEUE], [1], 1),
}


@pytest.mark.parametrize("name", CHOICES)
def test_a_turn_consumes_the_oldest_and_what_steers_behind_it(name: str) -> None:
    """And `taken` moves exactly over what it consumed."""
    modes, prompts, taken = CHOICES[name]
    pending = tuple(message(seq, mode) for seq, mode in enumerate(modes, 1))
    started, change = begun(Seen(thread=replace(OWED, last_seq=9, asked=len(modes)), pending=pending))
    assert [prompt.seq for prompt in started.prompts] == prompts
    assert change.thread.taken == taken


UNOPENED: dict[str, tuple[Seen, Fence, StartVerdict]] = {
    "no such thread": (Seen(), FENCE, NothingOwed()),
    "a smaller token": (SEEN_OWED, Fence(1, "mine"), Superseded(2)),
    "an equal token from another session": (SEEN_OWED, Fence(2, "mine"), Superseded(2)),
    "a smaller token of the same session": (SEEN_RUNNING, Fence(1, "theirs"), Superseded(2)),
    "nothing owed": (Seen(thread=IDLE), FENCE, NothingOwed()),
    "paused since it was looked at": (Seen(thread=PAUSED, questions=(QUESTION,)), FENCE, NothingOwed()),
}


@pytest.mark.parametrize("name", UNOPENED)
def test_what_is_not_opened_changes_nothing(name: str) -> None:
    """No fence moves, no entry is written."""
    seen, fence, verdict = UNOPENED[name]
    assert try_start(seen, WILLING, fence) == (verdict, None)


def test_a_repeated_start_is_adopted_as_it_stands() -> None:
    """The very run, under the fence that opened it."""
    verdict, change = try_start(SEEN_RUNNING, replace(HOW, run_id="old"), Fence(2, "theirs"))
    assert (verdict, change) == (
        Started(run=RUN, thread=RUNNING, fence=Fence(2, "theirs"), turn=TURN, prompts=(PROMPT,)),
        None,
    )


def retrying(*pending: Message) -> Seen:
    """Return a thread with a parked turn that a person asked to try again at 8, and what waits besides."""
    thread = Thread(thread_id="t", last_seq=12, asked=max(8, *(m.seq for m in pending), 8), taken=4, token=2)
    again = replace(PARKED, resolved="retry", ask_seq=8)
    prompt = replace(PROMPT, fate=Fate.RETRYING)
    return Seen(thread=thread, pending=pending, retrying=again, retry_prompts=(prompt,), questions=(QUESTION,))


def test_a_retried_turn_runs_again_under_its_own_name_with_its_own_questions() -> None:
    """It goes before what was sent after the retry; `taken` stops there, as another retry may wait unseen."""
    started, change = begun(retrying(message(10)))
    assert (started.turn, [p.seq for p in started.prompts]) == (TURN, [1])
    assert started.questions == (QUESTION,)
    assert change.parked == (replace(PARKED, resolved="retry", ask_seq=0),)
    assert (change.thread.asked, change.thread.taken) == (10, 8)


def test_what_was_sent_before_the_retry_goes_first() -> None:
    """And the retry still waits: `taken` stays below it."""
    started, change = begun(retrying(message(6)))
    assert [p.seq for p in started.prompts] == [6]
    assert (change.parked, change.thread.taken) == ((), 6)
    assert started.questions == ()


GOING_ON: dict[str, tuple[tuple[Message, ...], list[int]]] = {
    "answered, nothing sent": ((), []),
    "answered, and something to steer": ((message(6),), [6]),
    "answered, and a queued one": ((message(6, Mode.QUEUE),), []),
    "a queued reply and more": ((message(6, Mode.QUEUE, turn_id="old"), message(7)), [6, 7]),
}


@pytest.mark.parametrize("name", GOING_ON)
def test_a_turn_goes_on_with_the_reply_and_what_steers(name: str) -> None:
    """In its next leg, first attempt, with its questions as they were resolved."""
    pending, prompts = GOING_ON[name]
    thread = replace(PAUSED, open_questions=0, asked=7, last_seq=7)
    started, change = begun(Seen(thread=thread, pending=pending, questions=(QUESTION,)))
    assert [p.seq for p in started.prompts] == prompts
    assert started.turn == TurnState(turn_id="old", leg=1, attempts=1)
    assert {(m.turn_id, m.leg) for m in change.messages} <= {("old", 1)}
    assert started.questions == (QUESTION,)


def test_another_retry_may_wait_behind_the_one_that_is_taken() -> None:
    """Only the oldest is seen, so `taken` does not pass it while more was asked for."""
    seen = retrying()
    assert seen.thread is not None
    seen = replace(seen, thread=replace(seen.thread, asked=11))
    _, change = begun(seen)
    assert (change.thread.asked, change.thread.taken) == (11, 8)


def test_what_was_asked_and_does_not_wait_any_more_is_owed_no_longer() -> None:
    """For example an answer to a turn that was stopped: no run is begun, and nobody comes again."""
    found, change = try_start(Seen(thread=replace(OWED, last_seq=4, asked=4)))
    assert found == NothingOwed()
    assert change is not None
    assert (change.thread.taken, change.thread.is_owed, change.thread.owed_since_ms, change.entries) == (
        4,
        False,
        None,
        (),
    )


def test_the_next_attempt_has_the_prompts_of_the_first() -> None:
    """What came since is steering, not a prompt; a note and a stop are neither."""
    seen = replace(SEEN_RUNNING, pending=(message(3),))
    started, _ = begun(replace(seen, thread=replace(RUNNING, last_seq=3, asked=3)))
    assert [prompt.seq for prompt in started.prompts] == [1]
    assert (started.turn.turn_id, started.run.attempt) == ("old", 2)

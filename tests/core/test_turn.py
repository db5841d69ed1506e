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
    message,
)
from turnkeeper.core.draft import Change, Seen
from turnkeeper.core.recovery import CHANCE_DEATHS_MAX
from turnkeeper.core.turn import NothingOwed, Start, Started, StartVerdict, Superseded, start
from turnkeeper.core.values import Entry, Fence, Json, Message, OpenRun, Run, Thread, TurnState
from turnkeeper.core.words import Fate, Kind, Mode, Outcome


def try_start(
    seen: Seen, how: Start = HOW, fence: Fence = FENCE, *, gone: bool = True
) -> tuple[StartVerdict, Change | None]:
    """Decide a start over what was seen."""
    return start("t", fence, how, holder_gone=gone).decide(seen)


def begun(seen: Seen, how: Start = HOW, *, gone: bool = True) -> tuple[Started, Change]:
    """Decide a start that begins a run."""
    verdict, change = try_start(seen, how, gone=gone)
    assert isinstance(verdict, Started)
    assert change is not None
    return verdict, change


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


def with_turn(charged: int = 0, crowd_deaths: int = 0) -> Seen:
    """Return a running thread whose turn has been through something."""
    turn = replace(TURN, charged=charged, crowd_deaths=crowd_deaths)
    return replace(SEEN_RUNNING, thread=replace(RUNNING, turn=turn))


def stopping(seen: Seen) -> Seen:
    """Return the same with a stop on record."""
    assert seen.thread is not None
    assert seen.thread.run is not None
    return replace(seen, thread=replace(seen.thread, run=replace(seen.thread.run, stop_asked=True)))


DEATHS: dict[str, tuple[Seen, bool, Start, str, Outcome, TurnState | None]] = {
    "the first death, alone": (
        SEEN_RUNNING,
        True,
        HOW,
        "Started",
        Outcome.ABANDONED,
        replace(TURN, charged=1, attempts=2),
    ),
    "its holder let go": (SEEN_RUNNING, False, HOW, "Started", Outcome.INTERRUPTED, replace(TURN, attempts=2)),
    "in a crowd": (
        replace(SEEN_RUNNING, died_with=3),
        True,
        HOW,
        "Started",
        Outcome.ABANDONED,
        replace(TURN, crowd_deaths=1, attempts=2),
    ),
    "in a second crowd": (
        replace(with_turn(crowd_deaths=1), died_with=3),
        True,
        HOW,
        "NeedsApart",
        Outcome.ABANDONED,
        replace(TURN, crowd_deaths=2),
    ),
    "in a second crowd, and nothing else runs here": (
        replace(with_turn(crowd_deaths=1), died_with=3),
        True,
        WILLING,
        "Started",
        Outcome.ABANDONED,
        replace(TURN, crowd_deaths=2, attempts=2),
    ),
    "in a second crowd, and others have run here for too long": (
        replace(with_turn(crowd_deaths=1), died_with=3),
        True,
        replace(HOW, beside=True),
        "Started",
        Outcome.ABANDONED,
        replace(TURN, crowd_deaths=2, attempts=2),
    ),
    "in more crowds than can be chance": (
        replace(with_turn(crowd_deaths=CHANCE_DEATHS_MAX), died_with=3),
        True,
        replace(HOW, beside=True),
        "NothingOwed",
        Outcome.ABANDONED,
        None,
    ),
    "the second death, the gap is not over": (
        with_turn(charged=1),
        True,
        replace(HOW, max_attempts=3),
        "Later",
        Outcome.ABANDONED,
        replace(TURN, charged=2),
    ),
    "the second death, the gap is over": (
        with_turn(charged=1),
        True,
        replace(WILLING, max_attempts=3),
        "Started",
        Outcome.ABANDONED,
        replace(TURN, charged=2, attempts=2),
    ),
    "the last death": (with_turn(charged=1), True, WILLING, "NothingOwed", Outcome.ABANDONED, None),
    "a stop was on record": (stopping(SEEN_RUNNING), True, HOW, "NothingOwed", Outcome.STOPPED, None),
}


@pytest.mark.parametrize("name", DEATHS)
def test_a_run_that_was_left_open_is_ended_and_its_turn_judged(name: str) -> None:
    """Its one terminal entry, whom the death is charged to, and what becomes of the turn."""
    seen, gone, how, verdict, outcome, turn = DEATHS[name]
    found, change = try_start(seen, how, gone=gone)
    assert type(found).__name__ == verdict
    assert change is not None
    ended = change.runs[0]
    assert (ended.run_id, ended.outcome, ended.ended_seq, ended.ended_ms) == ("old", outcome, 3, NOW)
    first = change.entries[0]
    assert (first.kind, first.run_id, first.token, first.body["outcome"]) == (Kind.RUN_ENDED, "old", 3, outcome)
    assert change.thread.turn == turn
    assert (change.thread.token, change.thread.session) == (3, "mine")
    assert (change.thread.run is not None) is (verdict == "Started")


def test_a_turn_over_its_limit_is_parked_and_what_is_behind_it_runs() -> None:
    """In one change: the run's end, the parked turn with its reason and its messages, and the next turn's start."""
    seen = replace(with_turn(charged=1), pending=(message(3),))
    assert seen.thread is not None
    seen = replace(seen, thread=replace(seen.thread, last_seq=3, asked=3), questions=(QUESTION,))
    started, change = begun(seen, WILLING)
    assert [entry.kind for entry in change.entries] == [Kind.RUN_ENDED, Kind.TURN_PARKED, Kind.RUN_STARTED]
    (parked,) = change.parked
    assert (parked.seq, parked.turn_id, parked.resolved, change.thread.parked) == (5, "old", "", 1)
    fates = {m.seq: (m.fate, m.run_id, m.reason) for m in change.messages}
    assert fates == {1: (Fate.PARKED, "old", parked.reason), 3: (Fate.STARTED, "new", "")}
    assert (started.parked, started.turn.turn_id, started.questions) == (1, "new", ())
    assert change.entries[1].body["messages"] == [1]
    assert (change.thread.asked, change.thread.taken) == (3, 3)


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


def test_a_death_in_a_crowd_is_no_ones_own_even_of_a_turn_that_began_apart() -> None:
    """Others may have begun beside it since."""
    assert RUNNING.run is not None
    apart = replace(RUNNING, run=replace(RUNNING.run, apart=True))
    started, _ = begun(replace(SEEN_RUNNING, thread=apart, died_with=3), WILLING)
    assert (started.turn.charged, started.turn.crowd_deaths) == (0, 1)

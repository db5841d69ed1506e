"""What a start finds of an earlier claim: the run that was left open, and whom a death is charged to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.states import (
    HOW,
    NOW,
    QUESTION,
    RUNNING,
    SEEN_RUNNING,
    TURN,
    WILLING,
    begun,
    message,
    try_start,
)
from turnkeeper.core.draft import Seen
from turnkeeper.core.recovery import CHANCE_DEATHS_MAX
from turnkeeper.core.turn import Start
from turnkeeper.core.values import TurnState
from turnkeeper.core.words import Fate, Kind, Outcome


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


def test_a_death_in_a_crowd_is_no_ones_own_even_of_a_turn_that_began_apart() -> None:
    """Others may have begun beside it since."""
    assert RUNNING.run is not None
    apart = replace(RUNNING, run=replace(RUNNING.run, apart=True))
    started, _ = begun(replace(SEEN_RUNNING, thread=apart, died_with=3), WILLING)
    assert (started.turn.charged, started.turn.crowd_deaths) == (0, 1)

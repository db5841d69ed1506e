"""Claiming and starting as one decision: `take` and `take_again`. No run, no claim."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.states import (
    FENCE,
    HOW,
    IDLE,
    OWED,
    PAUSED,
    RUNNING,
    SEEN_OWED,
    SEEN_RUNNING,
    TURN,
)
from turnkeeper.core.claim import Busy, SessionGone
from turnkeeper.core.draft import Change, Seen
from turnkeeper.core.taking import Taker, take, take_again
from turnkeeper.core.turn import Later, NeedsApart, NothingOwed, Superseded
from turnkeeper.core.values import Claim, Fence


def with_turn(charged: int = 0, crowd_deaths: int = 0) -> Seen:
    """Return a running thread whose turn has been through something."""
    turn = replace(TURN, charged=charged, crowd_deaths=crowd_deaths)
    return replace(SEEN_RUNNING, thread=replace(RUNNING, turn=turn))


BACKED = frozenset({"mine", "theirs"})
STANDING = Claim(session="theirs", token=2, nonce="n")

TAKES: dict[str, tuple[Seen, str, Claim | None]] = {
    "free and owed": (replace(SEEN_OWED, sessions=BACKED), "Started", Claim(session="mine", token=3, nonce="n1")),
    "held": (replace(SEEN_RUNNING, sessions=BACKED, claim=STANDING), "Busy", None),
    "its holder is gone": (
        replace(SEEN_RUNNING, sessions=frozenset({"mine"}), claim=STANDING),
        "Started",
        Claim(session="mine", token=3, nonce="n1"),
    ),
    "I am gone": (replace(SEEN_OWED, sessions=frozenset({"theirs"})), "SessionGone", None),
    "nothing owed": (Seen(thread=IDLE, sessions=BACKED), "NothingOwed", None),
    "paused": (Seen(thread=PAUSED, sessions=BACKED), "NothingOwed", None),
    "no such thread": (Seen(sessions=BACKED), "NothingOwed", None),
    "to be tried later": (
        replace(with_turn(charged=1), sessions=frozenset({"mine"}), claim=STANDING),
        "Later",
        None,
    ),
}


@pytest.mark.parametrize("name", TAKES)
def test_a_take_claims_exactly_where_it_starts(name: str) -> None:
    """No run, no claim: a dead holder's stays as it was found."""
    seen, verdict, standing = TAKES[name]
    found, change = take("t", Taker("mine", "n1"), replace(HOW, max_attempts=3)).decide(seen)
    assert type(found).__name__ == verdict
    assert isinstance(found, Busy | SessionGone | NothingOwed) is (change is None)
    assert (change.claim if change is not None and change.claim_changes else None) == standing


def test_a_take_again_that_starts_nothing_gives_the_claim_back() -> None:
    """Whatever the reason, but never a claim that the row no longer knows as its own."""
    own = replace(IDLE, token=3, session="mine")
    assert take_again("t", FENCE, HOW).decide(Seen(thread=own)) == (
        NothingOwed(),
        Change(thread=own, claim_changes=True),
    )
    suspect = replace(OWED, token=3, session="mine", turn=replace(TURN, crowd_deaths=2))
    found, change = take_again("t", FENCE, HOW).decide(Seen(thread=suspect))
    assert (found, change) == (NeedsApart(), Change(thread=suspect, claim_changes=True))
    assert take_again("t", Fence(1, "mine"), HOW).decide(Seen(thread=own)) == (Superseded(3), None)
    later = replace(suspect, turn=replace(TURN, charged=2))
    assert take_again("t", FENCE, replace(HOW, max_attempts=3)).decide(Seen(thread=later))[0] == Later(2)

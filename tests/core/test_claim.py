"""Who may claim, what an observer believes, and when a holder has lost everything: the tables of `core.claim`."""

from __future__ import annotations

import pytest

from turnkeeper.core.claim import (
    SESSION_SECONDS_MAX,
    SESSION_SECONDS_MIN,
    Busy,
    Claimed,
    SessionGone,
    SessionRecord,
    Sighting,
    claim,
    expires_seconds,
    lost_seconds,
    observe,
)
from turnkeeper.core.lookagain import GONE_SPREAD_SECONDS, JITTER, Look, arm, hasten
from turnkeeper.core.values import Claim

ALL = frozenset({"mine", "theirs"})
MINE = Claim(session="mine", token=5, nonce="n1")
OTHER = Claim(session="theirs", token=5, nonce="n9")


def claimed(token: int) -> Claimed:
    """Return my claim with a token."""
    return Claimed(Claim(session="mine", token=token, nonce="n1"))


CASES: dict[str, tuple[Claim | None, int, frozenset[str], Claimed | Busy | SessionGone]] = {
    "none, a new thread": (None, 0, ALL, claimed(1)),
    "none, the journal has seen tokens": (None, 7, ALL, claimed(8)),
    "mine already": (MINE, 4, ALL, claimed(5)),
    "mine already, and opened": (MINE, 5, ALL, claimed(5)),
    "mine already, the journal is ahead": (MINE, 9, ALL, claimed(10)),
    "mine by another attempt": (Claim(session="mine", token=5, nonce="n0"), 4, ALL, claimed(6)),
    "mine by a hand, far behind": (Claim(session="mine", token=0, nonce=""), 4, ALL, claimed(5)),
    "theirs, and they live": (OTHER, 9, ALL, Busy("theirs")),
    "theirs by my very nonce": (Claim(session="theirs", token=5, nonce="n1"), 4, ALL, Busy("theirs")),
    "theirs, and they are gone": (OTHER, 4, frozenset({"mine"}), claimed(6)),
    "theirs, gone, the journal is ahead": (OTHER, 9, frozenset({"mine"}), claimed(10)),
    "nobody's": (Claim(session="", token=0, nonce=""), 0, ALL, claimed(1)),
    "free, and I am gone": (None, 0, frozenset({"theirs"}), SessionGone()),
    "mine, and I am gone": (MINE, 0, frozenset({"theirs"}), SessionGone()),
    "nobody is there at all": (OTHER, 0, frozenset(), SessionGone()),
}


@pytest.mark.parametrize("name", CASES)
def test_a_claimant_is_answered_by_what_stands(name: str) -> None:
    """Each line of the table in the module's theory, and its edges."""
    seen, journal_token, existing, verdict = CASES[name]
    found = claim(seen, session="mine", nonce="n1", journal_token=journal_token, existing=existing)
    assert found == verdict


def record(version: str = "1", duration_seconds: float = 30.0) -> SessionRecord:
    """Return a session's record."""
    return SessionRecord(session="s", runner="r", version=version, duration_seconds=duration_seconds)


def test_an_unchanged_record_is_counted_from_when_it_was_first_seen() -> None:
    """Seen again and again, it expires as it would have; a new version begins anew."""
    first = observe(None, record(), 100.0)
    again = observe(first, record(), 129.0)
    assert (again, expires_seconds(again)) == (first, 130.0)
    renewed = observe(again, record("2"), 129.5)
    assert expires_seconds(renewed) == 159.5


@pytest.mark.parametrize(
    ("duration_seconds", "counted"),
    [
        (30.0, 30.0),
        (0.0, SESSION_SECONDS_MIN),
        (-5.0, SESSION_SECONDS_MIN),
        (float("-inf"), SESSION_SECONDS_MIN),
        (2147483647.0, SESSION_SECONDS_MAX),
        (float("inf"), SESSION_SECONDS_MAX),
        (float("nan"), SESSION_SECONDS_MAX),
    ],
)
def test_nonsense_in_a_record_neither_freezes_a_thread_nor_kills_at_once(
    duration_seconds: float, counted: float
) -> None:
    """S11: whatever duration a hand wrote there, the session expires within the bounds."""
    assert expires_seconds(Sighting(record=record("1", duration_seconds), since_seconds=10.0)) == 10.0 + counted


def test_a_holder_stops_before_any_observer_may_declare_it_dead() -> None:
    """The holder counts from before its renewal was sent, an observer from after it was stored."""
    for on_its_way in (0.0, 0.1, 29.0):
        seen = observe(None, record(), 100.0 + on_its_way)
        assert lost_seconds(100.0, 30.0) <= expires_seconds(seen)


def test_a_look_is_due_after_the_delay_and_some_jitter() -> None:
    """Between the delay and a tenth more, whatever is drawn."""
    assert arm("t", "s", now_seconds=5.0, delay_seconds=30.0, draw=0.0).due_seconds == 35.0
    late = arm("t", "s", now_seconds=5.0, delay_seconds=30.0, draw=0.999, ripe=True)
    assert 35.0 < late.due_seconds < 5.0 + 30.0 * (1 + JITTER)
    assert (late.session, late.ripe) == ("s", True)


def test_a_look_is_hastened_once_its_holder_is_gone_and_never_put_off() -> None:
    """It is due within the spread, or when it was due anyway if that is sooner."""
    look = Look(thread_id="t", session="s", due_seconds=100.0, ripe=True)
    soon = hasten(look, now_seconds=50.0, draw=0.5)
    assert soon == Look(thread_id="t", session="", due_seconds=50.0 + GONE_SPREAD_SECONDS / 2, ripe=True)
    assert hasten(look, now_seconds=99.999, draw=0.9).due_seconds == 100.0

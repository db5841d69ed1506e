"""How a client keeps to what an API server takes: it is refused little, and is at full speed again soon after."""

from __future__ import annotations

import pytest

from turnkeeper.adapters.kube import pace
from turnkeeper.adapters.kube.pace import FIRST_GAP_SECONDS, HALVING_SECONDS, LONGEST_GAP_SECONDS, Pace


class Clock:
    """The monotonic clock, in the test's hand."""

    def __init__(self) -> None:
        self.now_seconds = 1_000.0

    def monotonic(self) -> float:
        return self.now_seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that stands still."""
    made = Clock()
    monkeypatch.setattr(pace, "time", made)
    return made


def test_who_was_never_refused_waits_for_nothing(clock: Clock) -> None:
    """However many calls there are at once."""
    made = Pace()
    assert {made.place() for _ in range(1_000)} == {clock.now_seconds}


def test_each_refusal_spaces_calls_further_apart_up_to_a_bound(clock: Clock) -> None:
    """Calls stand in line, each a gap after the one before."""
    made = Pace()
    made.refused(0.0)
    places = [made.place() for _ in range(3)]
    assert places == pytest.approx([clock.now_seconds + number * FIRST_GAP_SECONDS for number in range(3)])
    for _ in range(100):
        made.refused(0.0)
    assert made.gap_seconds() == LONGEST_GAP_SECONDS


def test_after_a_pause_calls_stand_in_line_as_before(clock: Clock) -> None:
    """All that waited at once would be refused again."""
    made = Pace()
    made.refused(1.0)
    made.hold(clock.now_seconds + 1.0)
    clock.now_seconds += 0.5
    places = [made.place() for _ in range(3)]
    assert places == pytest.approx([clock.now_seconds + 0.5 + number * FIRST_GAP_SECONDS for number in range(3)])


def test_the_gap_closes_with_time_from_the_end_of_the_pause_on(clock: Clock) -> None:
    """A pause in which nothing was sent says nothing about what the server takes."""
    made = Pace()
    for _ in range(100):
        made.refused(10.0)
    clock.now_seconds += 10.0
    assert made.gap_seconds() == pytest.approx(LONGEST_GAP_SECONDS)
    clock.now_seconds += HALVING_SECONDS
    assert made.gap_seconds() == pytest.approx(LONGEST_GAP_SECONDS / 2)
    clock.now_seconds += 10 * HALVING_SECONDS
    assert made.gap_seconds() == 0.0


def test_a_server_that_takes_so_much_is_asked_for_little_more(clock: Clock) -> None:
    """Two clients that always want more, at a server of 100 calls a second: most of what they may, and few refusals."""
    clients, let_in, refused = [Pace(), Pace()], 0, 0
    ready = [clock.now_seconds] * 2
    tokens, began = 10.0, clock.now_seconds
    while clock.now_seconds < began + 60.0:
        which = min(range(2), key=lambda each: ready[each])
        later = max(ready[which], clock.now_seconds)
        tokens = min(tokens + (later - clock.now_seconds) * 100, 10.0)
        clock.now_seconds = later
        if tokens >= 1:
            tokens -= 1
            let_in += 1
            ready[which] = max(clients[which].place(), clock.now_seconds + 0.001)
        else:
            refused += 1
            clients[which].refused(1.1)
            ready[which] = clock.now_seconds + 1.1
    assert let_in > 0.5 * 60 * 100
    assert refused < 0.02 * let_in

"""How fast one client calls: as it likes, and more slowly for a while after the API server had too much of it.

Theory. A client that obeys `Retry-After` and then goes on as before runs into the same limit at once, and spends most
of its time waiting. So each refusal spaces its calls further apart, and the gap closes again with time: the client
stays a little below what the server takes, which leaves room for whoever must not wait, renewals above all.
"""

from __future__ import annotations

import time

FIRST_GAP_SECONDS = 0.005
"""The gap after a first refusal. Arbitrary: 200 calls a second, above what a quiet runner ever asks."""

LONGEST_GAP_SECONDS = 0.2
"""The longest gap. Arbitrary: a claim is some five calls, which still fit well into its deadline."""

WIDENING = 1.5
"""By how much each refusal widens the gap."""

HALVING_SECONDS = 8.0
"""How long the gap takes to close by half. Arbitrary: several times the second that a refusal costs."""

SHORTEST_GAP_SECONDS = 0.001
"""A gap below this is none."""


class Pace:
    """Counts, and never waits. All times are of the monotonic clock."""

    def __init__(self) -> None:
        self._gap_seconds = 0.0
        self._since_seconds = 0.0
        self._next_seconds = 0.0

    def gap_seconds(self) -> float:
        """Return how far apart calls are kept now."""
        closing_seconds = max(time.monotonic() - self._since_seconds, 0.0)
        gap = self._gap_seconds * 0.5 ** (closing_seconds / HALVING_SECONDS)
        return gap if gap >= SHORTEST_GAP_SECONDS else 0.0

    def place(self) -> float:
        """Take the next place in line, and return when it comes."""
        now = time.monotonic()
        place = max(now, self._next_seconds)
        self._next_seconds = place + self.gap_seconds()
        return place

    def hold(self, until_seconds: float) -> None:
        """Let nobody have a place before a time."""
        self._next_seconds = max(self._next_seconds, until_seconds)

    def refused(self, pause_seconds: float) -> None:
        """Widen the gap, from the end of the pause that was asked for."""
        widened = max(self.gap_seconds() * WIDENING, FIRST_GAP_SECONDS)
        self._gap_seconds = min(widened, LONGEST_GAP_SECONDS)
        self._since_seconds = time.monotonic() + pause_seconds

"""The look of a claimant that was refused busy (spec actions Refused and LookAgain).

Theory. A refused claimant arms one look for its thread: due a claim's lifetime on, with jitter, or as soon as the
holder's session is seen to be gone. A look that is refused arms again, until what was asked is taken: it is a loop.
Without it, a holder that dies while another process waits strands the message; the sweep alone closes the other hole, a
process that dies with nobody waiting.
"""

from __future__ import annotations

from dataclasses import dataclass

JITTER = 0.1
"""Share of a delay that is drawn at random on top of it, so that waiters of one dead holder do not come in step."""

GONE_SPREAD_SECONDS = 0.05
"""Over how long the looks at one gone session are spread. Arbitrary: some turns' worth, far below what anyone feels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """An armed look. `session`: whose end makes it due at once; empty where it only waits for the time.

    ripe: what it waits for is the gap after earlier deaths, so the turn may be started when it is due.
    """

    thread_id: str
    session: str
    due_seconds: float
    ripe: bool = False


def arm(
    thread_id: str, session: str, *, now_seconds: float, delay_seconds: float, draw: float, ripe: bool = False
) -> Look:
    """Return the look that a refusal arms. `draw` is uniform in [0, 1)."""
    due = now_seconds + delay_seconds * (1.0 + JITTER * draw)
    return Look(thread_id=thread_id, session=session, due_seconds=due, ripe=ripe)


def hasten(look: Look, *, now_seconds: float, draw: float) -> Look:
    """Return the look as it is once its holder's session is seen to be gone."""
    due = min(look.due_seconds, now_seconds + GONE_SPREAD_SECONDS * draw)
    return Look(thread_id=look.thread_id, session="", due_seconds=due, ripe=look.ripe)

"""The names by which actions and their verdicts are told to observers: the spec's words, the same in every adapter."""

from __future__ import annotations

from turnkeeper.core.turn import Started

TAKEN_OVER = "TakenOver"


def verdict_name(verdict: object) -> str:
    """Return the name of an action's verdict; a start that ended an earlier claim's open run is a takeover."""
    if isinstance(verdict, Started) and verdict.taken_over:
        return TAKEN_OVER
    return type(verdict).__name__

"""The names by which actions and their verdicts are told to observers: the spec's words, the same in every adapter."""

from __future__ import annotations

from enum import StrEnum

from turnkeeper.core.turn import Started

TAKEN_OVER = "TakenOver"


class Decision(StrEnum):
    """What a runner decides by itself about a thread, and no store sees: with the journal's acts, all of the spec."""

    TAKE = "Take"  # it begins to drive the thread, for whatever reason
    REST = "Rest"  # its drive is over, and what follows is decided
    ARM = "Arm"  # a look is armed
    LOOK_AGAIN = "LookAgain"  # a look is due
    STEER = "Steer"  # messages were offered to the run


def verdict_name(verdict: object) -> str:
    """Return the name of an action's verdict; a start that ended an earlier claim's open run is a takeover."""
    if isinstance(verdict, Started) and verdict.taken_over:
        return TAKEN_OVER
    return type(verdict).__name__

"""The words of the protocol as enumerations: one word, one meaning, in the log, the API, SQL and metrics.

They are strings, so that what is stored and served reads as what is meant.
"""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    """How a message asks."""

    STEER = "steer"  # reaches a run in progress, or starts the next turn
    QUEUE = "queue"  # waits for the run in progress to end and begins a turn of its own
    NOTE = "note"  # is recorded and asks nothing


class Fate(StrEnum):
    """What became of a message: its receipt."""

    PENDING = "pending"
    NOTED = "noted"
    STARTED = "started"
    STEERED = "steered"
    PARKED = "parked"
    RETRYING = "retrying"  # a person asked to try its parked turn again
    DROPPED = "dropped"


class Outcome(StrEnum):
    """How a run ended; each run has exactly one."""

    COMPLETED = "completed"
    FAILED = "failed"  # the handler's own error
    STOPPED = "stopped"  # somebody asked for it
    TIMED_OUT = "timed_out"  # a deadline of the run passed
    PAUSED = "paused"  # it ended with questions; the turn goes on once they are resolved
    INTERRUPTED = "interrupted"  # drain or a lost claim; the turn gets another run, uncharged
    ABANDONED = "abandoned"  # its process died; the turn gets another run

    @property
    def ends_turn(self) -> bool:
        """Whether the turn is over with this run."""
        return self in _ENDS_TURN


_ENDS_TURN = frozenset({Outcome.COMPLETED, Outcome.FAILED, Outcome.STOPPED, Outcome.TIMED_OUT})


class ThreadState(StrEnum):
    """Where a thread stands, by its row alone."""

    IDLE = "idle"
    OWED = "owed"  # a turn is coming and no run is open
    RUNNING = "running"  # a run is open; its holder may be gone
    PAUSED = "paused"  # questions are open


class Kind(StrEnum):
    """What an entry of a thread's log says."""

    MESSAGE = "message"
    NOTE = "note"
    RUN_STARTED = "run_started"
    EVENT = "event"
    STEP = "step"
    RUN_ENDED = "run_ended"
    QUESTION = "question"
    ANSWER = "answer"
    STOP_REQUESTED = "stop_requested"
    TURN_STOPPED = "turn_stopped"
    TURN_PARKED = "turn_parked"
    PARKED_RETRIED = "parked_retried"
    PARKED_DROPPED = "parked_dropped"


class Ask(StrEnum):
    """What a question wants."""

    FREE = "free"  # any JSON value
    APPROVAL = "approval"  # yes or no, and never by chat


class Resolution(StrEnum):
    """How a question stands; everything but OPEN is final."""

    OPEN = "open"
    ANSWERED = "answered"
    APPROVED = "approved"
    DENIED = "denied"
    DECLINED = "declined"  # a plain message came instead of a decision
    EXPIRED = "expired"
    CANCELLED = "cancelled"  # its turn was stopped

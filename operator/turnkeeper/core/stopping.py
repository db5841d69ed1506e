"""How somebody stops a turn.

Theory. A stop is an entry, ordered by the thread's row lock against the run's end: the one that comes first stands, and
the other is told. A stop names a run and means its turn, whatever attempt or pause the turn is in by then: the person
who asks has seen one run's id and knows nothing of its successors. Where no run is open the turn is over at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from turnkeeper.core.cursor import settle_taken
from turnkeeper.core.draft import Act, Change, Draft, Needs, Seen
from turnkeeper.core.ending import AlreadyEnded
from turnkeeper.core.questions import cancel
from turnkeeper.core.values import Thread
from turnkeeper.core.words import Kind


@dataclass(frozen=True, slots=True)
class StopRecorded:
    """The stop stands before the run's end. `is_running`: a runner has still to end the run."""

    thread: Thread
    is_running: bool


@dataclass(frozen=True, slots=True)
class NoSuchRun:
    """The thread has no run of that id."""


def stop(thread_id: str, run_id: str, now_ms: int) -> Act[StopRecorded | AlreadyEnded | NoSuchRun]:
    """Return the act that stops the turn of a run (spec action Stop). Asking twice records it once."""

    def decide(seen: Seen) -> tuple[StopRecorded | AlreadyEnded | NoSuchRun, Change | None]:
        thread, run = seen.thread, seen.run
        if thread is None or run is None:
            return NoSuchRun(), None
        is_over = thread.turn is None or thread.turn.turn_id != run.turn_id
        if is_over and seen.repeated and not (run.outcome and run.outcome.ends_turn):
            return StopRecorded(thread, is_running=False), None
        if thread.turn is None or is_over:
            return AlreadyEnded(run), None
        if thread.run is not None and thread.run.stop_asked:
            return StopRecorded(thread, is_running=True), None
        draft = Draft(thread, now_ms)
        draft.write(Kind.STOP_REQUESTED, {"run_id": run_id, "turn_id": run.turn_id})
        if thread.run is not None:
            draft.thread = replace(draft.thread, run=replace(thread.run, stop_asked=True))
        else:
            cancel(draft, seen.questions)
            draft.write(Kind.TURN_STOPPED, {"turn_id": run.turn_id})
            draft.thread = replace(draft.thread, turn=None)
            settle_taken(draft, seen, ())
        change = draft.change()
        return StopRecorded(change.thread, is_running=thread.run is not None), change

    return Act("stop", thread_id, decide, Needs(run_id=run_id, pending=True, questions=True))

"""The bodies that are answered about runs, the workspace and the process."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from turnkeeper.api.told import Told, example_of
from turnkeeper.core.recovery import Recovered
from turnkeeper.core.values import Run
from turnkeeper.core.words import Outcome


class RunTold(Told):
    """One execution of a turn; `outcome` is null while it is open."""

    model_config = ConfigDict(
        json_schema_extra=example_of(
            {
                "thread": "alice",
                "run_id": "5f0c",
                "turn_id": "5f0c",
                "attempt": 1,
                "token": 1,
                "session": "s-1",
                "started_seq": 2,
                "started_ms": 1767225600010,
                "outcome": "completed",
                "ended_seq": 4,
                "ended_ms": 1767225603000,
                "reason": "",
            }
        )
    )

    thread: str
    run_id: str
    turn_id: str
    attempt: int
    token: int
    session: str
    started_seq: int
    started_ms: int
    outcome: Outcome | None
    ended_seq: int | None
    ended_ms: int | None
    reason: str

    @classmethod
    def of(cls, thread_id: str, run: Run) -> RunTold:
        """Return a run of a thread."""
        return cls(
            thread=thread_id,
            run_id=run.run_id,
            turn_id=run.turn_id,
            attempt=run.attempt,
            token=run.token,
            session=run.session,
            started_seq=run.started_seq,
            started_ms=run.started_ms,
            outcome=run.outcome,
            ended_seq=run.ended_seq,
            ended_ms=run.ended_ms,
            reason=run.reason,
        )


class StoppedTold(Told):
    """The stop stands. `is_running`: a runner has still to end the run, which then ends `stopped`."""

    model_config = ConfigDict(json_schema_extra=example_of({"thread": "alice", "run_id": "5f0c", "is_running": True}))

    thread: str
    run_id: str
    is_running: bool


class RecoveredTold(Told):
    """What one sweep did. `complete`: nothing that was owed is left."""

    model_config = ConfigDict(
        json_schema_extra=example_of(
            {
                "started": ["5f0c"],
                "held": 0,
                "refused": 0,
                "failed": 0,
                "parked": 0,
                "remaining": 0,
                "complete": True,
                "seconds": 0.01,
            }
        )
    )

    started: list[str]
    held: int
    refused: int
    failed: int
    parked: int
    remaining: int
    complete: bool
    seconds: float

    @classmethod
    def of(cls, recovered: Recovered) -> RecoveredTold:
        """Return a sweep's report."""
        return cls(
            started=list(recovered.started),
            held=recovered.held,
            refused=recovered.refused,
            failed=recovered.failed,
            parked=recovered.parked,
            remaining=recovered.remaining,
            complete=recovered.complete,
            seconds=recovered.seconds,
        )


class StatsTold(Told):
    """Counts of the workspace's threads."""

    model_config = ConfigDict(
        json_schema_extra=example_of(
            {"workspace": "default", "owed": 2, "running": 5, "paused": 1, "parked": 0, "oldest_owed_seconds": 0.4}
        )
    )

    workspace: str
    owed: int
    running: int
    paused: int
    parked: int
    oldest_owed_seconds: float | None = Field(description="How long the thread that waits longest has; null if none.")


class HealthTold(Told):
    """Whether the runner is ready, or alive; `reasons` says why not."""

    model_config = ConfigDict(json_schema_extra=example_of({"ok": True, "reasons": []}))

    ok: bool
    reasons: list[str]

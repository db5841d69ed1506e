"""How a runner behaves, with the reason for each default."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerOptions:
    """See each field. All times in seconds."""

    runner: str
    """The process's name for people; in a cluster the pod's."""

    claim_ttl_seconds: float = 30.0
    """How long a silent session lasts: the bound of a takeover that nobody noticed sooner."""

    max_turns: int = 32
    """Turns at once. The rest stays owed and goes to whoever has room."""

    turn_timeout_seconds: float = 3600.0
    """A run's deadline; then it ends `timed_out`."""

    turn_progress_seconds: float | None = None
    """The longest a run may go without writing, stepping or taking steering; None: as long as its deadline."""

    max_attempts: int = 3
    """Deaths charged to a turn before it is parked."""

    sweep_interval_seconds: float | None = 10.0
    """How often this runner sweeps by itself; None where a controller asks for it."""

    cancel_grace_seconds: float = 10.0
    """How long a cancelled handler may clean up: longer than `exec` takes from TERM to KILL."""

    loop_stall_ttls: float = 10.0
    """How many claim_ttls the event loop may stand still before its renewals stop: a handler that blocks for some
    should not cost the claims, a process whose loop is dead should."""

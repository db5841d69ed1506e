"""The frozen values that decisions are made over: a thread's row, its messages, runs, questions and entries.

They are what a journal stores and what the decisions of this package read and return; they know no database. Times are
wall-clock milliseconds since the epoch and serve people and ordering of work only: no decision about who may run
compares two machines' clocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from turnkeeper.core.words import Ask, Fate, Kind, Mode, Outcome, Resolution, ThreadState

Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None
"""A JSON value that keeps the rules of `turnkeeper.core.names`."""


@dataclass(frozen=True, slots=True)
class Fence:
    """The pair that each write of a run carries: the claim's token and the session that brought it."""

    token: int
    session: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """The run that a thread's row holds open. `events` counts its numbered writes, so that a repeated one is known."""

    run_id: str
    attempt: int
    events: int = 0
    stop_asked: bool = False
    apart: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnState:
    """The turn that a thread is in the middle of: running, between two attempts, or paused.

    leg: how often it has gone on after a pause. attempts: runs of this leg that were begun. charged: deaths put down to
    this turn. crowd_deaths: deaths of a session that ran other turns besides, put down to none of them.
    """

    turn_id: str
    leg: int = 0
    attempts: int = 0
    charged: int = 0
    crowd_deaths: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A thread's row: its two cursors `asked` and `taken`, the greatest fence that opened it, and what it is doing."""

    thread_id: str
    last_seq: int = 0
    asked: int = 0
    taken: int = 0
    token: int = 0
    session: str = ""
    run: OpenRun | None = None
    turn: TurnState | None = None
    open_questions: int = 0
    parked: int = 0
    owed_since_ms: int | None = None

    @property
    def is_owed(self) -> bool:
        """Whether a turn is coming that no open run holds back (the spec's Owed, less the open run)."""
        return self.run is None and self.open_questions == 0 and (self.asked > self.taken or self.turn is not None)

    @property
    def state(self) -> ThreadState:
        """Where the thread stands."""
        if self.run is not None:
            return ThreadState.RUNNING
        if self.open_questions:
            return ThreadState.PAUSED
        return ThreadState.OWED if self.is_owed else ThreadState.IDLE

    @property
    def fence(self) -> Fence:
        """The pair that a write of the open run must carry."""
        return Fence(self.token, self.session)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message and its fate. `ask_seq` is where it asks; `turn_id` and `run_id` say what consumed it."""

    message_id: str
    seq: int
    sender: str
    mode: Mode
    digest: str
    created_ms: int
    content: Json = None
    fate: Fate = Fate.PENDING
    turn_id: str = ""
    leg: int = 0
    run_id: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of a turn. `outcome` and `ended_seq` are None while it is open."""

    run_id: str
    turn_id: str
    attempt: int
    token: int
    session: str
    started_seq: int
    started_ms: int
    outcome: Outcome | None = None
    ended_seq: int | None = None
    ended_ms: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Something a paused turn waits for. What was proposed stands in `detail`; an answer can't alter it."""

    question_id: str
    turn_id: str
    ask: Ask
    text: str
    detail: Json = None
    expires_ms: int | None = None
    resolution: Resolution = Resolution.OPEN
    answer: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """A turn that was set aside after too many deaths. `ask_seq` is where a person asked to retry it, else 0."""

    seq: int
    turn_id: str
    leg: int
    reason: str
    resolved: str = ""  # "", "retry" or "drop"
    ask_seq: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The recorded result of a side effect of a turn, replayed to its later attempts."""

    turn_id: str
    name: str
    value: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a thread's log. `run_id` and `token` are empty where no run wrote it."""

    seq: int
    kind: Kind
    created_ms: int
    run_id: str = ""
    token: int = 0
    body: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A thread's claim as its store has it. `nonce` is the claimant's own attempt, by which it knows its own."""

    session: str
    token: int
    nonce: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Counts of a workspace's threads. `oldest_owed_ms`: since when the one that waits longest does, or None.

    A running thread does not wait, however long ago it was asked.
    """

    owed: int
    running: int
    paused: int
    parked: int
    oldest_owed_ms: int | None

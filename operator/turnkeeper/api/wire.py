"""The shapes that go over the wire: bodies as they are asked for, values as they are answered.

Each shape is written down once and serves the check, the answer and the OpenAPI document. Every JSON text that leaves
is ASCII (other characters escaped), so that no content can break a stream's frame or a terminal.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, model_validator
from starlette.responses import Response

from turnkeeper.core.names import dump_json
from turnkeeper.core.parking import ParkedAction
from turnkeeper.core.recovery import Recovered
from turnkeeper.core.values import Entry, Message, Parked, Question, Run, Thread
from turnkeeper.core.words import Ask, Fate, Kind, Mode, Outcome, Resolution, ThreadState

PAGE_MAX = 1000
"""Most items of a page. Arbitrary: one screen's worth many times over, and still one quick query."""

SEQ_MAX = 2**53 - 1
"""Largest seq that every JSON parser keeps exactly."""


class Asked(BaseModel):
    """A body that is sent: nothing in it may be unknown, nothing is guessed."""

    model_config = ConfigDict(extra="forbid")


class Told(BaseModel):
    """A body that is answered."""

    model_config = ConfigDict(extra="forbid")


class SendBody(Asked):
    """A message. `content` is any JSON value, null too; `message_id` makes sending again safe."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"content": "What is the weather?", "message_id": "m-1", "sender": "alice"},
                {"content": {"text": "Stop, use the other file"}, "mode": "steer"},
                {"content": "For the record", "mode": "note"},
            ]
        }
    )

    content: Any = Field(description="Any JSON value that can be kept without loss.")
    message_id: str = Field("", description="Made up where it is absent. The same id and body again gets the receipt.")
    sender: str = Field("", description="Who sends it; kept and shown, not checked.")
    mode: Mode = Field(
        Mode.STEER,
        strict=False,
        description="steer: reaches a run in progress, or starts the next turn. queue: waits for the run in progress "
        "and begins a turn of its own. note: is recorded and asks nothing.",
    )


class AnswerBody(Asked):
    """An answer to one question: `answer` for a free one, `approved` for an approval."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"question_id": "q-1", "answer": "the blue one"}, {"question_id": "q-2", "approved": True}]
        }
    )

    question_id: str = Field(description="The question it answers.")
    answer: Any = Field(None, description="Any JSON value, null too; for a free question.")
    approved: StrictBool = Field(default=False, description="true or false; for an approval.")

    @model_validator(mode="after")
    def _is_one_of_two(self) -> AnswerBody:
        if ("answer" in self.model_fields_set) is ("approved" in self.model_fields_set):
            msg = "give exactly one of answer (a free question) and approved (an approval)"
            raise ValueError(msg)
        return self


class ParkedBody(Asked):
    """What a person does about a parked turn."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"action": "retry"}, {"action": "drop"}]})

    action: ParkedAction = Field(strict=False, description="retry: from its first attempt. drop: it is given up.")


class StopBody(Asked):
    """Nothing, or an empty object."""


class RecoverBody(Asked):
    """How much to recover."""

    model_config = ConfigDict(json_schema_extra={"examples": [{}, {"limit": 100}]})

    limit: int | None = Field(
        None, ge=1, le=1_000_000, description="Most threads to take; all that are owed if absent."
    )


class ProblemBody(Told):
    """An error (RFC 9457). `stands` says what does, where what was asked can't be any more."""

    model_config = ConfigDict(extra="forbid", title="Problem")

    type: str = Field(description="urn:turnkeeper:problem:<kind>; a kind keeps its meaning.")
    title: str
    status: int
    detail: str = Field(description="What happened and what would do, for a person.")
    thread: str | None = None
    message_id: str | None = None
    run_id: str | None = None
    question_id: str | None = None
    stands: str | None = None


class SentTold(Told):
    """The message is durable; `outcome` says what became of it at once."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"message_id": "m-1", "seq": 1, "outcome": "started", "run_id": "r-7f"}]}
    )

    message_id: str
    seq: int
    outcome: str = Field(description="started, steered, queued, reply or noted.")
    run_id: str = Field(description="The run that it started or reached; empty where there is none yet.")


class ReceiptTold(Told):
    """What became of a message."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "message_id": "m-1",
                    "seq": 1,
                    "fate": "started",
                    "run_id": "r-7f",
                    "turn_id": "r-7f",
                    "reason": "",
                    "sender": "alice",
                    "mode": "steer",
                    "created_ms": 1767225600000,
                }
            ]
        }
    )

    message_id: str
    seq: int
    fate: Fate
    run_id: str = Field(description="The run that consumed it; empty while it is pending.")
    turn_id: str
    reason: str
    sender: str
    mode: Mode
    created_ms: int

    @classmethod
    def of(cls, message: Message) -> ReceiptTold:
        """Return a message's receipt."""
        return cls(
            message_id=message.message_id,
            seq=message.seq,
            fate=message.fate,
            run_id=message.run_id,
            turn_id=message.turn_id,
            reason=message.reason,
            sender=message.sender,
            mode=message.mode,
            created_ms=message.created_ms,
        )


class OpenRunTold(Told):
    """The run in progress."""

    run_id: str
    attempt: int
    stop_asked: bool


class ThreadTold(Told):
    """A thread as its row has it. A turn is owed while `asked` > `taken`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "thread": "alice",
                    "state": "running",
                    "last_seq": 3,
                    "asked": 1,
                    "taken": 1,
                    "run": {"run_id": "r-7f", "attempt": 1, "stop_asked": False},
                    "turn_id": "r-7f",
                    "open_questions": 0,
                    "parked": 0,
                    "owed_since_ms": 1767225600000,
                }
            ]
        }
    )

    thread: str
    state: ThreadState
    last_seq: int
    asked: int
    taken: int
    run: OpenRunTold | None
    turn_id: str | None = Field(description="The turn that it is in the middle of.")
    open_questions: int
    parked: int = Field(description="Parked turns that nobody has resolved.")
    owed_since_ms: int | None

    @classmethod
    def of(cls, thread: Thread) -> ThreadTold:
        """Return a thread's row."""
        run = thread.run
        return cls(
            thread=thread.thread_id,
            state=thread.state,
            last_seq=thread.last_seq,
            asked=thread.asked,
            taken=thread.taken,
            run=OpenRunTold(run_id=run.run_id, attempt=run.attempt, stop_asked=run.stop_asked) if run else None,
            turn_id=thread.turn.turn_id if thread.turn else None,
            open_questions=thread.open_questions,
            parked=thread.parked,
            owed_since_ms=thread.owed_since_ms,
        )


class QuestionTold(Told):
    """A question and how it stands."""

    question_id: str
    turn_id: str
    ask: Ask
    text: str
    detail: Any
    expires_ms: int | None
    resolution: Resolution
    answer: Any

    @classmethod
    def of(cls, question: Question) -> QuestionTold:
        """Return a question."""
        return cls(
            question_id=question.question_id,
            turn_id=question.turn_id,
            ask=question.ask,
            text=question.text,
            detail=question.detail,
            expires_ms=question.expires_ms,
            resolution=question.resolution,
            answer=question.answer,
        )


class ParkedTold(Told):
    """A turn that was set aside."""

    seq: int
    turn_id: str
    reason: str

    @classmethod
    def of(cls, parked: Parked) -> ParkedTold:
        """Return a parked turn."""
        return cls(seq=parked.seq, turn_id=parked.turn_id, reason=parked.reason)


class ThreadDetailTold(ThreadTold):
    """A thread with what a person may act on: its open questions and parked turns."""

    questions: list[QuestionTold]
    parked_turns: list[ParkedTold]


class ThreadsTold(Told):
    """A page of threads in the order of their ids. `next` is the `after` of the next page; null on the last."""

    threads: list[ThreadTold]
    next: str | None


class EntryTold(Told):
    """One line of a thread's log."""

    seq: int
    kind: Kind
    created_ms: int
    run_id: str
    token: int
    body: dict[str, Any]

    @classmethod
    def of(cls, entry: Entry) -> EntryTold:
        """Return an entry."""
        return cls(
            seq=entry.seq,
            kind=entry.kind,
            created_ms=entry.created_ms,
            run_id=entry.run_id,
            token=entry.token,
            body=dict(entry.body),
        )


class LogTold(Told):
    """A page of a thread's log. `next` is the `after` of the next page; null where the log ended."""

    entries: list[EntryTold]
    next: int | None


class RunTold(Told):
    """One execution of a turn; `outcome` is null while it is open."""

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

    thread: str
    run_id: str
    is_running: bool


class RecoveredTold(Told):
    """What one sweep did. `complete`: nothing that was owed is left."""

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

    workspace: str
    owed: int
    running: int
    paused: int
    parked: int
    oldest_owed_seconds: float | None = Field(description="How long the thread that waits longest has; null if none.")


class HealthTold(Told):
    """Whether the runner is ready, or alive; `reasons` says why not."""

    ok: bool
    reasons: list[str]


def answer(value: Told, status: int = 200) -> Response:
    """Return a value as a response."""
    headers = {"Cache-Control": "no-store"}
    return Response(dump_json(value.model_dump()), status_code=status, headers=headers, media_type="application/json")

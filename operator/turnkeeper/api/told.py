"""The bodies that are answered, as values of the protocol are told; each with its example for the documentation.

Every JSON text that leaves is ASCII (other characters escaped), so that no content can break a stream's frame or a
terminal.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict
from starlette.responses import Response

from turnkeeper.core.names import dump_json
from turnkeeper.core.values import Entry, Message, OpenRun, Parked, Question, Thread
from turnkeeper.core.words import Ask, Fate, Kind, Mode, Resolution, ThreadState

PAGE_MAX = 1000
"""Most items of a page. Arbitrary: one screen's worth many times over, and still one quick query."""

SEQ_MAX = 2**53 - 1
"""Largest seq that every JSON parser keeps exactly."""

_THREAD: JsonDict = {
    "thread": "alice",
    "state": "running",
    "last_seq": 3,
    "asked": 1,
    "taken": 1,
    "run": {"run_id": "5f0c", "attempt": 1, "stop_asked": False, "apart": False},
    "turn_id": "5f0c",
    "open_questions": 0,
    "parked": 0,
    "owed_since_ms": 1767225600000,
}
_QUESTION: JsonDict = {
    "question_id": "q-1",
    "turn_id": "5f0c",
    "ask": "free",
    "text": "Which one?",
    "detail": {"colours": ["red", "blue"]},
    "expires_ms": 1767225660000,
    "resolution": "answered",
    "answer": "the blue one",
}
_ENTRY: JsonDict = {
    "seq": 1,
    "kind": "message",
    "created_ms": 1767225600000,
    "run_id": "",
    "token": 0,
    "body": {"message_id": "m-1", "sender": "alice", "mode": "steer", "content": "hello"},
}


def example_of(*values: JsonDict) -> JsonDict:
    """Return the schema's addition that shows these values."""
    return {"examples": list(values)}


class Told(BaseModel):
    """A body that is answered."""

    model_config = ConfigDict(extra="forbid")


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
        json_schema_extra=example_of({"message_id": "m-1", "seq": 1, "outcome": "started", "run_id": "5f0c"})
    )

    message_id: str
    seq: int
    outcome: str = Field(description="started, steered, queued, reply or noted.")
    run_id: str = Field(description="The run that it started or reached; empty where there is none yet.")


class ReceiptTold(Told):
    """What became of a message."""

    model_config = ConfigDict(
        json_schema_extra=example_of(
            {
                "message_id": "m-1",
                "seq": 1,
                "fate": "started",
                "run_id": "5f0c",
                "turn_id": "5f0c",
                "reason": "",
                "sender": "alice",
                "mode": "steer",
                "created_ms": 1767225600000,
            }
        )
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
    apart: bool = Field(description="Whether it began where nothing else ran: its turn was at two deaths of a runner.")

    @classmethod
    def of(cls, run: OpenRun) -> OpenRunTold:
        """Return what a row says of its run."""
        return cls(run_id=run.run_id, attempt=run.attempt, stop_asked=run.stop_asked, apart=run.apart)


class ThreadTold(Told):
    """A thread as its row has it. A turn is owed while `asked` > `taken`."""

    model_config = ConfigDict(json_schema_extra=example_of(_THREAD))

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
            run=OpenRunTold.of(run) if run else None,
            turn_id=thread.turn.turn_id if thread.turn else None,
            open_questions=thread.open_questions,
            parked=thread.parked,
            owed_since_ms=thread.owed_since_ms,
        )


class QuestionTold(Told):
    """A question and how it stands."""

    model_config = ConfigDict(json_schema_extra=example_of(_QUESTION))

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

    model_config = ConfigDict(json_schema_extra=example_of({**_THREAD, "questions": [_QUESTION], "parked_turns": []}))

    questions: list[QuestionTold]
    parked_turns: list[ParkedTold]


class ThreadsTold(Told):
    """A page of threads in the order of their ids. `next` is the `after` of the next page; null on the last."""

    model_config = ConfigDict(json_schema_extra=example_of({"threads": [_THREAD], "next": "alice"}))

    threads: list[ThreadTold]
    next: str | None


class EntryTold(Told):
    """One line of a thread's log."""

    model_config = ConfigDict(json_schema_extra=example_of(_ENTRY))

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

    model_config = ConfigDict(json_schema_extra=example_of({"entries": [_ENTRY], "next": 1}))

    entries: list[EntryTold]
    next: int | None


def answer(value: Told, status: int = 200) -> Response:
    """Return a value as a response."""
    headers = {"Cache-Control": "no-store"}
    return Response(dump_json(value.model_dump()), status_code=status, headers=headers, media_type="application/json")

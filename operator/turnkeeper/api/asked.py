"""The bodies that are asked for: nothing in them may be unknown, nothing is guessed or converted."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from turnkeeper.api.told import example_of
from turnkeeper.core.parking import ParkedAction
from turnkeeper.core.words import Mode


class Asked(BaseModel):
    """A body that is sent."""

    model_config = ConfigDict(extra="forbid", strict=True)


class SendBody(Asked):
    """A message. `content` is any JSON value, null too; `message_id` makes sending again safe."""

    model_config = ConfigDict(
        json_schema_extra=example_of(
            {"content": "What is the weather?", "message_id": "m-1", "sender": "alice"},
            {"content": {"text": "Stop, use the other file"}, "mode": "steer"},
            {"content": "For the record", "mode": "note"},
        )
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
        json_schema_extra=example_of(
            {"question_id": "q-1", "answer": "the blue one"}, {"question_id": "q-2", "approved": True}
        )
    )

    question_id: str = Field(description="The question it answers.")
    answer: Any = Field(None, description="Any JSON value, null too; for a free question.")
    approved: bool = Field(default=False, description="true or false; for an approval.")

    @model_validator(mode="after")
    def _is_one_of_two(self) -> AnswerBody:
        if ("answer" in self.model_fields_set) is ("approved" in self.model_fields_set):
            msg = "give exactly one of answer (a free question) and approved (an approval)"
            raise ValueError(msg)
        return self


class ParkedBody(Asked):
    """What a person does about a parked turn."""

    model_config = ConfigDict(json_schema_extra=example_of({"action": "retry"}, {"action": "drop"}))

    action: ParkedAction = Field(strict=False, description="retry: from its first attempt. drop: it is given up.")


class StopBody(Asked):
    """Nothing, or an empty object."""


class RecoverBody(Asked):
    """How much to recover."""

    model_config = ConfigDict(json_schema_extra=example_of({}, {"limit": 100}))

    limit: int | None = Field(
        None, ge=1, le=1_000_000, description="Most threads to take; all that are owed if absent."
    )

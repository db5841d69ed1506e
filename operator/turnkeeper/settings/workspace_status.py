"""What a Workspace says of itself: written by the controller, read by people."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from turnkeeper.settings.workspace_parts import Part, by_key

Count = Annotated[int, Field(ge=0)]
Time = Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]


class Condition(Part):
    """One thing that holds or does not, since when, and why."""

    type: str = Field(min_length=1, max_length=316, description="Ready, JournalReachable, Recovered or Stalled.")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    observed_generation: int | None = Field(None, ge=0, description="The generation of the spec that it speaks of.")
    last_transition_time: Time = Field(description="Since when.")
    reason: str = Field(
        max_length=1024, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", description="Why, in a word."
    )
    message: str = Field(max_length=32_768, description="Why, and what to do.")


class ThreadCounts(Part):
    """How many threads there are of each kind."""

    owed: Count = Field(0, description="They have a turn coming.")
    running: Count = Field(0, description="A turn of them runs.")
    paused: Count = Field(0, description="They wait for an answer.")
    parked: Count = Field(0, description="A turn of them was set aside; a person may retry or drop it.")


class LastRecover(Part):
    """The last sweep that told something new."""

    time: Time = Field(description="When it ended.")
    runners: Count = Field(0, description="Runners that were asked.")
    started: Count = Field(0, description="Turns that it started.")
    held: Count = Field(0, description="Threads that a live runner holds.")
    refused: Count = Field(0, description="Threads that somebody else took first.")
    failed: Count = Field(0, description="Threads, or runners, that could not be swept.")
    parked: Count = Field(0, description="Turns that it set aside.")
    remaining: Count = Field(0, description="Threads that had to wait for room.")
    complete: bool = Field(description="Whether nothing that was owed is left.")
    seconds: float = Field(0.0, ge=0, description="How long it took.")


class WorkspaceStatus(Part):
    """What was seen of a Workspace."""

    observed_generation: int | None = Field(None, ge=0, description="The generation of the spec that was acted on.")
    conditions: list[Condition] = Field(
        [], max_length=20, description="What holds and what does not.", json_schema_extra=by_key("type")
    )
    replicas: Count = Field(0, description="Runners that there are.")
    ready_replicas: Count = Field(0, description="Runners that are ready.")
    selector: Annotated[str, Field(max_length=1024)] = Field("", description="The runners' labels, for autoscalers.")
    threads: ThreadCounts | None = Field(None, description="How many threads there are of each kind.")
    oldest_owed_seconds: Count | None = Field(
        None, description="How long the thread that waits longest for a turn had waited, as it was last counted."
    )
    last_recover: LastRecover | None = Field(None, description="The last sweep that told something new.")

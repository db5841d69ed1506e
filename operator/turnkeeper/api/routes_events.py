"""The call that streams a thread's log."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from turnkeeper.api.doors import Behind
from turnkeeper.api.names import ThreadId
from turnkeeper.api.problems import INVALID_ID, INVALID_INPUT, MALFORMED_POSITION, NOT_FOUND, UNAVAILABLE, documented
from turnkeeper.api.stream import MEDIA_TYPE, EventStream, position_of
from turnkeeper.core.words import ThreadState

router = APIRouter(prefix="/v1/threads", tags=["threads"])

_EXAMPLE = (
    "retry: 1000\n\n"
    'id: 1\nevent: message\ndata: {"seq":1,"kind":"message","created_ms":1767225600000,"run_id":"","token":0,'
    '"body":{"message_id":"m-1","sender":"alice","mode":"steer","content":"hello"}}\n\n'
    ": heartbeat\n\n"
    'event: end\ndata: {"head":4}\n\n'
)
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The log from there on.",
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}, "example": _EXAMPLE}},
    },
    204: {"description": "Nothing was written after the position and no turn is coming: don't resume."},
}


class EventsQuery(BaseModel):
    """From where, and until when."""

    model_config = ConfigDict(extra="forbid")

    after: str | None = Field(None, description="The last seq that the client has seen; 0 or absent: from the start.")
    follow: bool = Field(default=False, description="Whether the stream stays open once the thread is idle.")


@router.get(
    "/{thread:segment}/events",
    summary="Follow a thread",
    response_class=Response,
    responses={
        **_STREAM,
        **documented(MALFORMED_POSITION, NOT_FOUND, INVALID_ID, INVALID_INPUT, UNAVAILABLE),
    },
)
async def events(
    thread: ThreadId,
    query: Annotated[EventsQuery, Query()],
    doors: Behind,
    last_event_id: Annotated[
        str | None, Header(description="What a browser sends as it resumes; goes before `after`. Empty means none.")
    ] = None,
) -> Response:
    """The thread's log as server-sent events: `id` is the seq, `event` the kind, `data` the entry.

    Only entries carry an id, so `Last-Event-ID` is always a place in the log. Comments are heartbeats. The stream ends
    with an `end` event once the thread is idle, unless `follow=true`. A stream that stops without `end` was cut: resume
    from the last id. A position beyond the log's end gets a `reset` event with the head, then the log from its start.
    """
    position = position_of(last_event_id, query.after)
    row = await doors.thread(thread)
    if position == row.last_seq and row.state is ThreadState.IDLE and not query.follow:
        return Response(status_code=204)
    after = position or 0
    start = 0 if after > row.last_seq else after
    entries = doors.runner.watch(thread, start, follow=query.follow)
    return EventStream(entries, doors.streams, after=after, head=row.last_seq)

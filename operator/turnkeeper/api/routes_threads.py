"""Calls about a thread: send to it, read it, answer its questions, resolve what was parked."""

from __future__ import annotations

import uuid
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from turnkeeper.api.asked import AnswerBody, ParkedBody, SendBody
from turnkeeper.api.body import documented_body, read_model
from turnkeeper.api.doors import Behind
from turnkeeper.api.names import MessageId, ThreadId
from turnkeeper.api.problems import CLOSED, INVALID_ID, INVALID_INPUT, NOT_FOUND, STANDS, UNAVAILABLE, documented
from turnkeeper.api.told import (
    PAGE_MAX,
    SEQ_MAX,
    EntryTold,
    LogTold,
    ParkedTold,
    QuestionTold,
    ReceiptTold,
    SentTold,
    ThreadDetailTold,
    ThreadsTold,
    ThreadTold,
    answer,
)
from turnkeeper.core.cursor import NewMessage
from turnkeeper.core.names import check_id, dump_json
from turnkeeper.core.words import Resolution, ThreadState
from turnkeeper.errors import NotFoundError
from turnkeeper.ports import Journal

router = APIRouter(prefix="/v1/threads", tags=["threads"])

PAGE_BYTES_MAX = 8 * 1_048_576
"""A page of the log ends early once it is this large. Arbitrary: a thousand entries may be a gibibyte."""

FIRST_READ = 16
"""Entries of a log page's first read; each further one is four times as many, while they turn out to be small."""


@router.post(
    "/{thread:segment}/messages",
    summary="Send a message",
    status_code=202,
    response_model=SentTold,
    responses={
        200: {"model": ReceiptTold, "description": "The very same message was accepted before; its receipt."},
        **documented(STANDS, INVALID_ID, CLOSED, UNAVAILABLE, is_post=True),
    },
    openapi_extra=documented_body(SendBody),
)
async def send(request: Request, thread: ThreadId, doors: Behind) -> Response:
    """202 means: it is durable, and a turn will take it, whoever dies.

    Sending the same id and body again is always safe and answers 200 with the receipt. After a 503 or a lost connection
    send again under the same id.
    """
    body = await read_model(request, SendBody)
    message_id = body.message_id
    if "message_id" in body.model_fields_set:
        check_id(message_id, "message id")
    else:
        message_id = uuid.uuid4().hex
    if "sender" in body.model_fields_set:
        check_id(body.sender, "sender")
    request.state.message_id = message_id
    new = NewMessage(message_id=message_id, content=body.content, sender=body.sender, mode=body.mode)
    sent = await doors.runner.send(thread, new)
    if not sent.is_new:
        return answer(ReceiptTold.of(sent.message))
    told = SentTold(message_id=message_id, seq=sent.message.seq, outcome=sent.outcome, run_id=sent.run_id)
    return answer(told, 202)


@router.get(
    "/{thread:segment}/messages/{message_id:segment}",
    summary="Read a message's receipt",
    response_model=ReceiptTold,
    responses=documented(NOT_FOUND, INVALID_ID, UNAVAILABLE),
)
async def receipt(thread: ThreadId, message_id: MessageId, doors: Behind) -> Response:
    """What became of a message: pending, noted, started, steered, parked, retrying or dropped."""
    found = await doors.runner.journal.message(thread, message_id)
    if found is None:
        raise NotFoundError(f"thread {thread!a} has no message {message_id!a}")
    return answer(ReceiptTold.of(found))


class ThreadsQuery(BaseModel):
    """Which page of the threads."""

    model_config = ConfigDict(extra="forbid")

    state: ThreadState | None = Field(None, description="Only threads in this state.")
    after: str = Field("", description="Only threads whose id comes after this, by code point.")
    limit: int = Field(100, ge=1, le=PAGE_MAX, description="Most threads of the page.")


@router.get(
    "",
    summary="List threads",
    response_model=ThreadsTold,
    responses=documented(INVALID_INPUT, UNAVAILABLE),
)
async def threads(query: Annotated[ThreadsQuery, Query()], doors: Behind) -> Response:
    """A page of threads, by id. Give `next` as `after` to get the next one."""
    if query.after:
        check_id(query.after, "after")
    found = await doors.runner.journal.threads(query.state, query.after, query.limit + 1)
    page = found[: query.limit]
    following = page[-1].thread_id if len(found) > len(page) else None
    return answer(ThreadsTold(threads=[ThreadTold.of(thread) for thread in page], next=following))


@router.get(
    "/{thread:segment}",
    summary="Read a thread",
    response_model=ThreadDetailTold,
    responses=documented(NOT_FOUND, INVALID_ID, UNAVAILABLE),
)
async def read(thread: ThreadId, doors: Behind) -> Response:
    """A thread's state and cursors, its open questions and parked turns."""
    row = await doors.thread(thread)
    journal = doors.runner.journal
    questions = await journal.questions(thread) if row.open_questions else ()
    parked = await journal.parked(thread) if row.parked else ()
    told = ThreadDetailTold(
        **ThreadTold.of(row).model_dump(),
        questions=[QuestionTold.of(question) for question in questions],
        parked_turns=[ParkedTold.of(turn) for turn in parked],
    )
    return answer(told)


class LogQuery(BaseModel):
    """Which page of the log."""

    model_config = ConfigDict(extra="forbid")

    after: int = Field(0, ge=0, le=SEQ_MAX, description="Only entries with a greater seq.")
    limit: int = Field(100, ge=1, le=PAGE_MAX, description="Most entries of the page; fewer where they are large.")


@router.get(
    "/{thread:segment}/log",
    summary="Read a thread's log",
    response_model=LogTold,
    responses=documented(NOT_FOUND, INVALID_ID, INVALID_INPUT, UNAVAILABLE),
)
async def log(thread: ThreadId, query: Annotated[LogQuery, Query()], doors: Behind) -> Response:
    """A page of a thread's log, by seq. Give `next` as `after` to get the next one."""
    row = await doors.thread(thread)
    entries = await _page(doors.runner.journal, thread, query)
    last = entries[-1].seq if entries else query.after
    return answer(LogTold(entries=entries, next=last if last < row.last_seq else None))


async def _page(journal: Journal, thread_id: str, query: LogQuery) -> list[EntryTold]:
    """Read a page in growing pieces, so that large entries never pile up in memory beyond the page's bytes."""
    page: list[EntryTold] = []
    size, reach = 0, FIRST_READ
    while len(page) < query.limit and size < PAGE_BYTES_MAX:
        wanted = min(reach, query.limit - len(page))
        read_now = await journal.log(thread_id, page[-1].seq if page else query.after, wanted)
        for entry in read_now:
            told = EntryTold.of(entry)
            size += len(dump_json(told.model_dump()))
            page.append(told)
        if len(read_now) < wanted:
            break
        reach = reach * 4 if size < PAGE_BYTES_MAX // 8 else FIRST_READ
    return page


@router.post(
    "/{thread:segment}/answers",
    summary="Answer a question",
    status_code=202,
    response_model=QuestionTold,
    responses=documented(NOT_FOUND, STANDS, INVALID_ID, CLOSED, UNAVAILABLE, is_post=True),
    openapi_extra=documented_body(AnswerBody),
)
async def answer_question(request: Request, thread: ThreadId, doors: Behind) -> Response:
    """A question is resolved once: whoever comes later gets 409 with what stands.

    `answer` is for a free question, `approved` for an approval. What was proposed stands: an answer can't alter it.
    """
    body = await read_model(request, AnswerBody)
    request.state.question_id = check_id(body.question_id, "question id")
    if "answer" in body.model_fields_set:
        verdict = Resolution.ANSWERED
    else:
        verdict = Resolution.APPROVED if body.approved else Resolution.DENIED
    question = await doors.runner.answer(thread, body.question_id, verdict, body.answer)
    return answer(QuestionTold.of(question), 202)


@router.post(
    "/{thread:segment}/parked/{seq}",
    summary="Retry or drop a parked turn",
    status_code=202,
    response_model=ThreadTold,
    responses=documented(NOT_FOUND, STANDS, INVALID_ID, CLOSED, UNAVAILABLE, is_post=True),
    openapi_extra=documented_body(ParkedBody),
)
async def resolve_parked(
    request: Request,
    thread: ThreadId,
    seq: Annotated[int, Path(ge=1, le=SEQ_MAX, description="Where the turn was parked in the log.")],
    doors: Behind,
) -> Response:
    """A turn that was set aside after its runner died of it too often is tried again, or given up. Each once."""
    body = await read_model(request, ParkedBody)
    return answer(ThreadTold.of(await doors.runner.resolve_parked(thread, seq, body.action)), 202)

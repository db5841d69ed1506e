"""A turn as JSON, the same for every handler that is not Python: what `exec` reads and `http` is sent."""

from __future__ import annotations

from collections.abc import Sequence

from turnkeeper.core.names import dump_json
from turnkeeper.core.values import Entry, Json, Message, Question
from turnkeeper.core.words import Kind
from turnkeeper.ports import Turn

HISTORY_BYTES_MAX = 4_194_304
"""Most history that is sent along, newest kept. Arbitrary: four entries of the largest size, hundreds of usual ones."""


def turn_document(turn: Turn, history: Sequence[Entry]) -> dict[str, Json]:
    """Return what a program is told of a turn."""
    return {
        "type": "turn",
        "workspace": turn.workspace,
        "thread": turn.thread_id,
        "run": turn.run_id,
        "turn": turn.turn_id,
        "attempt": turn.attempt,
        "token": turn.token,
        "prompts": [message_document(message) for message in turn.prompts],
        "questions": [question_document(question) for question in turn.questions],
        "history": _within_size([entry_document(entry) for entry in history]),
    }


def message_document(message: Message) -> dict[str, Json]:
    """Return what a program is told of a message."""
    return {
        "message_id": message.message_id,
        "seq": message.seq,
        "sender": message.sender,
        "content": message.content,
    }


def question_document(question: Question) -> dict[str, Json]:
    """Return what a program is told of a question and how it was resolved."""
    return {
        "question_id": question.question_id,
        "ask": question.ask.value,
        "text": question.text,
        "detail": question.detail,
        "resolution": question.resolution.value,
        "answer": question.answer,
    }


def entry_document(entry: Entry) -> dict[str, Json]:
    """Return what a program is told of an entry of the log."""
    return {
        "seq": entry.seq,
        "kind": entry.kind.value,
        "created_ms": entry.created_ms,
        "run_id": entry.run_id,
        "body": entry.body,
    }


async def earlier(turn: Turn, limit: int) -> Sequence[Entry]:
    """Return the thread's history without what this turn is about and what still waits for a turn of its own.

    Turns consume a thread's messages in order, so that what was sent after this turn's first prompt is either one of
    its prompts or waits. An answer after that prompt is the one to an earlier turn, during which the prompt was sent.
    """
    if limit <= 0:
        return ()
    entries = await turn.history(limit)
    if not turn.prompts:
        return entries
    first = turn.prompts[0].seq
    return [entry for entry in entries if entry.kind not in {Kind.MESSAGE, Kind.NOTE} or entry.seq < first]


def _within_size(documents: Sequence[Json]) -> list[Json]:
    kept: list[Json] = []
    size = 0
    for document in reversed(documents):
        size += len(dump_json(document))
        if size > HISTORY_BYTES_MAX:
            break
        kept.append(document)
    return kept[::-1]

"""A thread as the list of messages that a chat model is shown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from turnkeeper.adapters.handlers.wire import question_document
from turnkeeper.core.values import Entry, Json
from turnkeeper.core.words import Kind, Outcome
from turnkeeper.ports import Turn


def chat_messages(turn: Turn, history: Sequence[Entry], system_prompt: str) -> list[Json]:
    """Return the system prompt, what was said before, and what this turn is about.

    A message is the user's, the answer of a completed run the assistant's. What is not text is shown as JSON.
    """
    messages: list[Json] = [_said("system", system_prompt)] if system_prompt else []
    for entry in history:
        if entry.kind in {Kind.MESSAGE, Kind.NOTE}:
            messages.append(_said("user", as_text(entry.body.get("content"))))
        elif entry.kind is Kind.RUN_ENDED and entry.body.get("outcome") == Outcome.COMPLETED:
            messages.append(_said("assistant", _answer_text(entry.body.get("answer"))))
    messages += [_said("user", as_text(message.content)) for message in turn.prompts]
    # A turn goes on after a pause that another handler made: the model is told how its questions stand.
    messages += [_said("user", as_text(question_document(question))) for question in turn.questions]
    return messages


def as_text(content: Json) -> str:
    """Return a text as it is, and any other JSON value as its text, with the letters of every script left readable."""
    return content if isinstance(content, str) else _readable_json(content)


def _said(role: str, content: str) -> Json:
    return {"role": role, "content": content}


def _answer_text(answer: Json) -> str:
    """Return what an earlier answer said: a chat answer's content, or another handler's answer as text."""
    if isinstance(answer, Mapping) and answer.get("role") == "assistant" and "content" in answer:
        return as_text(answer["content"])
    return as_text(answer)


def _readable_json(content: Json) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(", ", ": "))

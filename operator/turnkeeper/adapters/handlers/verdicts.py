"""How a program says that its run is over: an answer, questions, or a failure; each checked before it is believed.

A verdict that can't be kept fails the run with a plain reason. Anything else would lose an answer without a word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from turnkeeper.adapters.handlers.lines import Refused
from turnkeeper.core.names import check_id, check_json
from turnkeeper.core.values import Json
from turnkeeper.core.words import Ask
from turnkeeper.errors import HandlerError, InvalidInputError
from turnkeeper.ports import Asking, Pause

VERDICTS = frozenset({"answer", "ask", "fail"})

REASON_LENGTH_MAX = 2_000
"""Longest reason that is kept, in characters. Arbitrary: a page of text, and no log file."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The run is over with this answer."""

    answer: Json


@dataclass(frozen=True, slots=True)
class Failed:
    """The run is over with this failure."""

    reason: str


Verdict = Answered | Pause | Failed


def read_verdict(line: Mapping[str, Json] | Refused) -> Verdict | None:
    """Return the verdict that a line gives, or None if it is another kind of line."""
    kind = line.kind if isinstance(line, Refused) else line["type"]
    if kind not in VERDICTS:
        return None
    if isinstance(line, Refused):
        return Failed(f'its "{kind}" could not be read: {line.reason}')
    if kind == "answer":
        return _answered(line)
    if kind == "ask":
        try:
            return Pause(_askings(line.get("questions")))
        except HandlerError as error:
            return Failed(str(error))
    reason = line.get("reason")
    return Failed(readable(reason) if isinstance(reason, str) and reason.strip() else "it failed and gave no reason")


def settle(verdict: Verdict) -> Json | Pause:
    """Return what a handler returns for a verdict; raise HandlerError for a failure."""
    if isinstance(verdict, Failed):
        raise HandlerError(verdict.reason)
    return verdict if isinstance(verdict, Pause) else verdict.answer


def checked(result: object) -> Json | Pause:
    """Return what a Python handler returned if it can be kept; raise HandlerError otherwise."""
    if not isinstance(result, Pause):
        try:
            check_json(result, "the answer")
        except InvalidInputError as error:
            raise HandlerError(str(error)) from error
        return cast("Json", result)
    if not result.questions:
        raise HandlerError("it paused without a question, so nobody could ever wake it")
    for asking in result.questions:
        _check_asking(asking)
    _check_ids(result.questions)
    return result


def readable(text: str) -> str:
    """Return a text that any log can keep: bounded, and without half characters."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole if len(whole) <= REASON_LENGTH_MAX else whole[:REASON_LENGTH_MAX] + " [cut]"


def _answered(line: Mapping[str, Json]) -> Verdict:
    if "answer" not in line:
        return Failed('its "answer" line has no "answer"')
    try:
        check_json(line["answer"], "its answer")
    except InvalidInputError as error:
        return Failed(str(error))
    return Answered(line["answer"])


def _askings(questions: Json) -> tuple[Asking, ...]:
    if not isinstance(questions, list) or not questions:
        raise HandlerError('its "ask" line has no list of "questions", or an empty one')
    askings = tuple(_asking(question) for question in questions)
    _check_ids(askings)
    return askings


def _asking(question: Json) -> Asking:
    if not isinstance(question, Mapping):
        raise HandlerError("a question is not an object")
    known = {"text", "ask", "detail", "question_id", "timeout_seconds"}
    if unknown := sorted(set(question) - known):
        raise HandlerError(f"a question has the unknown key {unknown[0][:80]!a}; it may have {sorted(known)}")
    text, ask = question.get("text"), question.get("ask", "free")
    question_id, timeout = question.get("question_id", ""), question.get("timeout_seconds")
    if not isinstance(ask, str) or ask not in set(Ask):
        raise HandlerError(f'a question\'s "ask" is {str(ask)[:80]!a}, not "free" or "approval"')
    if not isinstance(text, str) or not isinstance(question_id, str):
        raise HandlerError('a question\'s "text" and "question_id" must be strings')
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float)):
        raise HandlerError('a question\'s "timeout_seconds" must be a number')
    asking = Asking(
        text=text,
        ask=Ask(ask),
        detail=question.get("detail"),
        question_id=question_id,
        timeout_seconds=timeout,
    )
    _check_asking(asking)
    return asking


def _check_asking(asking: Asking) -> None:
    if not asking.text.strip():
        raise HandlerError("a question has no text")
    if asking.timeout_seconds is not None and not asking.timeout_seconds > 0:
        raise HandlerError("a question's timeout_seconds must be above zero")
    try:
        check_json([asking.text, asking.detail], "a question")
        if asking.question_id:
            check_id(asking.question_id, "question id")
    except InvalidInputError as error:
        raise HandlerError(str(error)) from error


def _check_ids(askings: tuple[Asking, ...]) -> None:
    ids = [asking.question_id for asking in askings if asking.question_id]
    if len(ids) != len(set(ids)):
        raise HandlerError("two of its questions have the same question_id")

"""What is believed of what a program says last."""

import json

import pytest

from turnkeeper.adapters.handlers.lines import parse_line
from turnkeeper.adapters.handlers.verdicts import REASON_LENGTH_MAX, Answered, Failed, checked, read_verdict, readable
from turnkeeper.core.values import Json
from turnkeeper.core.words import Ask
from turnkeeper.errors import HandlerError
from turnkeeper.ports import Asking, Pause


def verdict(line: object) -> object:
    """What is read from a line that a program would write."""
    return read_verdict(parse_line(json.dumps(line).encode()))


@pytest.mark.parametrize("answer", [None, 0, "", {"a": [1]}])
def test_an_answer_is_any_json(answer: Json) -> None:
    """Null and nothing are answers too."""
    assert verdict({"type": "answer", "answer": answer}) == Answered(answer)


def test_questions_become_a_pause() -> None:
    """Each with what it wants; free unless said otherwise."""
    asked: list[Json] = [
        {"text": "Which?"},
        {"text": "Pay?", "ask": "approval", "detail": {"eur": 9}, "question_id": "pay", "timeout_seconds": 60},
    ]
    assert verdict({"type": "ask", "questions": asked}) == Pause(
        (
            Asking(text="Which?"),
            Asking(text="Pay?", ask=Ask.APPROVAL, detail={"eur": 9}, question_id="pay", timeout_seconds=60),
        )
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"type": "answer"}, 'no "answer"'),
        ({"type": "answer", "answer": "\ud800"}, "half a character"),
        ({"type": "answer", "answer": "x" * 1_048_577}, "more than the 1048576 allowed"),
        ({"type": "answer", "answer": float("nan")}, "NaN"),
        ({"type": "ask"}, 'no list of "questions"'),
        ({"type": "ask", "questions": []}, "empty"),
        ({"type": "ask", "questions": ["Which?"]}, "not an object"),
        ({"type": "ask", "questions": [{"text": ""}]}, "no text"),
        ({"type": "ask", "questions": [{"text": 1}]}, "must be strings"),
        ({"type": "ask", "questions": [{"text": "?", "ask": "vote"}]}, "vote"),
        ({"type": "ask", "questions": [{"text": "?", "ask": [1]}]}, "[1]"),
        ({"type": "ask", "questions": [{"text": "?", "timeout": 1}]}, "timeout"),
        ({"type": "ask", "questions": [{"text": "?", "timeout_seconds": "1"}]}, "number"),
        ({"type": "ask", "questions": [{"text": "?", "timeout_seconds": 0}]}, "above zero"),
        ({"type": "ask", "questions": [{"text": "?", "timeout_seconds": True}]}, "number"),
        ({"type": "ask", "questions": [{"text": "?", "question_id": "a\n"}]}, "question id"),
        ({"type": "ask", "questions": [{"text": "?", "question_id": "a"}] * 2}, "same question_id"),
        ({"type": "ask", "questions": [{"text": "\udfff"}]}, "half a character"),
        ({"type": "fail", "reason": "no money"}, "no money"),
        ({"type": "fail"}, "gave no reason"),
        ({"type": "fail", "reason": "\ud800!"}, "!"),
    ],
)
def test_a_failure_and_a_bad_verdict_fail_the_run_with_a_plain_reason(line: object, reason: str) -> None:
    """A verdict that is not believed is never taken for silence."""
    found = verdict(line)
    assert isinstance(found, Failed)
    assert reason in found.reason
    found.reason.encode("utf-8")


@pytest.mark.parametrize("line", [{"type": "event", "event": {"type": "answer"}}, {"type": "?"}, {"type": "event"}])
def test_any_other_line_is_no_verdict(line: object) -> None:
    """The run goes on."""
    assert verdict(line) is None


@pytest.mark.parametrize(
    "result",
    [object(), {1: 2}, float("inf"), {"a": {1}}, Pause(()), Pause((Asking(text=" "),)), b"bytes", "\ud800"],
)
def test_what_a_function_returns_is_checked_too(result: object) -> None:
    """The journal could not keep it."""
    with pytest.raises(HandlerError):
        checked(result)


def test_a_reason_is_bounded() -> None:
    """It is shown in tables and kept for ever."""
    assert len(readable("x" * 10_000_000)) < REASON_LENGTH_MAX + 10

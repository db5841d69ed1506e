"""S25: contents that pass one layer and break the next. What the core lets in, every store gives back unaltered."""

from __future__ import annotations

import pytest

from tests.contract.play import asking, begin, emit, expect, finish, send
from turnkeeper.core.ending import Ended, Ending, Recorded, Written, record_step
from turnkeeper.core.names import check_json, parse_json
from turnkeeper.core.questions import Answered, answer
from turnkeeper.core.values import Json
from turnkeeper.core.words import Outcome, Resolution
from turnkeeper.ports import Journal

NESTED: Json = []
for _ in range(99):
    NESTED = [NESTED]

ODD_CONTENTS: dict[str, Json] = {
    "nothing": None,
    "an empty text": "",
    "only blanks": "  \t\n ",
    "NUL": "a\x00b",
    "NUL in a key": {"a\x00": "\x00"},
    "every control character": "".join(map(chr, range(32))) + "\x7f\x80\x9f",
    "what splits a stream's frame": "\r\n\r\ndata: x\n\nevent: y\n\n",
    "line separators": "\u2028\u2029\x85",
    "a byte order mark": "\ufeffx\ufffe\uffff",
    "beyond the first plane": "😀\U0010ffff",
    "composed and decomposed": {"é": 1, "e\u0301": 2},
    "quotes and backslashes": "'\"\\\\u0000 %s :x {} $1",
    "a long integer": 10**400,
    "a long negative integer": -(10**400),
    "more than a double holds": 2**53 + 1,
    "the ends of doubles": [1.7976931348623157e308, 5e-324, -0.0, 0.1 + 0.2],
    "one as two types": [1, 1.0, True],
    "the order of keys": {"z": 1, "a": 2, "m": {"y": 1, "b": 2}},
    "an empty key": {"": {"": []}},
    "as deep as is allowed": NESTED,
    "almost as large as is allowed": "x" * 1_000_000,
}


@pytest.mark.parametrize("name", ODD_CONTENTS)
async def test_an_odd_content_comes_back_as_it_was(journal: Journal, name: str) -> None:
    """As message, event, step, question, answer and result: kept without loss, types and order of keys too."""
    content = ODD_CONTENTS[name]
    text = check_json(content)
    await send(journal, content=content)
    started = await begin(journal)
    assert isinstance(await emit(journal, started, 0, content), Written)
    step = record_step("t", "r1", started.fence, "s", content, 1)
    assert check_json(expect(await journal.transact(step), Recorded).value) == text
    assert check_json(expect(await journal.transact(step), Recorded).value) == text
    await finish(journal, started, asking(started, "q", detail=content))
    (question,) = await journal.questions("t")
    assert check_json(question.detail) == text
    assert isinstance(await journal.transact(answer("t", "q", Resolution.ANSWERED, content, 1)), Answered)
    successor = await begin(journal, run_id="r2", token=2)
    assert [check_json(q.answer) for q in successor.questions] == [text]
    assert isinstance(await finish(journal, successor, Ending(outcome=Outcome.COMPLETED, answer=content)), Ended)
    bodies = [entry.body for entry in await journal.log("t", 0, 100)]
    kept = [body[field] for body in bodies for field in ("content", "event", "value", "detail") if field in body]
    answers = [body["answer"] for body in bodies if "answer" in body]
    assert [check_json(value) for value in (*kept, *answers)] == [text] * 6
    await send(journal, "u", content=content)
    (waiting,) = await journal.waiting("u", 0, 1)
    assert check_json(waiting.content) == text
    assert check_json(parse_json(text.encode())) == text


@pytest.mark.parametrize("reason", ["", "a\x00b", "half \ud83d", "\r\n", "😀", "x" * 100_000])
async def test_a_run_ends_whatever_the_text_of_its_reason(journal: Journal, reason: str) -> None:
    """An end that can't be stored would hold the thread for ever: no text of a handler's error may do that."""
    await send(journal)
    ending = Ending(outcome=Outcome.FAILED, reason=reason)
    assert isinstance(await finish(journal, await begin(journal), ending), Ended)
    assert expect(await journal.run("r1"), tuple)[1].outcome is Outcome.FAILED


@pytest.mark.parametrize("name", ["é", "e\u0301", "😀", " ", "\uffff", "a" * 512, "'; --", "%00"])
async def test_odd_ids_are_kept_byte_for_byte(journal: Journal, name: str) -> None:
    """Of threads, messages, senders, steps and questions."""
    await send(journal, name, name, sender=name)
    started = await begin(journal, name)
    await journal.transact(record_step(name, "r1", started.fence, name, 1, 1))
    again = await journal.transact(record_step(name, "r1", started.fence, name, 2, 1))
    assert again == Recorded(1, is_new=False)
    await finish(journal, started, asking(started, name))
    assert [question.question_id for question in await journal.questions(name)] == [name]
    assert isinstance(await journal.transact(answer(name, name, Resolution.ANSWERED, 1, 1)), Answered)
    prompts = started.prompts
    assert [(message.message_id, message.sender) for message in prompts] == [(name, name)]

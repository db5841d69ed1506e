"""What people may name and send: the rules, each with what it refuses, and that nothing kept is altered."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnkeeper.core.names import (
    CONTENT_BYTES_MAX,
    REASON_CHARS_MAX,
    check_id,
    check_json,
    digest,
    dump_json,
    parse_json,
    safe_text,
)
from turnkeeper.core.values import Json
from turnkeeper.core.words import Mode
from turnkeeper.errors import InvalidContentError, InvalidIdError, TooLargeError

ALLOWED_IDS = {
    "one letter": "a",
    "a blank": " ",
    "an emoji": "😀",
    "composed": "é",
    "decomposed": "e\u0301",
    "a path": "a/../b?c#d%2F",
    "a line separator": "\u2028",
    "a byte order mark": "\ufeff",
    "a noncharacter": "\uffff",
    "right to left": "\u202eabc",
    "three dots": "...",
    "512 bytes": "a" * 512,
    "512 bytes of emoji": "😀" * 128,
}

REFUSED_IDS = {
    "nothing": "",
    "a dot": ".",
    "two dots": "..",
    "NUL": "a\x00",
    "a line feed": "a\nb",
    "a carriage return": "\r",
    "a tab": "\t",
    "delete": "\x7f",
    "next line": "\x85",
    "the last control character": "\x9f",
    "half an emoji": "\ud83d",
    "513 bytes": "a" * 513,
    "513 bytes of few letters": "😀" * 128 + "a",
}


@pytest.mark.parametrize("name", ALLOWED_IDS)
def test_an_allowed_id_is_returned_untouched(name: str) -> None:
    """Nothing is trimmed, folded or escaped."""
    assert check_id(ALLOWED_IDS[name]) == ALLOWED_IDS[name]


@pytest.mark.parametrize("name", REFUSED_IDS)
def test_a_forbidden_id_is_refused_with_the_rule(name: str) -> None:
    """The text names what it was and states the rule, in ASCII whatever was sent."""
    with pytest.raises(InvalidIdError, match=r"message id .* is not allowed: it must be 1 to 512 bytes") as caught:
        check_id(REFUSED_IDS[name], "message id")
    assert str(caught.value).isascii()


KEPT = {
    "NUL": rb'"a\u0000b"',
    "an escaped emoji": rb'"\ud83d\ude00"',
    "an emoji": '"😀"'.encode(),
    "401 digits": b"1" + b"0" * 400,
    "1,000 digits": b"-" + b"9" * 1000,
    "the greatest double": b"1.7976931348623157e308",
    "too small for a double": b"1e-400",
    "minus zero": b"[-0.0, -0]",
    "100 levels": b"[" * 100 + b"]" * 100,
    "blanks around": b" \r\n\t{} ",
    "an empty key": b'{"": 1}',
    "keys that look alike": '{"é": 1, "e\u0301": 2}'.encode(),
}

REFUSED = {
    "nothing": (b"", "is not JSON"),
    "no JSON": (b"{", "is not JSON"),
    "two values": (b"1 2", "is not JSON"),
    "a bare control character": (b'"\n"', "is not JSON"),
    "a byte order mark": (b"\xef\xbb\xbf1", "is not JSON"),
    "no UTF-8": (b'"\xff"', "is not valid UTF-8"),
    "a surrogate in UTF-8": (b'"\xed\xa0\xbd"', "is not valid UTF-8"),
    "half an emoji": (rb'"\ud83d"', "half a character"),
    "the other half": (rb'["\ude00x"]', "half a character"),
    "half an emoji in a key": (rb'{"\ud83d": 1}', "half a character"),
    "NaN": (b"NaN", "is not JSON"),
    "Infinity": (b"[-Infinity]", "is not JSON"),
    "1e309": (b"1e309", "too large for a double"),
    "a large fraction": (b"1" * 400 + b".5", "too large for a double"),
    "1,001 digits": (b"1" + b"0" * 1000, "more than 1000 digits"),
    "5,000 digits": (b"1" * 5000, "more than 1000 digits"),
    "duplicate keys": (b'{"a": 1, "b": {"c": 1, "c": 2}}', "same key twice"),
    "a key written in two ways": (rb'{"a": 1, "\u0061": 2}', "same key twice"),
    "101 levels": (b"[" * 101 + b"]" * 101, "deeper than 100 levels"),
    "10,000 levels": (b"[" * 10_000 + b"]" * 10_000, "deeper than 100 levels"),
    "10,000 levels of objects": (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "deeper than 100 levels"),
}


@pytest.mark.parametrize("name", KEPT)
def test_json_that_can_be_kept_is(name: str) -> None:
    """It is stored as ASCII and parsed back to the same value."""
    value = parse_json(KEPT[name])
    text = check_json(value)
    assert text.isascii()
    assert repr(parse_json(text.encode())) == repr(value)


@pytest.mark.parametrize("name", REFUSED)
def test_json_that_would_change_is_refused_with_the_reason(name: str) -> None:
    """Each with a plain reason that can itself be sent on."""
    text, reason = REFUSED[name]
    with pytest.raises(InvalidContentError, match=reason) as caught:
        parse_json(text)
    assert str(caught.value).isascii()


def _tangled(width: int) -> list[object]:
    knot: list[object] = []
    knot.extend([knot] * width)
    return knot


NO_JSON: dict[str, object] = {
    "bytes": b"x",
    "a set": {1},
    "an object": object(),
    "a number as key": {1: 2},
    "NaN": [float("nan")],
    "Infinity": {"a": float("inf")},
    "half an emoji": ["\udc00"],
    "a long integer": 10**1000,
    "what holds itself": _tangled(1),
}


@pytest.mark.parametrize("name", NO_JSON)
def test_what_is_no_json_at_all_is_refused(name: str) -> None:
    """A handler's output is any object of its language; a bad one costs its event only."""
    with pytest.raises(InvalidContentError):
        check_json(NO_JSON[name], "event")


@pytest.mark.parametrize("width", [2, 3, 50_000])
def test_what_holds_itself_more_than_once_is_refused_before_it_fills_the_memory(width: int) -> None:
    """A tree with links to its parents doubles with each level that is looked at."""
    with pytest.raises(TooLargeError, match="holds itself"):
        check_json(_tangled(width))


def test_the_size_is_that_of_what_is_stored() -> None:
    """To the byte: what fits is kept, one more is refused as too large; an emoji counts its twelve bytes."""
    assert len(check_json("x" * (CONTENT_BYTES_MAX - 2))) == CONTENT_BYTES_MAX
    for value in ("x" * (CONTENT_BYTES_MAX - 1), ["😀"] * (CONTENT_BYTES_MAX // 15 + 1)):
        with pytest.raises(TooLargeError, match="more than the 1048576 allowed"):
            check_json(value)
    with pytest.raises(TooLargeError):
        parse_json(b"[" + b"1," * CONTENT_BYTES_MAX + b"1]")


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda below: st.lists(below, max_size=5) | st.dictionaries(st.text(), below, max_size=5),
    max_leaves=20,
)


@given(JSON)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_what_is_accepted_survives_being_stored(value: Json) -> None:
    """Dumped and parsed it is the same, types and order of keys too; its digest does not see that order."""
    try:
        text = check_json(value)
    except InvalidContentError:
        assert json.dumps(value).encode("ascii")  # only half characters, which JSON can say and UTF-8 can't
        return
    again = parse_json(text.encode())
    assert repr(again) == repr(value)
    assert dump_json(again) == text
    assert digest(again, "", Mode.STEER) == digest(value, "", Mode.STEER)


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_any_bytes_are_parsed_or_refused(text: bytes) -> None:
    """No other error comes out of the parser, and what it accepts it accepts again."""
    try:
        value = parse_json(text)
    except InvalidContentError:
        return
    assert repr(parse_json(dump_json(value).encode())) == repr(value)


def test_a_digest_tells_messages_apart() -> None:
    """By content with its types, by sender and by mode; not by the order of keys."""
    apart = [
        digest(1, "", Mode.STEER),
        digest(1.0, "", Mode.STEER),
        digest(True, "", Mode.STEER),  # noqa: FBT003 - a JSON value
        digest("1", "", Mode.STEER),
        digest([1], "", Mode.STEER),
        digest(None, "", Mode.STEER),
        digest(1, "x", Mode.STEER),
        digest(1, "", Mode.QUEUE),
        digest("é", "", Mode.STEER),
        digest("e\u0301", "", Mode.STEER),
    ]
    assert len(set(apart)) == len(apart)
    assert digest({"a": 1, "b": 2}, "", Mode.STEER) == digest({"b": 2, "a": 1}, "", Mode.STEER)


@given(st.text(alphabet=st.characters(), max_size=50))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_reason_can_be_stored_and_shown_whatever_it_was(text: str) -> None:
    """No control characters but line ends and tabs, no half characters, and no more than is allowed."""
    safe = safe_text(text * 100)
    assert len(safe) <= REASON_CHARS_MAX
    assert safe.encode("utf-8").decode("utf-8") == safe
    assert all(char.isprintable() or char in "\n\t" for char in safe)
    assert safe_text(safe) == safe

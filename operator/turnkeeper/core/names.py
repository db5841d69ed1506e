"""The rules for what people name and send: ids, and JSON that can be kept without loss.

Both databases, every handler and every stream get the same bytes back, because what one of them could not carry is
refused here, once, with the rule in the text. Nothing is normalised, trimmed or escaped on the way: two ids that look
alike are two ids.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import NoReturn, cast

from turnkeeper.core.values import Json
from turnkeeper.core.words import Mode
from turnkeeper.errors import InvalidContentError, InvalidIdError, TooLargeError

ID_BYTES_MAX = 512
"""Longest id in UTF-8 bytes. Arbitrary: long enough for any URL or path used as a key, short enough for an index."""

CONTENT_BYTES_MAX = 1_048_576
"""Largest JSON value in bytes as it is stored. Arbitrary: far above a prompt, far below what stalls a writer."""

DEPTH_MAX = 100
"""Deepest nesting of arrays and objects. Python's, PostgreSQL's and browsers' parsers all take ten times as much."""

INTEGER_DIGITS_MAX = 1_000
"""Longest integer. Python refuses to print more than 4,300 digits; other parsers round long before."""

REASON_CHARS_MAX = 2_000
"""Longest reason kept in the log. Arbitrary: a traceback's tail, far below an entry's limit."""

_INTEGER_LIMIT = 10**INTEGER_DIGITS_MAX

ID_RULE = (
    f"1 to {ID_BYTES_MAX} bytes of UTF-8, without control characters (U+0000-U+001F, U+007F-U+009F) "
    "and lone surrogates, and not '.' or '..' (which clients drop from a URL's path)"
)


def check_id(value: str, what: str = "thread id") -> str:
    """Return `value` untouched if it keeps `ID_RULE`.

    Raises InvalidIdError with the rule otherwise.
    """
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError:
        size = 0
    is_control = any(ord(char) < 0x20 or 0x7F <= ord(char) <= 0x9F for char in value)  # noqa: PLR2004 - code points
    if not 1 <= size <= ID_BYTES_MAX or is_control or value in {".", ".."}:
        msg = f"{what} {value[:80]!a} is not allowed: it must be {ID_RULE}"
        raise InvalidIdError(msg)
    return value


def parse_json(
    text: bytes, what: str = "content", *, bytes_max: int = CONTENT_BYTES_MAX, depth_max: int = DEPTH_MAX
) -> Json:
    """Parse JSON that can be kept without loss. The limits may be wider for what only holds a content.

    Raises InvalidContentError for what is not JSON or would change on its way through a database or another parser
    (NaN, 1e309, duplicate keys, lone surrogates, too deep, too long integers), TooLargeError over CONTENT_BYTES_MAX.
    Numbers with a fraction or an exponent are IEEE 754 doubles, as in RFC 7493.
    """
    try:
        value = json.loads(
            text.decode("utf-8"),
            parse_float=_parse_float,
            parse_int=_parse_int,
            parse_constant=_refuse_constant,
            object_pairs_hook=_refuse_duplicates,
        )
    except UnicodeDecodeError as error:
        msg = f"{what} is not valid UTF-8: {error.reason} at byte {error.start}"
        raise InvalidContentError(msg) from error
    except RecursionError as error:
        msg = f"{what} is nested deeper than {depth_max} levels"
        raise InvalidContentError(msg) from error
    except json.JSONDecodeError as error:
        msg = f"{what} is not JSON: {error.msg} at character {error.pos}"
        raise InvalidContentError(msg) from error
    check_json(value, what, bytes_max=bytes_max, depth_max=depth_max)
    return cast("Json", value)


def check_json(
    value: object, what: str = "content", *, bytes_max: int = CONTENT_BYTES_MAX, depth_max: int = DEPTH_MAX
) -> str:
    """Return `value` as the JSON text that is stored: ASCII only, so that no database or stream frame can alter it.

    Raises InvalidContentError or TooLargeError as `parse_json`; also for a value that is not JSON at all.
    """
    _check_parts(value, what, bytes_max, depth_max)
    text = dump_json(cast("Json", value))
    if len(text) > bytes_max:
        msg = f"{what} is {len(text)} bytes as stored, more than the {bytes_max} allowed"
        raise TooLargeError(msg)
    return text


def dump_json(value: Json) -> str:
    """Return the stored text of a value that was checked."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def safe_text(text: str) -> str:
    """Return a reason as every database and terminal can hold it: no control or half characters, bounded."""
    kept = text[:REASON_CHARS_MAX].encode("utf-8", "replace").decode("utf-8")
    return "".join(char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in kept)


def digest(content: Json, sender: str, mode: Mode) -> str:
    """Return what tells "the same message again" from "another message under the same id"."""
    text = json.dumps([content, sender, mode], ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _check_parts(value: object, what: str, bytes_max: int, depth_max: int) -> None:
    """Walk the value level by level: a recursive walk would itself fall to the nesting that it should refuse."""
    level: list[object] = [value]
    depth = 0
    while level:
        below: list[object] = []
        for part in level:
            if len(below) > bytes_max:  # each part takes a byte at least
                # A value that holds itself twice doubles with each level: it would fill the memory before the depth.
                msg = f"{what} has more parts than the {bytes_max} bytes allowed, or holds itself"
                raise TooLargeError(msg)
            if isinstance(part, dict):
                _check_keys(part, what)
                below.extend(part.values())
            elif isinstance(part, list | tuple):
                below.extend(part)
            else:
                _check_scalar(part, what)
                continue
            if depth == depth_max:
                _refuse(what, f"it is nested deeper than {depth_max} levels")
        level = below
        depth += 1


def _check_keys(part: dict[object, object], what: str) -> None:
    for key in part:
        if not isinstance(key, str):
            _refuse(what, f"the object key {key!r:.80} is not a string")
        _check_scalar(key, what)


def _check_scalar(part: object, what: str) -> None:
    if isinstance(part, str):
        try:
            part.encode("utf-8")
        except UnicodeEncodeError:
            _refuse(what, f"the text {part[:40]!a} holds half a character (a lone surrogate)")
    elif isinstance(part, float):
        if not math.isfinite(part):
            _refuse(what, "NaN and Infinity are not JSON")
    elif isinstance(part, int):
        if abs(part) >= _INTEGER_LIMIT:
            _refuse(what, f"an integer has more than {INTEGER_DIGITS_MAX} digits")
    elif part is not None:
        _refuse(what, f"{type(part).__name__} is not a JSON type")


def _parse_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        _refuse("content", f"the number {text[:40]} is too large for a double")
    return value


def _parse_int(text: str) -> int:
    if len(text) > INTEGER_DIGITS_MAX + 1:
        _refuse("content", f"an integer has more than {INTEGER_DIGITS_MAX} digits")
    return int(text)


def _refuse_constant(text: str) -> NoReturn:
    _refuse("content", f"{text} is not JSON")


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        _refuse("content", "an object has the same key twice, of which one would be lost")
    return found


def _refuse(what: str, why: str) -> NoReturn:
    msg = f"{what} can't be kept without loss: {why}"
    raise InvalidContentError(msg)

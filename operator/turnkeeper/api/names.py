"""Ids in a URL's path: split on the raw path and decoded here, so that each is returned byte for byte.

A server that decodes the path first can't tell `a%2Fb` from `a/b`. So routes match the path as it came over the wire
(`guard.py` sees to that), and a segment is decoded once, strictly: a broken escape or bytes that are no UTF-8 are
refused, never repaired, because two ids must not fall together.
"""

from __future__ import annotations

import re
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

from fastapi import Depends, Path, Request
from starlette.convertors import Convertor, register_url_convertor

from turnkeeper.core.names import ID_RULE, check_id
from turnkeeper.errors import InvalidIdError

_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class SegmentConvertor(Convertor[str]):
    """One segment of the raw path, empty too: an empty id is answered with the rule, not with "no such path"."""

    regex = "[^/]*"

    def convert(self, value: str) -> str:
        """Return the segment as it came."""
        return value

    def to_string(self, value: str) -> str:
        """Return the segment as it is given."""
        return value


register_url_convertor("segment", SegmentConvertor())


def decode_segment(raw: str, what: str) -> str:
    """Return the id that a raw segment means. Raises InvalidIdError with the rule."""
    if _BROKEN_ESCAPE.search(raw):
        msg = f"{what} {raw[:80]!a} has a '%' that is not followed by two hexadecimal digits; send '%' itself as %25"
        raise InvalidIdError(msg)
    try:
        value = unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        msg = f"{what} {raw[:80]!a} is not UTF-8 once its escapes are decoded: it must be {ID_RULE}"
        raise InvalidIdError(msg) from None
    return check_id(value, what)


def _described(what: str) -> Any:  # noqa: ANN401 - FastAPI's own type
    return Path(description=f"The {what}, percent-encoded: {ID_RULE}. '/' is sent as %2F.")


async def _thread(request: Request, thread: Annotated[str, _described("thread's id")]) -> str:
    found: str = decode_segment(thread, "thread id")
    request.state.thread = found
    return found


async def _message(request: Request, message_id: Annotated[str, _described("message's id")]) -> str:
    found: str = decode_segment(message_id, "message id")
    request.state.message_id = found
    return found


async def _run(request: Request, run: Annotated[str, _described("run's id")]) -> str:
    found: str = decode_segment(run, "run id")
    request.state.run_id = found
    return found


ThreadId = Annotated[str, Depends(_thread)]
MessageId = Annotated[str, Depends(_message)]
RunId = Annotated[str, Depends(_run)]

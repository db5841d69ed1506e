"""Reads a request's body: bounded while it streams in, JSON that can be kept without loss, and no field unknown.

What breaks a rule is refused before anything is recorded. The limit counts the bytes that arrive, whatever
Content-Length says, and a client that sends too much is read a little further, so that it sees the answer and not a
reset connection.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from turnkeeper.api.problems import BAD_REQUEST, MEDIA, TOO_LARGE, TOO_SLOW, ProblemError, sentence_of
from turnkeeper.core.names import CONTENT_BYTES_MAX, DEPTH_MAX, check_json, parse_json
from turnkeeper.errors import InvalidInputError

BODY_BYTES_MAX = CONTENT_BYTES_MAX + 16_384
"""Most bytes of a body. Above the largest content: the ids and names around it are at most some kilobytes."""

STORED_PER_SENT = 3
"""Most bytes as stored of a byte as sent: two bytes of UTF-8 become six of ASCII. What is stored has its own limit."""

_CONTENTS = {"content", "answer"}

DISCARDED_BYTES_MAX = 64 * 1_048_576
"""How much more is read and thrown away, so that a client that sends all before it reads gets its 413. Arbitrary."""

BODY_SECONDS_MAX = 30.0
"""How long a body may take. Arbitrary: a mebibyte on a slow line, and no longer."""

M = TypeVar("M", bound=BaseModel)


async def read_model(request: Request, model: type[M], *, may_be_empty: bool = False) -> M:
    """Return the body as the model. An empty one counts as `{}` where it may be empty, whatever its type.

    Raises ProblemError (400, 408, 413, 415) and InvalidInputError with the reason.
    """
    if not may_be_empty or _announces_body(request):
        check_media_type(request)
    raw = await read_bounded(request)
    if not raw and may_be_empty:
        raw = b"{}"
    elif may_be_empty:
        check_media_type(request)
    value = parse_json(raw, "the body", bytes_max=STORED_PER_SENT * BODY_BYTES_MAX, depth_max=DEPTH_MAX + 1)
    if not isinstance(value, dict):
        raise InvalidInputError("the body must be a JSON object")
    for name in _CONTENTS & value.keys():
        check_json(value[name], name)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        raise InvalidInputError("; ".join(sentence_of(each) for each in found)) from None


def check_media_type(request: Request) -> None:
    """Refuse what is not JSON. A page of another site can send plain text or a form unasked, but not this type."""
    kind, _, parameters = request.headers.get("content-type", "").partition(";")
    charset = [
        part.strip().lower().removeprefix("charset=").strip('"') for part in parameters.split(";") if part.strip()
    ]
    if kind.strip().lower() != "application/json" or any(part not in {"utf-8", "utf8"} for part in charset):
        raise ProblemError(MEDIA, "Send JSON in UTF-8 with the header 'Content-Type: application/json'.")
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise ProblemError(MEDIA, "Send the body as it is: no Content-Encoding is understood.")


async def read_bounded(request: Request) -> bytes:
    """Return the body's bytes. Raises ProblemError 413 over BODY_BYTES_MAX and 408 after BODY_SECONDS_MAX."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            async for part in request.stream():
                size += len(part)
                if size <= BODY_BYTES_MAX:
                    parts.append(part)
                    continue
                parts.clear()
                if size > BODY_BYTES_MAX + DISCARDED_BYTES_MAX:
                    break
    except TimeoutError:
        headers = {"Connection": "close"}
        detail = f"The body did not arrive within {BODY_SECONDS_MAX:.0f} seconds."
        raise ProblemError(TOO_SLOW, detail, headers=headers) from None
    except ClientDisconnect:
        raise ProblemError(BAD_REQUEST, "The connection ended before the body did.") from None
    if size > BODY_BYTES_MAX:
        raise ProblemError(TOO_LARGE, f"The body is over the {BODY_BYTES_MAX} bytes allowed.")
    return b"".join(parts)


def _announces_body(request: Request) -> bool:
    return request.headers.get("content-length", "0") != "0"


def documented_body(model: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """Return the OpenAPI extra of a call whose body is read by `read_model`."""
    schema: dict[str, Any] = {"$ref": f"#/components/schemas/{model.__name__}"}
    content: dict[str, Any] = {"schema": schema}
    extra: Any = model.model_config.get("json_schema_extra") or {}
    if extra:
        content["examples"] = {f"{number}": {"value": value} for number, value in enumerate(extra["examples"], 1)}
    return {"requestBody": {"required": required, "content": {"application/json": content}}}

"""What every error of the HTTP API looks like: problem details (RFC 9457), each kind with one name and one meaning.

A person reads `detail`, a program `type` and the members `thread`, `message_id` and `stands`. Nothing of the program's
inside (a traceback, a driver's message, a secret) is ever in an answer: what was not foreseen says only that, and the
log has the rest.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from turnkeeper import errors

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"

RETRY_AFTER_SECONDS = 1
"""What a 503 asks a client to wait. Arbitrary: a takeover or a database's restart is seldom sooner over."""


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """One kind of error: its name in `type`, its status, and what it means whatever the occasion."""

    name: str
    status: HTTPStatus
    title: str


MALFORMED_POSITION = ProblemKind("malformed-position", HTTPStatus.BAD_REQUEST, "The position is not a seq")
BAD_REQUEST = ProblemKind("bad-request", HTTPStatus.BAD_REQUEST, "The request can't be read")
UNAUTHORIZED = ProblemKind("unauthorized", HTTPStatus.UNAUTHORIZED, "A token is needed")
FORBIDDEN = ProblemKind("forbidden-origin", HTTPStatus.FORBIDDEN, "A page of another site may not do this")
NOT_FOUND = ProblemKind("not-found", HTTPStatus.NOT_FOUND, "What was named does not exist")
NO_SUCH_PATH = ProblemKind("no-such-path", HTTPStatus.NOT_FOUND, "There is no such path")
METHOD = ProblemKind("method-not-allowed", HTTPStatus.METHOD_NOT_ALLOWED, "The path has no such method")
TOO_SLOW = ProblemKind("too-slow", HTTPStatus.REQUEST_TIMEOUT, "The body did not arrive in time")
STANDS = ProblemKind("stands-otherwise", HTTPStatus.CONFLICT, "Something else stands")
TOO_LARGE = ProblemKind("too-large", HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The value is over the limit")
MEDIA = ProblemKind("unsupported-media-type", HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The body must be JSON")
MISDIRECTED = ProblemKind("host-refused", HTTPStatus.MISDIRECTED_REQUEST, "The Host is not this runner's")
INVALID_ID = ProblemKind("invalid-id", HTTPStatus.UNPROCESSABLE_ENTITY, "An id breaks the rule")
INVALID_CONTENT = ProblemKind("invalid-content", HTTPStatus.UNPROCESSABLE_ENTITY, "The JSON can't be kept without loss")
INVALID_INPUT = ProblemKind("invalid-input", HTTPStatus.UNPROCESSABLE_ENTITY, "The input breaks a rule")
INTERNAL = ProblemKind("internal", HTTPStatus.INTERNAL_SERVER_ERROR, "An error nobody foresaw")
UNKNOWN = ProblemKind("unknown-outcome", HTTPStatus.SERVICE_UNAVAILABLE, "It may or may not have been recorded")
CLOSED = ProblemKind("closed", HTTPStatus.SERVICE_UNAVAILABLE, "This runner takes nothing more")
UNAVAILABLE = ProblemKind("unavailable", HTTPStatus.SERVICE_UNAVAILABLE, "A part can't be reached now")

_KIND_OF: Final[tuple[tuple[type[errors.TurnkeeperError], ProblemKind], ...]] = (
    # Subclasses before their base: the first that fits is the kind.
    (errors.InvalidIdError, INVALID_ID),
    (errors.TooLargeError, TOO_LARGE),
    (errors.InvalidContentError, INVALID_CONTENT),
    (errors.InvalidInputError, INVALID_INPUT),
    (errors.NotFoundError, NOT_FOUND),
    (errors.StandsOtherwiseError, STANDS),
    (errors.UnknownOutcomeError, UNKNOWN),
    (errors.UnavailableError, UNAVAILABLE),
    (errors.ClosedError, CLOSED),
)


class ProblemError(Exception):
    """A refusal that only HTTP knows; `members` are added to the problem."""

    def __init__(
        self,
        kind: ProblemKind,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.headers = dict(headers or {})
        self.members = dict(members or {})


def body_of(kind: ProblemKind, detail: str, members: Mapping[str, str] | None = None) -> dict[str, str | int]:
    """Return a problem's members."""
    return {
        "type": f"urn:turnkeeper:problem:{kind.name}",
        "title": kind.title,
        "status": int(kind.status),
        "detail": detail,
        **(members or {}),
    }


def respond(
    kind: ProblemKind,
    detail: str,
    members: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a problem as a response."""
    sent = {"Cache-Control": "no-store", **(headers or {})}
    if kind.status is HTTPStatus.SERVICE_UNAVAILABLE:
        sent.setdefault("Retry-After", str(RETRY_AFTER_SECONDS))
    text = json.dumps(body_of(kind, detail, members), ensure_ascii=True)
    return Response(text, status_code=int(kind.status), headers=sent, media_type=MEDIA_TYPE)


def members_of(request: Request) -> dict[str, str]:
    """Return what the request was about, as far as it was understood before it failed."""
    known: dict[str, str] = {}
    for name in ("thread", "message_id", "run_id", "question_id"):
        value = getattr(request.state, name, None)
        if isinstance(value, str):
            known[name] = value
    return known


def install(app: FastAPI) -> None:
    """Make every error that is foreseen a problem; `last_resort.py` does it for the others."""
    handlers: tuple[tuple[type[Exception], Callable[[Request, Any], Awaitable[Response]]], ...] = (
        (ProblemError, _refused),
        (errors.TurnkeeperError, _known),
        (RequestValidationError, _invalid),
        (HTTPException, _routed),
    )
    for raised, handler in handlers:
        app.add_exception_handler(raised, handler)


async def _refused(request: Request, error: ProblemError) -> Response:
    return respond(error.kind, error.detail, {**members_of(request), **error.members}, error.headers)


async def _known(request: Request, error: errors.TurnkeeperError) -> Response:
    members = members_of(request)
    detail = str(error)
    kind = next((kind for raised, kind in _KIND_OF if isinstance(error, raised)), None)
    if kind is None:
        log.error("%s %s: %s", request.method, request.url.path, type(error).__name__, exc_info=error)
        return respond(INTERNAL, "The runner met an error that it has no answer for; its log has more.", members)
    if isinstance(error, errors.StandsOtherwiseError):
        members["stands"] = error.stands
    if kind.status is HTTPStatus.SERVICE_UNAVAILABLE and "message_id" in members:
        told = "if it was recorded, the answer is its receipt, else it is recorded then"
        detail = f"{detail.rstrip('.')}. Send the message again under the id {members['message_id']!a}: {told}."
    return respond(kind, detail, members)


async def _invalid(request: Request, error: RequestValidationError) -> Response:
    return respond(INVALID_INPUT, "; ".join(sentence_of(each) for each in error.errors()), members_of(request))


async def _routed(request: Request, error: HTTPException) -> Response:
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = headers.get("Allow", "another")
        return respond(METHOD, f"{request.method} is not allowed here; {allowed} is", None, headers)
    if error.status_code == HTTPStatus.NOT_FOUND:
        detail = "There is no such path; /docs lists them. A '/' inside an id must be sent as %2F."
        return respond(NO_SUCH_PATH, detail)
    status = HTTPStatus(error.status_code)
    return respond(ProblemKind("http", status, status.phrase), str(error.detail), None, headers)


def sentence_of(error: Mapping[str, Any]) -> str:
    """Return one of pydantic's errors as a sentence that names the field, without repeating what was sent."""
    path = [str(part) for part in error["loc"] if part not in {"query", "path", "header", "body"}]
    name = ".".join(path) or "the body"
    match error["type"]:
        case "missing":
            return f"{name} is missing"
        case "extra_forbidden":
            return f"{name} is not known here"
        case "value_error":
            return f"{name}: {error['ctx']['error']}"
        case _:
            told = str(error["msg"])
            return f"{name}: {told[:1].lower()}{told[1:]}"


_EXAMPLES: Final[dict[ProblemKind, tuple[str, dict[str, str]]]] = {
    BAD_REQUEST: ("The query's escapes are not UTF-8.", {}),
    MALFORMED_POSITION: ("after 'abc' is not a position: it must be a whole number from 0", {"thread": "alice"}),
    UNAUTHORIZED: ("Send the header 'Authorization: Bearer <token>' with one of this runner's tokens.", {}),
    FORBIDDEN: ("The request comes from a page of another site.", {}),
    NOT_FOUND: ("thread 'alice' does not exist", {"thread": "alice"}),
    TOO_SLOW: ("The body did not arrive within 30 seconds.", {}),
    STANDS: (
        "another message was accepted under this id",
        {"thread": "alice", "message_id": "m-1", "stands": "started"},
    ),
    TOO_LARGE: ("The body is over the limit.", {"thread": "alice"}),
    MEDIA: ("Send the header 'Content-Type: application/json'.", {"thread": "alice"}),
    MISDIRECTED: ("This runner has no tokens, so it answers only on a loopback name.", {}),
    INVALID_INPUT: ("content is missing", {"thread": "alice"}),
    INTERNAL: ("The runner met an error that nobody foresaw; its log has more.", {}),
    UNKNOWN: (
        "the database's answer was lost. Send the message again under the id 'm-1'.",
        {"thread": "alice", "message_id": "m-1"},
    ),
}

_EVERYWHERE: Final = (BAD_REQUEST, UNAUTHORIZED, MISDIRECTED, INTERNAL)
_POSTS: Final = (FORBIDDEN, TOO_SLOW, TOO_LARGE, MEDIA, INVALID_INPUT, UNKNOWN)


def documented(*kinds: ProblemKind, is_post: bool = False) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI `responses` of a call that may end in these kinds, and in those that any call may."""
    wanted = dict.fromkeys((*kinds, *(_POSTS if is_post else ()), *_EVERYWHERE))
    found: dict[int | str, dict[str, Any]] = {}
    for kind in sorted(wanted, key=lambda kind: kind.status):
        detail, members = _EXAMPLES.get(kind, (kind.title, {}))
        content = {
            "schema": {"$ref": "#/components/schemas/Problem"},
            "examples": {kind.name: {"summary": kind.title, "value": body_of(kind, detail, members)}},
        }
        known = found.setdefault(int(kind.status), {"description": kind.title, "content": {MEDIA_TYPE: content}})
        known["content"][MEDIA_TYPE]["examples"] |= content["examples"]
    return found

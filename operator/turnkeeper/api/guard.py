"""Stands before every route: who may ask, under which name, and the path as it came over the wire.

With tokens, each call but those that say nothing of threads needs one. Without tokens the runner listens on loopback
only, and there a page in the user's browser is the danger: a name of its own that it lets resolve to 127.0.0.1 (DNS
rebinding) is caught by the Host header, a form or fetch of another site by the Origin header.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from urllib.parse import unquote_to_bytes, urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from turnkeeper.api.problems import BAD_REQUEST, FORBIDDEN, MISDIRECTED, UNAUTHORIZED, ProblemError, respond
from turnkeeper.settings import is_loopback

PROBES = frozenset({"/livez", "/readyz"})
"""Asked by whoever runs the process, under any name, with no secret at hand. They tell nothing of threads."""

OPEN_PATHS = PROBES | {"/docs", "/openapi.json"}
"""Need no token: a browser can't add one to a page's address, and the text is the same for everybody, in the source."""


class Guard:
    """Refuses by token, Host and Origin; then lets routes match the raw path."""

    def __init__(self, app: ASGIApp, tokens: Sequence[str] = ()) -> None:
        self._app = app
        self._tokens = tuple(token.encode() for token in tokens)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on, or answer with a problem."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = _raw_path(scope)
        try:
            self._check(path, Headers(scope=scope))
            _check_query(scope["query_string"])
        except ProblemError as problem:
            response = respond(problem.kind, problem.detail, None, problem.headers)
            await response(scope, receive, send)
            return
        await self._app({**scope, "path": path}, receive, send)

    def _check(self, path: str, headers: Headers) -> None:
        if self._tokens:
            if path not in OPEN_PATHS:
                self._check_token(headers)
        elif path not in PROBES and not is_loopback(host_of(headers.get("host", "localhost"))):
            detail = "This runner has no tokens, so it answers only under a loopback name, such as localhost."
            raise ProblemError(MISDIRECTED, detail)
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
            raise ProblemError(FORBIDDEN, "The request comes from a page of another site.")

    def _check_token(self, headers: Headers) -> None:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        presented = given.strip().encode("latin-1") if scheme.lower() == "bearer" else b""
        # Each one is compared, whichever fits: the time taken tells nothing.
        matches = [hmac.compare_digest(presented, token) for token in self._tokens]
        if not any(matches):
            challenge = 'Bearer realm="turnkeeper"' + (', error="invalid_token"' if presented else "")
            detail = "Send the header 'Authorization: Bearer <token>' with one of this runner's tokens."
            raise ProblemError(UNAUTHORIZED, detail, headers={"WWW-Authenticate": challenge})


def host_of(header: str) -> str:
    """Return the host of a Host header, without its port and brackets."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.rpartition(":")[0] if header.count(":") == 1 else header


def _raw_path(scope: Scope) -> str:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.decode("latin-1")


def _check_query(query: bytes) -> None:
    try:
        unquote_to_bytes(query).decode("utf-8")
    except UnicodeDecodeError:
        raise ProblemError(BAD_REQUEST, "The query's escapes are not UTF-8.") from None

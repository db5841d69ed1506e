"""Answers what nobody foresaw, and keeps the connection.

The framework's own last handler raises the error again after the answer, at which the server cuts the connection: a
client that sends its next call on it, as it may, would get a reset for a call that was never tried.
"""

from __future__ import annotations

import logging

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnkeeper.api.problems import INTERNAL, members_of, respond

log = logging.getLogger(__name__)

DETAIL = "The runner met an error that nobody foresaw; its log has more. Asking again under the same ids is safe."


class LastResort:
    """Turns any exception into a problem, the traceback into the log."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on; answer 500 where that raises."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})
        has_started = False

        async def watched(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception:
            if has_started:
                raise  # half an answer is out: only a cut connection tells the client
            log.exception("%s %s failed", scope["method"], scope["path"])
            await respond(INTERNAL, DETAIL, members_of(Request(scope)))(scope, receive, send)

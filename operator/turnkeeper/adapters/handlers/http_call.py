"""One POST whose answer is read as it comes, and every way in which that fails, as a text to be read.

What is tried again is only what can't have reached the other side: a connection that was not made. Whatever came after
may have begun the work, so it fails the run, and whoever wants it done again sends again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx

from turnkeeper.errors import HandlerError, SettingsError

BODY_SHOWN_BYTES = 1_000
"""How much of an error's body is told. Arbitrary: what a server says in a sentence or two."""

RETRY_FIRST_SECONDS = 0.1
RETRY_LAST_SECONDS = 2.0
"""Gaps between attempts to connect: they double. Arbitrary: short against a restart, long against a busy loop."""

SECRET_LENGTH_MIN = 8
"""Shorter header values are no secrets worth hiding, and hiding them would garble the text."""


class Caller:
    """Posts to one server over kept connections.

    headers: sent along, and never told in an error. timeout_seconds: the longest silence, while connecting and between
    any two pieces of the answer. connect_seconds_max: how long it is tried to connect, 0 for one attempt.
    """

    def __init__(self, headers: Mapping[str, str], timeout_seconds: float, connect_seconds_max: float) -> None:
        self._secrets = [value for value in headers.values() if len(value) >= SECRET_LENGTH_MIN]
        self._timeout_seconds = timeout_seconds
        self._connect_seconds_max = connect_seconds_max
        # Unlimited: how many turns run at once is limited by the runner.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        self._client = httpx.AsyncClient(headers=dict(headers), timeout=timeout_seconds, limits=limits)

    @asynccontextmanager
    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> AsyncIterator[httpx.Response]:
        """Post JSON and give the answer, unread. Raises HandlerError for a failure, also while it is being read."""
        request = self._client.build_request(
            "POST", url, content=body, headers={"Content-Type": "application/json", **headers}
        )
        try:
            response = await self._send(request)
            try:
                if not response.is_success:
                    raise HandlerError(await self._refusal(url, response))
                yield response
            finally:
                await response.aclose()
        except httpx.TimeoutException as error:
            raise HandlerError(f"{url} said nothing for {self._timeout_seconds:g} s") from error
        except httpx.HTTPError as error:
            raise HandlerError(f"the call of {url} failed: {self._hide(str(error)) or type(error).__name__}") from error

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _send(self, request: httpx.Request) -> httpx.Response:
        loop = asyncio.get_running_loop()
        gives_up_at = loop.time() + self._connect_seconds_max
        gap = RETRY_FIRST_SECONDS
        while True:
            try:
                return await self._client.send(request, stream=True)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                if loop.time() + gap > gives_up_at:
                    raise HandlerError(f"no connection to {request.url}: {str(error) or 'timed out'}") from error
            await pause(gap)
            gap = min(2 * gap, RETRY_LAST_SECONDS)

    async def _refusal(self, url: str, response: httpx.Response) -> str:
        """Say what a server answered that did not do as asked."""
        text = f"{url} answered {response.status_code} {response.reason_phrase}".rstrip()
        if later := response.headers.get("Retry-After"):
            text += f" (to be tried again after {later[:40]!a})"
        shown = b""
        async for chunk in response.aiter_bytes():
            shown += chunk
            if len(shown) > BODY_SHOWN_BYTES:
                break
        said = shown[:BODY_SHOWN_BYTES].decode("utf-8", "replace").strip()
        return f"{text}: {self._hide(said)}" if said else text

    def _hide(self, text: str) -> str:
        for secret in self._secrets:
            # The value as it is, and the part after "Bearer ", which is what a server would repeat.
            for part in {secret, secret.rpartition(" ")[2]}:
                text = text.replace(part, "[hidden]") if len(part) >= SECRET_LENGTH_MIN else text
        return text


async def pause(seconds: float) -> None:
    """Wait before the next attempt to connect."""
    await asyncio.sleep(seconds)


def checked_url(url: str, what: str) -> str:
    """Return a URL that can be called. Raises SettingsError."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise SettingsError(f"{what}: {url!a} is no URL: {error}") from error
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise SettingsError(f"{what}: {url!a} must begin with http:// or https:// and name a host")
    return url


def checked_headers(headers: Mapping[str, str], what: str) -> dict[str, str]:
    """Return headers without the spaces around their values. Raises SettingsError for what no header may hold."""
    found = {name: value.strip() for name, value in headers.items()}
    for name, value in found.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            raise SettingsError(f"{what}: {name[:80]!a} is no name for a header")
        if not re.fullmatch(r"[ -~]*", value):
            raise SettingsError(f"{what}: the value of the header {name} has other characters than printable ASCII")
    return found

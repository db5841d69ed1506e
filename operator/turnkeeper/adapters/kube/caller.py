"""Sends calls within their deadline, obeys 429, proves itself anew after 401, and turns what comes back into verdicts.

429 is obeyed here: the server did nothing, so the same call is sent again when `Retry-After` is over, as long as that
is within the call's deadline; until then every other call of this client waits, or fails at once where it can't.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import TypeAlias

import aiohttp

from turnkeeper.adapters.kube.answers import Call, Object, refusal, retry_after_seconds, unanswered
from turnkeeper.adapters.kube.connection import Connection
from turnkeeper.adapters.kube.pace import Pace
from turnkeeper.errors import TurnkeeperError, UnavailableError

RETRY_AFTER_SECONDS = (0.1, 1.0, 10.0)
"""The shortest that is waited after 429, what it means without `Retry-After`, and the longest that is obeyed.
Arbitrary: the server itself says 1 s; nonsense must make no hot loop, nor silence a client for a third of a session."""

KEEPALIVE = ((socket.TCP_KEEPIDLE, 5), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 2))
"""A server that is gone without a word is seen after about 15 s below the watch, whether there is news or not."""


OnCalled: TypeAlias = Callable[[str, str, str, float], None]
"""Is told of each call that ended, for metrics: verb, resource, `Done` or the error's name, seconds. Never raises."""


class Caller:
    """One client's calls, on one loop. Its errors are those of `api.KubeApi`."""

    def __init__(self, connection: Connection, *, deadline_seconds: float, on_called: OnCalled | None = None) -> None:
        self._connection = connection
        self._on_called = on_called
        self._deadline_seconds = deadline_seconds
        self._not_before_seconds = 0.0
        self._pace = Pace()

    async def call(self, call: Call, *, shown: str = "") -> Object:
        """Do a call within the deadline. shown: the object's name, where the path has none."""
        told = replace(call, name=shown) if shown else call
        began_seconds, verdict = time.monotonic(), "Cancelled"
        try:
            with _verdicts(told, f"no answer from the API server in {self._deadline_seconds:.1f} s"):
                async with asyncio.timeout(self._deadline_seconds):
                    answer = await self._until_let_in(call, told, began_seconds + self._deadline_seconds)
            verdict = "Done"
        except TurnkeeperError as error:
            verdict = type(error).__name__
            raise
        finally:
            if self._on_called is not None:
                self._on_called(call.verb, str(call.resource), verdict, time.monotonic() - began_seconds)
        return answer

    async def _until_let_in(self, call: Call, told: Call, ends_seconds: float) -> Object:
        has_read_identity = False
        while True:
            await self._wait_until_let_in(told, ends_seconds)
            async with self._connection.send(call, self._deadline_seconds) as response:
                status, headers, body = response.status, response.headers, await response.read()
            if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
                return _object_in(told, body)
            refused = self._refused(told, status, headers, body)
            if status == HTTPStatus.TOO_MANY_REQUESTS and self._not_before_seconds < ends_seconds:
                continue
            if status == HTTPStatus.UNAUTHORIZED and not has_read_identity:
                has_read_identity = True
                if await self._connection.read_identity():
                    continue
            raise refused

    def _refused(self, call: Call, status: int, headers: Mapping[str, str], body: bytes) -> TurnkeeperError:
        """Return the error of an answer, and hold this client back for as long as the server asks for."""
        refused = refusal(call, status, headers, body)
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            shortest, usual, longest = RETRY_AFTER_SECONDS
            asked = retry_after_seconds(headers)
            pause = max(shortest, min(usual if asked is None else asked, longest))
            pause *= random.uniform(1.0, 1.2)  # noqa: S311 - jitter, not a secret
            if time.monotonic() >= self._not_before_seconds:  # else it was sent before the pause and is told late
                self._pace.refused(pause)
            self._not_before_seconds = max(self._not_before_seconds, time.monotonic() + pause)
            self._pace.hold(self._not_before_seconds)
        return refused

    async def _wait_until_let_in(self, call: Call, ends_seconds: float) -> None:
        place_seconds = self._pace.place()
        while True:
            if place_seconds < self._not_before_seconds:  # it came while nobody was let in
                place_seconds = self._pace.place()
            wait = place_seconds - time.monotonic()
            if wait <= 0:
                return
            if wait >= ends_seconds - time.monotonic():
                raise UnavailableError(
                    f"{call}: not sent: the API server asked this client to wait for another {wait:.1f} s (429)",
                    retry_after_seconds=wait,
                )
            await asyncio.sleep(wait)

    async def lines(self, call: Call, quiet_seconds: float) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a watch until the server ends it. quiet_seconds: the longest between two of them."""
        async with AsyncExitStack() as stack:
            stack.enter_context(_verdicts(call, "the API server went silent"))
            async with asyncio.timeout(self._deadline_seconds):
                await self._wait_until_let_in(call, time.monotonic() + self._deadline_seconds)
                response = await stack.enter_async_context(self._connection.send(call, self._deadline_seconds))
                if response.status != HTTPStatus.OK:
                    raise self._refused(call, response.status, response.headers, await response.read())
            _keep_alive(response)
            while True:
                async with asyncio.timeout(quiet_seconds):
                    line = await response.content.readline()
                if not line:
                    return
                yield line

    async def aclose(self) -> None:
        """Close every connection."""
        await self._connection.aclose()


@contextmanager
def _verdicts(call: Call, silence: str) -> Iterator[None]:
    """Turn what the connection raises into what it means for the call. silence: what a time-out is told as."""
    try:
        yield
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise UnavailableError(f"{call}: the API server can't be reached: {_why(error)}") from error
    except TimeoutError as error:
        raise unanswered(call, silence) from error
    except (aiohttp.ClientError, OSError, ValueError) as error:  # ValueError: a line too long for any object
        raise unanswered(call, f"the API server's answer was lost: {_why(error)}") from error


def _object_in(call: Call, body: bytes) -> Object:
    try:
        told = json.loads(body)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise unanswered(call, f"the answer is no JSON object: {body[:80]!r}")
    return told


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__


def _keep_alive(response: aiohttp.ClientResponse) -> None:
    transport = response.connection.transport if response.connection is not None else None
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEPALIVE:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)

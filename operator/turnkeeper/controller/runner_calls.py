"""What the controller asks of a runner, by its pod's own address: the Service would ask only one of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from turnkeeper.errors import UnavailableError
from turnkeeper.settings.pod_variables import API_PORT, PROBE_PORT

CALL_SECONDS: Final = 15.0
"""Deadline of a call. A sweep starts at most `SWEEP_LIMIT` turns before it answers."""

CONNECT_SECONDS: Final = 2.0
"""Within a cluster a connection stands in milliseconds, or is being swallowed."""

SWEEP_LIMIT: Final = 200
"""Turns that one call starts at most: what is left is asked for by the next."""

TEXT_MAX: Final = 300
ANSWER_BYTES_MAX: Final = 1_048_576
"""Of an answer that is read: a runner's image may be anybody's."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one runner said of one sweep."""

    started: int = 0
    held: int = 0
    refused: int = 0
    failed: int = 0
    parked: int = 0
    remaining: int = 0
    complete: bool = True


@dataclass(frozen=True, slots=True)
class ThreadStats:
    """What a runner counted."""

    owed: int
    running: int
    paused: int
    parked: int
    oldest_owed_seconds: float


class RunnerCalls:
    """One client for all runners. Raises UnavailableError, with the runner's own words where it said some."""

    def __init__(self, *, api_port: int = API_PORT, probe_port: int = PROBE_PORT) -> None:
        self._api_port = api_port
        self._probe_port = probe_port
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(CALL_SECONDS, connect=CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=64, max_keepalive_connections=32, keepalive_expiry=60.0),
            trust_env=False,
        )

    async def recover(self, address: str, token: str) -> Report:
        """Ask a runner to take what is owed."""
        url = f"{self._url(address, self._api_port)}/v1/recover"
        told = await self._json("POST", url, token, {"limit": SWEEP_LIMIT})
        counts = {name: _count(told.get(name)) for name in ("held", "refused", "failed", "parked", "remaining")}
        started = told.get("started")
        return Report(
            started=len(started) if isinstance(started, list) else 0, complete=told.get("complete") is True, **counts
        )

    async def stats(self, address: str, token: str) -> ThreadStats:
        """Ask a runner for the counts of the workspace's threads."""
        told = await self._json("GET", f"{self._url(address, self._api_port)}/v1/stats", token)
        counts = {name: _count(told.get(name)) for name in ("owed", "running", "paused", "parked")}
        oldest = told.get("oldest_owed_seconds")
        return ThreadStats(oldest_owed_seconds=float(oldest) if isinstance(oldest, int | float) else 0.0, **counts)

    async def reasons(self, address: str) -> list[str]:
        """Ask a runner why it is not ready."""
        _, told = await self._ask("GET", f"{self._url(address, self._probe_port)}/readyz", "", None)
        found = told.get("reasons")
        return [str(reason)[:TEXT_MAX] for reason in found] if isinstance(found, list) else []

    async def aclose(self) -> None:
        """Close every connection."""
        await self._client.aclose()

    def _url(self, address: str, port: int) -> str:
        return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"

    async def _json(self, method: str, url: str, token: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        status, told = await self._ask(method, url, token, body)
        if status == httpx.codes.UNAUTHORIZED:
            raise UnavailableError("it does not take the tokens' Secret (401): it was started with other tokens")
        if status != httpx.codes.OK:
            raise UnavailableError(f"it answers {status}: {str(told.get('detail') or told)[:TEXT_MAX]}")
        return told

    async def _ask(
        self, method: str, url: str, token: str, body: Mapping[str, Any] | None
    ) -> tuple[int, dict[str, Any]]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            async with self._client.stream(method, url, headers=headers, json=body) as response:
                raw = b""
                async for part in response.aiter_bytes():
                    raw += part
                    if len(raw) > ANSWER_BYTES_MAX:
                        raise UnavailableError(f"its answer is over {ANSWER_BYTES_MAX} bytes")
                told = json.loads(raw)
        except httpx.HTTPError as error:
            raise UnavailableError(f"it does not answer: {str(error) or type(error).__name__}") from error
        except (ValueError, RecursionError) as error:
            raise UnavailableError("its answer is no JSON: is another program behind its port?") from error
        if not isinstance(told, dict):
            raise UnavailableError("its answer is no object: is another program behind its port?")
        return response.status_code, told


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0

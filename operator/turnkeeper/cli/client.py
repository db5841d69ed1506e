"""Speaks to a runner over HTTP, and turns what can go wrong into a sentence and an exit code."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import quote

import httpx

from turnkeeper.cli.exits import CommandError, ExitCode
from turnkeeper.core.names import check_id
from turnkeeper.errors import InvalidIdError
from turnkeeper.settings import is_loopback

CALL_SECONDS = 30.0
CONNECT_SECONDS = 5.0
"""Arbitrary: long against any answer of a healthy runner, short against a person's patience."""

SILENCE_SECONDS = 40.0
"""A stream that says nothing for this long is dead: heartbeats come within 15 seconds."""

SEND_TRIES = 6
TRY_GAP_SECONDS = 0.5
"""How often, and how far apart at first, a message is sent again under its id when its answer was lost. Together some
fifteen seconds: longer than a runner's restart."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream; `event_id` is None where it is no entry of the log."""

    kind: str
    data: Any
    event_id: int | None


class CutError(Exception):
    """The stream ended before it said so, or could not be opened now; it may be resumed."""


class RunnerClient:
    """One runner, by its URL. Use as a context manager: it keeps its connection for the next call."""

    def __init__(self, url: str, token: str = "") -> None:
        try:
            parts = httpx.URL(url)
        except (httpx.InvalidURL, UnicodeError):
            parts = httpx.URL()
        if parts.scheme not in {"http", "https"} or not parts.host:
            raise CommandError(f"--url {url!a} is not an http:// or https:// URL", ExitCode.USAGE)
        self.url = url.rstrip("/")
        headers = {"Accept": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        try:
            self._http = httpx.Client(
                headers=headers,
                timeout=httpx.Timeout(CALL_SECONDS, connect=CONNECT_SECONDS),
                trust_env=not is_loopback(parts.host),  # a proxy would look for the runner on its own machine
            )
        except (UnicodeEncodeError, ValueError) as error:
            raise CommandError(f"the token or URL can't be used: {error}", ExitCode.USAGE) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, path: str, params: Mapping[str, str | int] | None = None) -> Any:  # noqa: ANN401 - it may be any JSON
        """Return the answer to a GET."""
        return self._answer(self._call("GET", path, params=params))

    def post(self, path: str, body: Mapping[str, Any]) -> Any:  # noqa: ANN401 - it may be any JSON
        """Return the answer to a POST."""
        return self._answer(self._call("POST", path, body=body))

    def send(self, path: str, body: Mapping[str, Any]) -> Any:  # noqa: ANN401 - it may be any JSON
        """POST a message that has an id: where the answer is lost it is sent again, which is always safe."""
        gap = TRY_GAP_SECONDS
        for attempt in range(1, SEND_TRIES + 1):
            try:
                response = self._http.post(self.url + path, content=_dump(body), headers=_JSON)
            except httpx.ConnectError as error:
                if attempt == 1:
                    raise self._unreachable(error) from None
            except httpx.TransportError as error:
                if attempt == SEND_TRIES:
                    told = f"send it again with --message-id {body['message_id']}"
                    raise CommandError(f"the answer was lost ({error}); {told}", ExitCode.UNREACHABLE) from None
            else:
                if response.status_code != HTTPStatus.SERVICE_UNAVAILABLE or attempt == SEND_TRIES:
                    return self._answer(response)
            time.sleep(gap)
            gap = min(gap * 2, 5.0)
        told = f"send it again with --message-id {body['message_id']}"
        raise CommandError(
            f"the answer was lost and {self.url} can't be reached any more; {told}", ExitCode.UNREACHABLE
        )

    def events(self, thread: str, after: int, *, follow: bool) -> Iterator[Event]:
        """Yield a thread's events; the last is `end` where the thread is idle. Raises CutError where it was cut."""
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": str(after)} if after else {})}
        params = {"follow": "true"} if follow else {}
        timeout = httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS)
        url = f"{self.url}{thread_path(thread)}/events"
        try:
            with self._http.stream("GET", url, headers=headers, params=params, timeout=timeout) as response:
                if response.status_code == HTTPStatus.NO_CONTENT:
                    yield Event("end", {"head": after}, None)
                    return
                if response.status_code != HTTPStatus.OK:
                    response.read()
                    if response.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
                        raise CutError(_detail(response))
                    self._answer(response)
                for event in parse_events(response.iter_lines()):
                    yield event
                    if event.kind == "end":
                        return
        except httpx.TransportError as error:
            raise CutError(str(error) or type(error).__name__) from None
        except ValueError:
            raise CommandError(f"{self.url} answers, but not as a turnkeeper runner does") from None
        raise CutError("the stream ended early")

    def _call(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str | int] | None = None,
    ) -> httpx.Response:
        content = None if body is None else _dump(body)
        try:
            return self._http.request(
                method, self.url + path, content=content, params=params, headers=_JSON if body is not None else None
            )
        except httpx.TransportError as error:
            raise self._unreachable(error) from None

    def _answer(self, response: httpx.Response) -> Any:  # noqa: ANN401 - it may be any JSON
        if response.is_success:
            try:
                return response.json()
            except ValueError:
                raise CommandError(f"{self.url} answers, but not as a turnkeeper runner does") from None
        codes: dict[int, ExitCode] = {
            HTTPStatus.CONFLICT: ExitCode.CONFLICT,
            HTTPStatus.SERVICE_UNAVAILABLE: ExitCode.UNREACHABLE,
            HTTPStatus.BAD_GATEWAY: ExitCode.UNREACHABLE,
            HTTPStatus.GATEWAY_TIMEOUT: ExitCode.UNREACHABLE,
        }
        code = codes.get(response.status_code, ExitCode.FAILED)
        raise CommandError(_detail(response), code)

    def _unreachable(self, error: Exception) -> CommandError:
        hint = "is it running? `turnkeeper run` starts one; --url or TURNKEEPER_URL names another"
        return CommandError(f"no runner answers at {self.url} ({error}); {hint}", ExitCode.UNREACHABLE)


_JSON = {"Content-Type": "application/json"}


def _dump(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=True).encode("ascii")


def _detail(response: httpx.Response) -> str:
    detail = ""
    with suppress(ValueError, AttributeError):
        problem = response.json()
        stands = f" (what stands: {problem['stands']})" if problem.get("stands") else ""
        detail = f"{problem.get('detail') or problem.get('title') or ''}{stands}"
    return detail or f"the server answered {response.status_code} {response.reason_phrase}"


def thread_path(thread: str) -> str:
    """Return the path of a thread, its id escaped byte for byte. Raises CommandError with the rule."""
    return f"/v1/threads/{segment(thread, 'thread id')}"


def segment(value: str, what: str) -> str:
    """Return an id as one segment of a path."""
    try:
        return quote(check_id(value, what), safe="")
    except InvalidIdError as error:
        raise CommandError(str(error), ExitCode.USAGE) from None


def parse_events(lines: Iterator[str]) -> Iterator[Event]:
    """Yield the events among a stream's lines; comments and fields that mean nothing here are passed over."""
    kind, data, event_id = "", "", None
    for line in lines:
        if not line:
            if kind:
                yield Event(kind, json.loads(data), event_id)
            kind, data, event_id = "", "", None
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "data":
            data = value
        elif name == "id":
            event_id = int(value)

"""Asks a chat model, through any server that speaks the OpenAI protocol (`POST <base>/chat/completions`), streamed.

Steering is left: a request that is under way can't be told anything. It starts the next turn, which begins at once and
sees this turn's answer, so every message is answered once and by a model that knew what had been said before it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping

import httpx

from turnkeeper.adapters.handlers.chat_messages import chat_messages
from turnkeeper.adapters.handlers.deltas import Deltas
from turnkeeper.adapters.handlers.http_call import Caller, checked_headers, checked_url
from turnkeeper.adapters.handlers.lines import LINE_BYTES_MAX
from turnkeeper.adapters.handlers.sse import EventStream
from turnkeeper.adapters.handlers.verdicts import readable
from turnkeeper.adapters.handlers.wire import earlier
from turnkeeper.core.names import CONTENT_BYTES_MAX, check_json, dump_json
from turnkeeper.core.values import Json
from turnkeeper.errors import HandlerError, InvalidInputError, SettingsError
from turnkeeper.ports import Turn

DONE = "[DONE]"
REASON_TO_FINISH = "stop"


class ChatHandler:
    """Answers each turn with what a model says.

    base_url: up to and without "/chat/completions". api_key: sent as a bearer token if not empty. system_prompt: said
    first. temperature: left to the server if None. parameters: further fields of the request, as the server names them.
    timeout_seconds: the longest silence of the server. connect_seconds_max: how long it is tried to connect.
    history_limit: how many entries from before the turn the model is shown.
    Raises SettingsError for what can't be used.
    """

    def __init__(  # noqa: PLR0913 - plain values, by name: a record would only be unpacked again
        self,
        base_url: str,
        model: str,
        *,
        api_key: str = "",
        system_prompt: str = "",
        temperature: float | None = None,
        parameters: Mapping[str, Json] | None = None,
        timeout_seconds: float = 120.0,
        connect_seconds_max: float = 10.0,
        history_limit: int = 200,
    ) -> None:
        if not model:
            raise SettingsError("chat: the model's name is missing")
        self._url = checked_url(base_url, "chat").rstrip("/") + "/chat/completions"
        self._parameters: dict[str, Json] = {**(parameters or {}), "model": model, "stream": True}
        if temperature is not None:
            self._parameters["temperature"] = temperature
        try:
            check_json(self._parameters, "chat: the request's parameters")
        except InvalidInputError as error:
            raise SettingsError(str(error)) from error
        key = api_key.strip()
        headers = checked_headers({"Authorization": f"Bearer {key}"} if key else {}, "chat")
        self._caller = Caller(headers, timeout_seconds, connect_seconds_max)
        self._system_prompt = system_prompt
        self._history_limit = history_limit

    async def turn(self, turn: Turn) -> Json:
        """Ask the model; emit what it says as it says it, and answer with the whole."""
        history = await earlier(turn, self._history_limit)
        body = {**self._parameters, "messages": chat_messages(turn, history, self._system_prompt)}
        deltas = Deltas(turn)
        finish, failure = "", None
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(deltas.emit_all())
                try:
                    finish = await self._listen(json_bytes(body), deltas)
                except HandlerError as error:
                    # What was said until then has been seen to come, and is written before the run fails.
                    failure = error
                deltas.close()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        if failure is not None:
            raise failure
        answer: dict[str, Json] = {"role": "assistant", "content": deltas.whole}
        return answer if finish == REASON_TO_FINISH else {**answer, "finish_reason": finish}

    async def aclose(self) -> None:
        """Close the connections."""
        await self._caller.aclose()

    async def _listen(self, body: bytes, deltas: Deltas) -> str:
        """Take in what the model says, and return why it finished."""
        headers = {"Accept": "text/event-stream, application/json"}
        finish = ""
        async with self._caller.post(self._url, body, headers) as response:
            async for text in _documents(response):
                if text.strip() == DONE:
                    return finish or REASON_TO_FINISH
                said, finished = _read_chunk(text)
                deltas.add(said)
                finish = finished or finish
                if deltas.size > CONTENT_BYTES_MAX:
                    raise HandlerError(
                        f"the model said more than the {CONTENT_BYTES_MAX} bytes that an answer may have"
                    )
        if not finish:
            raise HandlerError(f"the stream of {self._url} was cut after {deltas.size} characters of the answer")
        return finish


def json_bytes(value: Json) -> bytes:
    """Return the body of a request."""
    return dump_json(value).encode("ascii")


async def _documents(response: httpx.Response) -> AsyncIterator[str]:
    """Return each JSON document of an answer: many in a stream, one from a server that does not stream."""
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        body = b""
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > LINE_BYTES_MAX:
                raise HandlerError(f"{response.url} answered with more than {LINE_BYTES_MAX} bytes")
        yield body.decode("utf-8", "replace")
        return
    if kind != "text/event-stream":
        raise HandlerError(f"{response.url} answered with {kind[:80]!a}, neither a stream of events nor JSON")
    stream = EventStream(LINE_BYTES_MAX)
    async for chunk in response.aiter_bytes():
        for text in stream.feed(chunk):
            yield text
    for text in stream.rest():
        yield text


def _read_chunk(text: str) -> tuple[str, str]:
    """Return what a piece says, and why the model finished if it did."""
    try:
        # Not `parse_json`: a piece may hold half a character, whose other half is in the next one.
        chunk: Json = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HandlerError(f"what the server sent is not JSON: {error}; it begins {text[:80]!a}") from error
    if not isinstance(chunk, Mapping):
        raise HandlerError(f"the server sent no object but {text[:80]!a}")
    if chunk.get("error"):
        raise HandlerError(f"the server reported an error: {_message(chunk['error'])}")
    choices = chunk.get("choices")
    # A piece without a choice carries figures of use; more than one choice was not asked for.
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, Mapping):
        return "", ""
    part = first.get("delta") or first.get("message")
    said = part.get("content") if isinstance(part, Mapping) else None
    finish = first.get("finish_reason")
    return (said if isinstance(said, str) else ""), (finish if isinstance(finish, str) else "")


def _message(error: Json) -> str:
    said = error.get("message") if isinstance(error, Mapping) else error
    return readable(str(said or error))

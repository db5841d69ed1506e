"""People who send: each message under one id until somebody has answered 2xx, one after the other."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import quote

import httpx

from tests.soak.conversations import Conversation
from tests.soak.processes import RunnerProcess
from tests.soak.waiting import CLOCK, pause

PATIENCE_SECONDS = 4.0
"""How long a client waits for one answer before it asks another runner."""

AGAIN_SECONDS = (0.05, 2.0)
"""First and longest pause before a message is sent again, doubled and jittered: hundreds of clients share a machine."""

TWICE = 0.05
"""Share of messages that are sent once more although they were accepted."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A message as the client knows it after the 2xx."""

    thread_id: str
    message_id: str
    sender: str
    content: object
    seq: int


@dataclass
class Clients:
    """All that send. Use as an async context manager.

    tried: what was sent at least once, by thread and id. faults: answers that no client should ever get. tries: what
    the attempts came to.
    """

    processes: Sequence[RunnerProcess]
    rng: random.Random
    accepted: list[Accepted] = field(default_factory=list)
    tried: set[tuple[str, str]] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    tries: Counter[str] = field(default_factory=Counter)
    _http: httpx.AsyncClient = field(init=False)

    async def __aenter__(self) -> Self:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=50)
        self._http = httpx.AsyncClient(trust_env=False, timeout=PATIENCE_SECONDS, limits=limits)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def replay(self, conversation: Conversation, began: float) -> None:
        """Send a conversation: each speaker in order, the two at once."""
        due, lines = began + conversation.begins_seconds, list[tuple[float, int]]()
        for number, line in enumerate(conversation.lines):
            due += line.gap_seconds
            lines.append((due, number))
        speakers = {line.sender for line in conversation.lines}
        async with asyncio.TaskGroup() as group:
            for speaker in speakers:
                own = [(due, number) for due, number in lines if conversation.lines[number].sender == speaker]
                group.create_task(self._speak(conversation, own))

    async def _speak(self, conversation: Conversation, own: list[tuple[float, int]]) -> None:
        for due, number in own:
            await pause(max(due - CLOCK.monotonic(), 0.0))
            line = conversation.lines[number]
            message_id = f"{conversation.thread_id}-{number}"
            await self._until_accepted(conversation.thread_id, message_id, line.sender, line.text)

    async def send(
        self, process: RunnerProcess, thread_id: str, message_id: str, content: object, sender: str = "tester"
    ) -> None:
        """Send one message to this very runner, which must accept it."""
        seq = await self._try(process, thread_id, message_id, sender, content)
        assert seq, f"{process.name} did not accept {message_id}: {self.tries}"
        self.accepted.append(Accepted(thread_id, message_id, sender, content, seq))

    async def _until_accepted(self, thread_id: str, message_id: str, sender: str, content: str) -> None:
        seq = 0
        again, longest = AGAIN_SECONDS
        while not seq:
            process = self.rng.choice(self.processes)
            seq = await self._try(process, thread_id, message_id, sender, content)
            if not seq:
                await pause(again * self.rng.uniform(0.5, 1.0))
                again = min(2 * again, longest)
        self.accepted.append(Accepted(thread_id, message_id, sender, content, seq))
        if self.rng.random() < TWICE:
            again = await self._try(self.rng.choice(self.processes), thread_id, message_id, sender, content)
            if again not in {0, seq}:
                self.faults.append(f"OneReceipt: {thread_id!a}: {message_id} has seq {seq}, and then {again}")

    async def _try(self, process: RunnerProcess, thread_id: str, message_id: str, sender: str, content: object) -> int:
        """Return the seq that was answered, or 0 where the answer was none that counts."""
        self.tried.add((thread_id, message_id))
        url = f"{process.url}/v1/threads/{quote(thread_id, safe='')}/messages"
        try:
            answer = await self._http.post(url, json={"message_id": message_id, "sender": sender, "content": content})
        except httpx.HTTPError as error:
            self.tries[type(error).__name__] += 1
            return 0
        self.tries[str(answer.status_code)] += 1
        if answer.is_success:
            seq: int = answer.json()["seq"]
            return seq
        if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
            self.faults.append(f"Refused: {thread_id!a}: {message_id} got {answer.status_code}: {answer.text[:300]}")
        return 0

"""A turn that lives in memory and writes down what its handler does: equipment for the tests of handlers.

It keeps the door `ports.Turn` and nothing more: no journal, no claims, no runner.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from turnkeeper.core.names import check_json
from turnkeeper.core.values import Entry, Json, Message, Question
from turnkeeper.core.words import Kind, Mode
from turnkeeper.errors import LostRunError


class RecordingTurn:
    """One run of one turn over lists."""

    def __init__(
        self,
        *prompts: Json,
        questions: tuple[Question, ...] = (),
        history: Sequence[Entry] = (),
        steps: dict[str, Json] | None = None,
        attempt: int = 1,
        first_seq: int = 1,
    ) -> None:
        self.workspace = "tests"
        self.thread_id = "thread/ä"
        self.run_id = "run-1"
        self.turn_id = "turn-1"
        self.attempt = attempt
        self.token = 7
        self.prompts = tuple(message(first_seq + number, content) for number, content in enumerate(prompts))
        self.questions = questions
        self.events: list[Json] = []
        self.steps = {} if steps is None else steps
        self.used: list[int] = []
        self.handed_out: list[int] = []
        self.is_lost = False
        self.history_limits: list[int] = []
        self._history = history
        self._waiting: list[Message] = []
        self._changed = asyncio.Event()

    async def emit(self, event: Json) -> None:
        if self.is_lost:
            raise LostRunError("the run is not this handler's any more")
        check_json(event, "an event")
        await asyncio.sleep(0)
        self.events.append(event)
        self._changed.set()

    async def step(self, name: str, effect: Callable[[], Awaitable[Json]]) -> Json:
        if name not in self.steps:
            value = await effect()
            check_json(value, f"the result of the step {name!a}")
            for _ in range(5):  # a journal takes a while, in which the run may be cancelled
                await asyncio.sleep(0)
            self.steps[name] = value
            self._changed.set()
        return self.steps[name]

    async def next_steer(self) -> Message:
        await self.until(lambda: bool(self._waiting))
        return self._hand_out(1)[0]

    def steering(self) -> tuple[Message, ...]:
        return self._hand_out(len(self._waiting))

    def use(self, message: Message) -> None:
        self.used.append(message.seq)
        self._changed.set()

    async def history(self, limit: int = 200) -> Sequence[Entry]:
        self.history_limits.append(limit)
        return self._history[-limit:]

    def steer(self, *contents: Json) -> None:
        """Let messages reach the run."""
        first = 100 + len(self.handed_out) + len(self._waiting)
        self._waiting += [message(first + number, content) for number, content in enumerate(contents)]
        self._changed.set()

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Return when something that the handler does makes it so."""
        while not is_so():
            self._changed.clear()
            await self._changed.wait()

    async def said(self, event: Json) -> None:
        """Return when the handler has emitted the event."""
        await self.until(lambda: event in self.events)

    def _hand_out(self, count: int) -> tuple[Message, ...]:
        handed, self._waiting = self._waiting[:count], self._waiting[count:]
        self.handed_out += [each.seq for each in handed]
        return tuple(handed)


def message(seq: int, content: Json) -> Message:
    """A message that somebody sent."""
    return Message(
        message_id=f"m{seq}", seq=seq, sender="ann", mode=Mode.STEER, digest="", created_ms=1_000 + seq, content=content
    )


def sent(seq: int, content: Json, kind: Kind = Kind.MESSAGE) -> Entry:
    """The entry of a message."""
    body = {"message_id": f"m{seq}", "sender": "ann", "mode": "steer", "content": content}
    return Entry(seq=seq, kind=kind, created_ms=1_000 + seq, body=body)


def ended(seq: int, outcome: str, answer: Json = None) -> Entry:
    """The entry of a run's end."""
    body: dict[str, Json] = {"outcome": outcome, "reason": "", "used": []}
    if outcome == "completed":
        body["answer"] = answer
    return Entry(seq=seq, kind=Kind.RUN_ENDED, created_ms=1_000 + seq, run_id=f"run-{seq}", token=1, body=body)

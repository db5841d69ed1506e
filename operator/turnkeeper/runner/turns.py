"""What a handler is given for one run: `LiveTurn`, the runner's side of `ports.Turn`."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn, TypeVar

from turnkeeper.core import ending
from turnkeeper.core.draft import PENDING_LOADED_MAX
from turnkeeper.core.ending import Recorded
from turnkeeper.core.names import check_id, check_json
from turnkeeper.core.trace import Decision
from turnkeeper.core.turn import Started, Superseded
from turnkeeper.core.values import Entry, Json, Message
from turnkeeper.errors import HandlerError, InvalidInputError, LostRunError
from turnkeeper.ports import Clock, Hints, Journal, Observer

T = TypeVar("T")

HISTORY_MAX = 1_000
"""Most entries of history in one call. Arbitrary: more than a model reads, little enough for memory."""


class LiveTurn:
    """See `ports.Turn`. `moved_seconds` is when the handler last did something that shows progress."""

    def __init__(
        self, workspace: str, started: Started, journal: Journal, hints: Hints, clock: Clock, observer: Observer
    ) -> None:
        self.workspace = workspace
        self.thread_id = started.thread.thread_id
        self.run_id = started.run.run_id
        self.turn_id = started.turn.turn_id
        self.attempt = started.run.attempt
        self.token = started.fence.token
        self.prompts = started.prompts
        self.questions = started.questions
        self.moved_seconds = clock.monotonic()
        self.offered_seq = 0
        self._started = started
        self._journal = journal
        self._hints = hints
        self._clock = clock
        self._observer = observer
        self._number = 0
        self._writing = asyncio.Lock()
        self._offered: deque[Message] = deque()
        self._offered_count = 0
        self._has_offered = asyncio.Event()
        self._handed_out_seq = 0
        self._used_seq = 0
        self._is_lost = False

    async def emit(self, event: Json) -> None:
        """See `ports.Turn`."""
        check_json(event, "event")
        async with self._writing:  # events are numbered, so a run writes one at a time
            self._check_held()
            # Counted before it is tried: the event after one whose answer was lost must not look like its repeat.
            number, self._number = self._number, self._number + 1
            act = ending.append(self.thread_id, self.run_id, self._started.fence, number, event, self._clock.wall_ms())
            self._still_held(await self._journal.transact(act))
        self._hints.tell(self.thread_id)

    async def step(self, name: str, effect: Callable[[], Awaitable[Json]]) -> Json:
        """See `ports.Turn`. Two steps of one turn must have different names."""
        check_id(name, "step name")
        self._check_held()
        found = self._still_held(
            await self._journal.transact(ending.find_step(self.thread_id, self.run_id, self._started.fence, name))
        )
        if isinstance(found, Recorded):
            return found.value
        value = await effect()
        try:
            check_json(value, f"the result of step {name!a}")
        except InvalidInputError as error:
            msg = f"{error}. Its effect is done and can't be recorded: return something that JSON can hold"
            raise HandlerError(msg) from error
        act = ending.record_step(self.thread_id, self.run_id, self._started.fence, name, value, self._clock.wall_ms())
        recorded = self._still_held(await self._journal.transact(act))
        self._hints.tell(self.thread_id)
        return recorded.value

    def _still_held(self, verdict: T | Superseded) -> T:
        self._moved()
        if isinstance(verdict, Superseded):
            self._lose()
        return verdict

    async def next_steer(self) -> Message:
        """See `ports.Turn`."""
        while not self._offered:
            self._has_offered.clear()
            await self._has_offered.wait()
        return self._hand_out()

    def steering(self) -> tuple[Message, ...]:
        """See `ports.Turn`."""
        return tuple(self._hand_out() for _ in range(len(self._offered)))

    def use(self, message: Message) -> None:
        """See `ports.Turn`."""
        self._used_seq = max(self._used_seq, min(message.seq, self._handed_out_seq))
        self._moved()

    async def history(self, limit: int = 200) -> Sequence[Entry]:
        """See `ports.Turn`."""
        before = self._started.run.started_seq
        return await self._journal.history(self.thread_id, before, min(limit, HISTORY_MAX))

    def offer(self, messages: Sequence[Message]) -> None:
        """Hand messages to the run, in the order in which they were accepted; each once.

        No more than the run's end can consume in its transaction: what is beyond starts the next turn.
        """
        offered_before = self.offered_seq
        for message in messages:
            if message.seq > self.offered_seq and self._offered_count < PENDING_LOADED_MAX:
                self.offered_seq = message.seq
                self._offered_count += 1
                self._offered.append(message)
        if self.offered_seq > offered_before:
            self._observer.decided(Decision.STEER, self.thread_id, self.offered_seq)
        self._has_offered.set()

    def used_seq(self, *, completed: bool) -> int:
        """Return up to where the steering is used: what was handed out if the run completed, else what was said so."""
        return self._handed_out_seq if completed else self._used_seq

    def lose(self) -> None:
        """Let every later write fail: the run is not this runner's any more."""
        self._is_lost = True

    def _hand_out(self) -> Message:
        message = self._offered.popleft()
        self._handed_out_seq = message.seq
        self._moved()
        return message

    def _check_held(self) -> None:
        if self._is_lost:
            self._lose()

    def _lose(self) -> NoReturn:
        self._is_lost = True
        msg = f"thread {self.thread_id!a}: run {self.run_id} is not this runner's any more; what it does counts no more"
        raise LostRunError(msg)

    def _moved(self) -> None:
        self.moved_seconds = self._clock.monotonic()

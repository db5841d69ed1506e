"""What people ask of the runners, and what the handler does for them; each message says what its turn is to do."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tests.sim.process import Life, Setting
from tests.sim.virtual import now, pause
from turnkeeper.adapters.memory import MemoryStore
from turnkeeper.core.cursor import NewMessage
from turnkeeper.core.parking import ParkedAction
from turnkeeper.core.values import Json
from turnkeeper.core.words import Ask, Mode, Resolution
from turnkeeper.errors import HandlerError, TurnkeeperError
from turnkeeper.ports import Asking, Pause, Turn

ANSWER_SECONDS = 4.0
"""How long a client waits for an answer before it asks another process. Arbitrary."""

OVER_SECONDS = 6.0
"""How long after people have ceased to ask the last message may still be sent. Arbitrary: until the faults are over."""

DEEDS = ("answer",) * 4 + (
    "sleep",
    "sleep",
    "long",
    "emit",
    "step",
    "fail",
    "pause",
    "approve",
    "steer",
    "die",
    "poison",
)

PLAIN_DEEDS = ("answer", "answer", "sleep", "long", "emit", "fail", "steer", "steer")
"""What the specification has: a run writes, is steered, and ends."""


class Place(Protocol):
    """What the workload sees of the simulation."""

    journal: MemoryStore
    is_calm: bool
    used: dict[str, Used]

    def say(self, who: str, what: str) -> None:
        """Write a line."""

    def up(self) -> list[Life]:
        """Return the lives that a request could be sent to."""


@dataclass
class Used:
    """What one run's handler has seen of its steering: the newest handed out, the newest said to be used."""

    handed_out: int = 0
    said: int = 0
    has_returned: bool = False

    @property
    def seq(self) -> int:
        """Up to where its messages may count as consumed."""
        return self.handed_out if self.has_returned else self.said


class Acting:
    """The handler: does what the newest of its prompts says."""

    def __init__(self, life: Life, place: Place, rng: random.Random) -> None:
        self._life = life
        self._place = place
        self._rng = rng

    async def turn(self, turn: Turn) -> Json | Pause:
        deed: Mapping[str, Any] = {"do": "answer"}
        for message in turn.prompts:
            assert isinstance(message.content, Mapping)
            deed = message.content
        if turn.questions and deed["do"] in {"pause", "approve"}:
            return "went on"
        used = self._place.used.setdefault(turn.run_id, Used())
        answer = await self._act(turn, str(deed["do"]), float(deed.get("seconds", 0.0)))
        used.has_returned = True
        return answer

    async def _act(self, turn: Turn, do: str, seconds: float) -> Json | Pause:
        clock = self._life.clock
        match do:
            case "sleep" | "long":
                await clock.sleep(0.1 if self._place.is_calm else seconds)
            case "emit":
                for number in range(4):
                    await turn.emit({"number": number})
                    await clock.sleep(seconds / 10)
            case "step":
                await turn.step("first", self._effect)
                await clock.sleep(seconds / 4)
                await turn.step("second", self._effect)
            case "fail":
                await clock.sleep(seconds / 10)
                raise HandlerError("as it was told")
            case "pause":
                return Pause((Asking(text="which?", question_id=f"q{turn.run_id[:8]}"),))
            case "approve":
                return Pause((Asking(text="may I?", ask=Ask.APPROVAL, timeout_seconds=2.0),))
            case "steer":
                await self._steer(turn, seconds)
            case "poison":
                await self._die(turn)
            case "die" if turn.attempt == 1:
                await self._die(turn)
        return f"done {do}"

    async def _die(self, turn: Turn) -> None:
        self._place.say(self._life.name, f"dies of {turn.thread_id}, attempt {turn.attempt}")
        self._life.die("is gone")
        await self._life.line.gate()

    async def _steer(self, turn: Turn, seconds: float) -> None:
        until = now() + seconds
        while now() < until and not self._place.is_calm:
            for message in turn.steering():
                used = self._place.used[turn.run_id]
                used.handed_out = message.seq
                if self._rng.random() < 0.5:
                    used.said = message.seq
                    turn.use(message)
            await self._life.clock.sleep(0.2)
        if self._rng.random() < 0.3:
            raise HandlerError("after it was steered")

    async def _effect(self) -> Json:
        await self._life.clock.sleep(0.05)
        return self._rng.randrange(1000)

    async def aclose(self) -> None:
        """Nothing is held."""


class People:
    """Senders who want each message accepted, and whoever answers, stops, retries and drops."""

    def __init__(self, place: Place, rng: random.Random, setting: Setting, until: float) -> None:
        self.accepted: dict[str, str] = {}  # message id -> thread id
        self._place = place
        self._rng = rng
        self._threads = [f"t{number}" for number in range(setting.threads)]
        self._deadly = setting.deadly
        self._plain = setting.plain
        self._until = until
        self._count = 0
        self._poisons = 0

    async def send_all(self, sender: str) -> None:
        """Send until the time is over; each message again and again until it is accepted."""
        while now() < self._until:
            # Now and then so long a pause is drawn that the sender would count as one that can't get its message in.
            await pause(min(self._rng.expovariate(1 / 2.0), self._until + OVER_SECONDS - now()))
            new, thread_id = self._message(sender), self._rng.choice(self._threads)
            draw = self._rng.random()
            if draw < 0.1:
                await asyncio.gather(self._deliver(thread_id, new), self._deliver(thread_id, new))
            elif draw < 0.3:  # several at once, most likely through several processes, who then race for the claim
                rush = [new, self._message(sender), self._message(sender)]
                await asyncio.gather(*(self._deliver(thread_id, each) for each in rush))
            else:
                await self._deliver(thread_id, new)

    def _message(self, sender: str) -> NewMessage:
        self._count += 1
        do = self._rng.choice(PLAIN_DEEDS if self._plain else DEEDS if self._deadly else DEEDS[:-2])
        if do == "poison":
            self._poisons += 1
            do = do if self._poisons == 1 else "answer"
        seconds = round(self._rng.uniform(0.0, 12.0 if do == "long" else 1.5), 3)
        mode = Mode.STEER if self._plain else self._rng.choice((Mode.STEER, Mode.STEER, Mode.QUEUE, Mode.NOTE))
        content: dict[str, Json] = {"do": do, "seconds": seconds}
        return NewMessage(message_id=f"m{self._count}", content=content, sender=sender, mode=mode)

    async def _deliver(self, thread_id: str, new: NewMessage) -> None:
        while True:
            sent = await self._ask(lambda life: life.runner.send(thread_id, new), f"sends {new.message_id} {thread_id}")
            if sent is not None:
                self.accepted[new.message_id] = thread_id
                return
            await pause(0.2)

    async def _ask(self, request: Any, what: str) -> Any:  # noqa: ANN401 - whatever the request answers
        """Ask some process; None where it refused, failed, or gave no answer in time."""
        lives = self._place.up()
        if not lives:
            return None
        life = self._rng.choice(lives)
        task = life.spawn(request(life))
        timer = asyncio.ensure_future(pause(ANSWER_SECONDS))
        await asyncio.wait((task, timer), return_when=asyncio.FIRST_COMPLETED)
        timer.cancel()
        if not task.done() or task.cancelled():
            self._place.say("people", f"{what} at {life.name}: no answer")
            task.add_done_callback(_forget)
            return None
        error = task.exception()
        if error is not None and not isinstance(error, TurnkeeperError):
            raise error
        answer = type(error).__name__ if error else getattr(task.result(), "outcome", "yes")
        self._place.say("people", f"{what} at {life.name}: {answer}")
        return None if error else task.result()

    async def meddle(self) -> None:
        """Answer questions, stop runs, retry and drop what was parked, as long as the simulation lasts."""
        while not self._plain:
            await pause(self._rng.expovariate(1 / 0.8))
            for thread_id, kept in sorted(self._place.journal.threads.items()):
                asked = [q for q in kept.questions.values() if q.resolution is Resolution.OPEN]
                if asked and (self._place.is_calm or self._rng.random() < 0.4):
                    free = asked[0].ask is Ask.FREE
                    verdict = Resolution.ANSWERED if free else Resolution.APPROVED
                    await self._answer(thread_id, asked[0].question_id, verdict, "this" if free else None)
                if kept.thread.run is not None and not self._place.is_calm and self._rng.random() < 0.05:
                    await self._stop(kept.thread.run.run_id)
                parked = [p for p in kept.parked.values() if not p.resolved]
                if parked and not self._place.is_calm and self._rng.random() < 0.3:
                    action = self._rng.choice((ParkedAction.RETRY, ParkedAction.DROP))
                    await self._resolve(thread_id, parked[0].seq, action)

    async def _answer(self, thread_id: str, question_id: str, verdict: Resolution, value: Json) -> None:
        await self._ask(lambda life: life.runner.answer(thread_id, question_id, verdict, value), f"answers {thread_id}")

    async def _stop(self, run_id: str) -> None:
        await self._ask(lambda life: life.runner.stop(run_id), f"stops {run_id[:6]}")

    async def _resolve(self, thread_id: str, seq: int, action: ParkedAction) -> None:
        await self._ask(lambda life: life.runner.resolve_parked(thread_id, seq, action), f"{action} {thread_id}")


def _forget(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()

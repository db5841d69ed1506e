"""What many tests hand to a runner: an observer that counts, and a handler that runs the test's own function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from turnkeeper.core.trace import Decision
from turnkeeper.core.values import Json
from turnkeeper.ports import Pause, Turn

Script = Callable[[Turn], Awaitable[Json | Pause]]


@dataclass
class Counting:
    """An observer that counts, for tests to look at."""

    acts: Counter[tuple[str, str]] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    looks: Counter[str] = field(default_factory=Counter)
    renewals: Counter[str] = field(default_factory=Counter)
    notices: Counter[str] = field(default_factory=Counter)

    def acted(self, action: str, thread_id: str, verdict: str, seconds: float) -> None:
        del thread_id, seconds
        self.acts[action, verdict] += 1

    def decided(self, decision: Decision, thread_id: str, seq: int = 0) -> None:
        """See `ports.Observer`."""

    def turn_ended(self, outcome: str, seconds: float) -> None:
        del seconds
        self.ends[outcome] += 1

    def looked(self, result: str) -> None:
        self.looks[result] += 1

    def noticed(self, result: str) -> None:
        self.notices[result] += 1

    def renewed(self, result: str, seconds: float) -> None:
        del seconds
        self.renewals[result] += 1


class Scripted:
    """A handler that runs the test's own coroutine function."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.turns: list[Turn] = []

    async def turn(self, turn: Turn) -> Json | Pause:
        self.turns.append(turn)
        return await self.script(turn)

    async def aclose(self) -> None:
        """Nothing is held."""

"""Runners over one store, in virtual time: what a cluster would be, with every wait in the test's hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tests.stand_ins import Counting, Script, Scripted
from turnkeeper.adapters.memory import MemoryClaims, MemoryJournal, MemoryStore
from turnkeeper.adapters.polling_hints import PollingHints
from turnkeeper.adapters.two_step import TwoStepTaking
from turnkeeper.core.cursor import NewMessage
from turnkeeper.core.values import Entry, Json
from turnkeeper.core.words import Kind, Mode
from turnkeeper.ports import Hints, Peers, Turn
from turnkeeper.runner.drive import Tools
from turnkeeper.runner.options import RunnerOptions
from turnkeeper.runner.requests import Sent
from turnkeeper.runner.service import Runner
from turnkeeper.runner.session import LoopRenewals

pytestmark = pytest.mark.looptime  # every wait here is one of virtual time

TTL = 30.0
POLL = 0.05
TICK = 1e-6
"""The resolution of virtual time."""
WORKSPACE = "test"


class LoopClock:
    """The loop's own time, which the tests' plugin makes virtual."""

    def __init__(self, wall_ms: int = 1_000_000) -> None:
        self._wall_ms = wall_ms

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def wall_ms(self) -> int:
        return self._wall_ms + int(self.monotonic() * 1000)

    async def sleep(self, seconds: float) -> None:
        # A timer may fire a nanosecond early, and what is left is too little to move virtual time: sleep a whole tick.
        await asyncio.sleep(max(seconds, TICK) if seconds > 0 else seconds)


async def echo(turn: Turn) -> Json:
    """Answer with what was asked."""
    return [message.content for message in turn.prompts]


class Dying(MemoryClaims):
    """The claims of a process that may die: dead, it renews and removes nothing, as if it were not there."""

    is_dead = False

    async def close_session(self, session: str) -> None:
        if not self.is_dead:
            await super().close_session(session)


class Process:
    """One runner and its own adapters on the shared store."""

    def __init__(
        self,
        store: MemoryStore,
        script: Script,
        options: RunnerOptions,
        peers: Peers | None = None,
        hints: Hints | None = None,
    ) -> None:
        self.observer = Counting()
        self.clock = LoopClock()
        self.journal = MemoryJournal(WORKSPACE, store, self.observer)
        self.claims = Dying(WORKSPACE, store)
        self.handler = Scripted(script)
        self.taking = TwoStepTaking(self.journal, self.claims, self.clock)
        self.tools = Tools(
            workspace=WORKSPACE,
            journal=self.journal,
            taking=self.taking,
            hints=hints or PollingHints(self.journal, self.clock),
            clock=self.clock,
            handler=self.handler,
            observer=self.observer,
            options=options,
            peers=peers,
        )
        self.runner = Runner(self.tools, self.claims, LoopRenewals(self.claims))

    async def kill(self) -> None:
        """Let the process be gone from one moment to the next: no end recorded, nothing released."""
        self.claims.is_dead = True
        for drive in self.runner._taker.drives.values():
            drive.cut = lambda cause: None  # type: ignore[method-assign] # noqa: ARG005 - a dead process decides nothing
        runner = self.runner
        runner._taker.is_taking = False
        await runner._timers.aclose()
        tasks = [*runner._tasks, *runner._taker._tasks, *runner._keeper._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await runner._keeper._host.aclose()


@dataclass
class World:
    """The store, and the processes on it that are to be closed at the end."""

    store: MemoryStore = field(default_factory=MemoryStore)
    processes: list[Process] = field(default_factory=list)

    async def start(
        self,
        script: Script = echo,
        name: str = "",
        peers: Peers | None = None,
        hints: Hints | None = None,
        **options: object,
    ) -> Process:
        """Start a process; options of the runner are given by name. hints: another process's, to hear of its news."""
        name = name or f"runner-{len(self.processes)}"
        process = Process(self.store, script, RunnerOptions(runner=name, **options), peers, hints)  # type: ignore[arg-type] # options are given by their names
        self.processes.append(process)
        await process.runner.start()
        return process

    async def send(self, process: Process, thread_id: str, content: Json, mode: Mode = Mode.STEER) -> Sent:
        """Send a message under an id made from its place."""
        kept = self.store.threads.get(thread_id)
        message_id = f"m{len(kept.messages) if kept else 0}"
        return await process.runner.send(thread_id, NewMessage(message_id=message_id, content=content, mode=mode))

    def entries(self, thread_id: str, kind: Kind) -> list[Entry]:
        """The thread's entries of a kind."""
        kept = self.store.threads.get(thread_id)
        return [entry for entry in kept.entries if entry.kind is kind] if kept else []

    def outcomes(self, thread_id: str) -> list[object]:
        """How the thread's runs ended, in order."""
        return [entry.body["outcome"] for entry in self.entries(thread_id, Kind.RUN_ENDED)]

    def answers(self, thread_id: str) -> list[object]:
        """What the thread's completed runs answered."""
        return [entry.body["answer"] for entry in self.entries(thread_id, Kind.RUN_ENDED) if "answer" in entry.body]

    async def until(self, condition: Callable[[], bool], seconds: float = 600.0) -> float:
        """Wait in virtual time until the condition holds, and return how long that took."""
        began = asyncio.get_running_loop().time()
        while not condition():
            elapsed = asyncio.get_running_loop().time() - began
            assert elapsed < seconds, f"it did not come true in {seconds} s"
            await asyncio.sleep(POLL)
        return asyncio.get_running_loop().time() - began

    async def idle(self, thread_id: str) -> float:
        """Wait until nothing is owed to the thread and no claim of it stands."""

        def is_idle() -> bool:
            kept = self.store.threads.get(thread_id)
            is_free = thread_id not in self.store.claims
            return kept is not None and kept.thread.run is None and not kept.thread.is_owed and is_free

        return await self.until(is_idle)

    async def idle_after_pause(self, thread_id: str) -> float:
        """Wait until the thread's questions are resolved and nothing is owed to it."""
        elapsed = await self.until(lambda: self.store.threads[thread_id].thread.open_questions == 0)
        return elapsed + await self.idle(thread_id)

    async def aclose(self) -> None:
        """Close every process that still lives."""
        for process in self.processes:
            if not process.claims.is_dead:
                await process.runner.aclose()
                await process.taking.aclose()

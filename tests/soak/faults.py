"""What is done to the runners: kills and freezes at random, and some ends that each try one guard alone."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.soak.books import Books, locked
from tests.soak.clients import Clients
from tests.soak.processes import RunnerProcess
from tests.soak.waiting import pause, until

EVERY_SECONDS = 2.0
FREEZES = 0.3
"""Share of the faults that freeze a process instead of killing it."""

DOWN_SECONDS = 1.0
"""Longest time until a killed process is started again."""

FROZEN_TTLS = (1.1, 2.0)
"""How long a freeze lasts: always past the session's end."""

SELDOM = ("--recover-interval", "3600")
"""For a life in which the sweep at its start is the only one."""

HELD_THREADS = 6
HELD_SECONDS = 30.0
"""How long the first attempt of a turn lasts that a fault must meet in its midst."""

AGAIN_SECONDS = 4.0
"""And the second, where the first one's writer is to come back amid it."""

LOCKED_SECONDS = 0.3
"""How long the journal is locked before a freeze: the holder writes some events a second, and they wait then."""


@dataclass
class Faults:
    """What was done, and to whom."""

    processes: Sequence[RunnerProcess]
    clients: Clients
    books: Books
    url: str
    claim_ttl_seconds: float
    rng: random.Random
    done: Counter[str] = field(default_factory=Counter)

    async def disturb(self) -> None:
        """Kill or freeze one process after the other until cancelled, and bring each back."""
        async with asyncio.TaskGroup() as group:
            while True:
                await pause(EVERY_SECONDS * self.rng.uniform(0.8, 1.2))
                whole = [process for process in self.processes if process.is_ready and not process.is_frozen]
                if not whole:  # on a busy machine starts take longer than the time between two faults
                    continue
                process = self.rng.choice(whole)
                if self.rng.random() < FREEZES and not any(process.is_frozen for process in self.processes):
                    group.create_task(self._freeze(process, self.rng.uniform(*FROZEN_TTLS)))
                else:
                    group.create_task(self._kill(process, self.rng.uniform(0.0, DOWN_SECONDS)))

    async def _kill(self, process: RunnerProcess, down_seconds: float) -> None:
        self.done["kills"] += 1
        await asyncio.to_thread(process.kill)
        await pause(down_seconds)
        await asyncio.to_thread(process.start)
        await process.ready()

    async def _freeze(self, process: RunnerProcess, ttls: float) -> None:
        self.done["freezes"] += 1
        process.freeze()
        try:
            await pause(ttls * self.claim_ttl_seconds)
        finally:
            process.thaw()

    async def revive(self, *flags: str) -> None:
        """Kill every process and begin a new life of each, once the old ones' sessions are gone."""
        for process in self.processes:
            process.thaw()
            process.kill()
        for process in self.processes:
            process.start(*flags)
        await asyncio.gather(*(process.ready() for process in self.processes))

    async def freeze_a_writer(self, name: str) -> None:
        """Freeze a runner while its writes wait for a lock, until others have its threads: the fence's hole."""
        holder, *_ = self.processes
        await self.revive()
        thread_ids, session = await self._hold(holder, name, again_seconds=AGAIN_SECONDS)
        async with locked(self.url, thread_ids):
            await pause(LOCKED_SECONDS)
            self.done["freezes"] += 1
            holder.freeze()

        try:
            await self._moved(thread_ids, session)
        finally:
            holder.thaw()

    async def bury_alive(self, name: str) -> None:
        """Declare a runner dead that is alive and writing: it hears of it later than its successors do."""
        holder, *_ = self.processes
        await self.revive()
        thread_ids, session = await self._hold(holder, name, again_seconds=AGAIN_SECONDS)
        self.done["wrong notices"] += 1
        await self.books.end_session(session)
        await self._moved(thread_ids, session)

    async def kill_with_one_waiting(self, name: str) -> None:
        """Kill a runner whose threads another was refused, and start nobody: the look's hole."""
        holder, other, _ = self.processes
        await self.revive(*SELDOM)
        await self._gone([])
        thread_ids, _ = await self._hold(holder, name)
        for number, thread_id in enumerate(thread_ids):
            await self.clients.send(other, thread_id, f"{name}-waits-{number}", {"hold_seconds": 0.1})
        self.done["kills"] += 1
        holder.kill()

    async def kill_all_alone(self, name: str) -> None:
        """Let the only runner die, and the next as soon as it has declared that one dead: the sweep's hole."""
        first, second, third = self.processes
        for process in self.processes:
            process.kill()
        await self._gone([])
        first.start(*SELDOM)
        await first.ready()
        _, session = await self._hold(first, name)
        self.done["kills"] += 2
        first.kill()
        second.start(*SELDOM, "--max-turns", "1")
        await second.ready()

        async def is_declared_dead() -> bool:
            return session not in await self.books.runners()

        await until(is_declared_dead, "the first runner is declared dead")
        second.kill()
        third.start(*SELDOM)
        await third.ready()

    async def _hold(self, holder: RunnerProcess, name: str, again_seconds: float = 0.0) -> tuple[list[str], str]:
        """Have a runner in the midst of some turns; return their threads and its session.

        Another's backlog may have taken a few.
        """
        thread_ids = [f"{name}-{number}" for number in range(HELD_THREADS)]
        holds = {"hold_seconds": HELD_SECONDS, "again_seconds": again_seconds}
        sending = (self.clients.send(holder, thread_id, f"{thread_id}-holds", holds) for thread_id in thread_ids)
        await asyncio.gather(*sending)

        async def held() -> tuple[list[str], str] | None:
            for session in await self.books.sessions_of(holder.pid):
                ran = set(await self.books.ran_by(session)) & set(thread_ids)
                ran = {thread_id for thread_id in ran if await self._is_amid(thread_id)}
                if len(ran) >= HELD_THREADS // 2:
                    return sorted(ran), session
            return None

        found = await until(held, f"{holder.name} runs turns of {name}")
        assert found is not None
        return found

    async def _is_amid(self, thread_id: str) -> bool:
        thread = await self.books.thread(thread_id)
        return thread is not None and thread.run is not None and thread.run.events > 1

    async def _moved(self, thread_ids: list[str], session: str) -> None:
        async def have_moved() -> bool:
            threads = [await self.books.thread(thread_id) for thread_id in thread_ids]
            return all(thread is not None and thread.session != session for thread in threads)

        await until(have_moved, "others took its threads over", seconds=60.0)

    async def _gone(self, pids: list[int]) -> None:
        """Wait until no session exists but those of living processes and of these."""

        async def is_gone() -> bool:
            alive = {f"-{pid}" for pid in pids} | {f"-{each.pid}" for each in self.processes if each.is_alive}
            return all(any(runner.endswith(end) for end in alive) for runner in (await self.books.runners()).values())

        if any(process.is_alive for process in self.processes):
            await until(is_gone, "the sessions of the dead are gone")

"""A machine with its own clock, on which one life of a runner follows another."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.sim.network import Bus, Door, NetworkHints, NetworkPeers, Reception
from tests.sim.teller import Told, TracedClaims, TracedJournal
from tests.sim.trace import Trace
from tests.sim.virtual import now, pause
from tests.sim.wires import Line, WiredClaims, WiredJournal
from turnkeeper.adapters.memory import MemoryClaims, MemoryJournal, MemoryStore
from turnkeeper.adapters.polling_hints import PollingHints
from turnkeeper.adapters.sql_taking import SqlTaking
from turnkeeper.adapters.two_step import TwoStepTaking
from turnkeeper.core.trace import Decision
from turnkeeper.errors import TurnkeeperError
from turnkeeper.ports import Handler
from turnkeeper.runner.drive import Tools
from turnkeeper.runner.options import RunnerOptions
from turnkeeper.runner.service import Runner
from turnkeeper.runner.session import LoopRenewals

WORKSPACE = "sim"
TTL_SECONDS = 3.0
SWEEP_SECONDS = 2.0
RESTART_SECONDS = 0.3
"""Between two tries to start where the stores can't be reached. Arbitrary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a seed chooses once: how many processes, which way of taking, and whether sweeps come on a schedule."""

    processes: int
    threads: int
    fused: bool
    scheduled: bool
    max_turns: int
    deadly: bool = True  # whether turns may take their process with them
    plain: bool = False  # whether people and turns do only what the specification has
    noticing: bool = False  # whether processes hold connections to each other
    hinting: bool = False  # whether they tell each other of news, and somebody reads along


class Recorder(Protocol):
    """Where what happened is written down."""

    def say(self, who: str, what: str) -> None:
        """Write a line."""


class Network:
    """What runs from process to process."""

    def __init__(self, seed: int, setting: Setting) -> None:
        self.rng = random.Random(f"network {seed}")
        self.doors: defaultdict[str, Door] = defaultdict(Door)
        self.bus = Bus([f"t{number}" for number in range(setting.threads)])


@dataclass
class Machine:
    """Where lives of one runner follow one another. rate: its seconds to a true one; wall_ms: how wrong its wall is."""

    number: int
    rate: float
    wall_ms_off: int
    network: Network
    life: Life | None = None

    @property
    def name(self) -> str:
        return f"r{self.number}"


class SimClock:
    """A machine's clock: its monotonic one runs too fast or too slow, its wall clock is wrong and jumps."""

    def __init__(self, machine: Machine, line: Line) -> None:
        self._machine = machine
        self._line = line

    def monotonic(self) -> float:
        return 1_000.0 * self._machine.number + now() * self._machine.rate

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self._machine.wall_ms_off + int(now() * 1000)

    async def sleep(self, seconds: float) -> None:
        await self._line.gate()
        await pause(max(seconds, 0.0) / self._machine.rate)
        await self._line.gate()


class Noting:
    """An observer that writes a line for each thing it is told."""

    def __init__(self, who: str, recorder: Recorder, told: Told | None) -> None:
        self._told = told
        self._who = who
        self._recorder = recorder

    def acted(self, action: str, thread_id: str, verdict: str, seconds: float) -> None:
        del seconds
        if action != "find_step":
            self._recorder.say(self._who, f"{action} {thread_id}: {verdict}")

    def decided(self, decision: Decision, thread_id: str, seq: int = 0) -> None:
        if self._told is not None:
            self._told.decided(decision, thread_id, seq)

    def turn_ended(self, outcome: str, seconds: float) -> None:
        self._recorder.say(self._who, f"turn ended {outcome} after {seconds:.3f}")

    def looked(self, result: str) -> None:
        self._recorder.say(self._who, f"looked: {result}")

    def noticed(self, result: str) -> None:
        self._recorder.say(self._who, f"noticed: {result}")

    def renewed(self, result: str, seconds: float) -> None:
        del seconds
        if result != "SessionRecord":
            self._recorder.say(self._who, f"renewed: {result}")


@dataclass
class Stores:
    """What all processes share: one store, or the claims apart from the journal."""

    journal: MemoryStore = field(default_factory=MemoryStore)
    claims: MemoryStore = field(default_factory=MemoryStore)


class Life:
    """One life of a runner: its line, its adapters, the runner itself."""

    def __init__(
        self,
        machine: Machine,
        number: int,
        stores: Stores,
        setting: Setting,
        line: Line,
        recorder: Recorder,
        handler: Callable[[Life], Handler],
        trace: Trace | None = None,
    ) -> None:
        self.machine = machine
        self.name = f"{machine.name}.{number}"
        self.line = line
        self.recorder = recorder
        self.is_started = False
        self.gone = asyncio.Event()
        self.reception = Reception(machine.network.rng)
        clock = SimClock(machine, line)
        self.told = Told(trace, machine.name, line) if trace is not None else None
        observer = Noting(self.name, recorder, self.told)
        self.clock = clock
        memory, claims = _at_the_stores(stores, observer, self.told, fused=setting.fused)
        self.journal = WiredJournal(memory, line)
        self.claims = WiredClaims(claims, line)
        self.two_step = None if setting.fused else TwoStepTaking(self.journal, self.claims, clock)
        options = RunnerOptions(
            runner=machine.name,
            claim_ttl_seconds=TTL_SECONDS,
            sweep_interval_seconds=SWEEP_SECONDS if setting.scheduled else None,
            cancel_grace_seconds=0.5,
            max_turns=setting.max_turns,
            turn_timeout_seconds=30.0,
        )
        tools = Tools(
            workspace=WORKSPACE,
            journal=self.journal,
            taking=self.two_step or SqlTaking(self.journal, self.claims),
            hints=self._hints(machine.network) if setting.hinting else PollingHints(self.journal, clock),
            clock=clock,
            handler=handler(self),
            observer=observer,
            options=options,
            peers=self._peers(machine.network) if setting.noticing else None,
        )
        self.runner = Runner(tools, self.claims, LoopRenewals(self.claims))

    def _hints(self, network: Network) -> NetworkHints:
        bus = network.bus
        return NetworkHints(self.journal, self.clock, WORKSPACE, lambda: bus.connect(self.line, self.reception))

    def _peers(self, network: Network) -> NetworkPeers:
        return NetworkPeers(network.doors, self.machine.name, self.line, self.reception, self._noticed)

    def _noticed(self, session: str) -> None:
        self.recorder.say(self.name, f"is told that {session[:6]} is gone")
        if self.told is not None:
            self.told.noticed.add(session)

    @property
    def is_up(self) -> bool:
        """Whether a request could be sent here."""
        return self.is_started and not self.line.is_dead

    async def start(self) -> None:
        """Start, again and again where the stores can't be reached: as whoever watches over a container does."""
        while True:
            try:
                await self.runner.start()
            except TurnkeeperError as error:
                self.recorder.say(self.name, f"does not start: {error}")
                await self.clock.sleep(RESTART_SECONDS)
            else:
                self.is_started = True
                if self.told is not None:
                    self.told.is_started = True
                self.recorder.say(self.name, f"starts with session {self.runner._keeper.session[:6]}")
                return

    async def stop(self) -> None:
        """Stop in order, and be gone."""
        self.is_started = False
        await self.runner.drain(1.0)
        if self.told is not None:
            self.told.is_stopping = True
        await self.runner.aclose()
        if self.two_step is not None:
            await self.two_step.aclose()
        self.die("has stopped")

    def die(self, why: str) -> None:
        """Be gone from this moment: nothing more is heard or sent."""
        if not self.line.is_dead:
            self.recorder.say(self.name, why)
            self.line.is_dead = True
            self.gone.set()
            self.machine.network.doors[self.machine.name].show("")

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Begin a request in this process."""
        return asyncio.get_running_loop().create_task(work)


def _at_the_stores(
    stores: Stores, observer: Noting, told: Told | None, *, fused: bool
) -> tuple[MemoryJournal, MemoryClaims]:
    if told is None:
        journal = MemoryJournal(WORKSPACE, stores.journal, observer, fused=fused)
        return journal, MemoryClaims(WORKSPACE, stores.claims)
    traced = TracedJournal(WORKSPACE, stores.journal, observer, fused=fused)
    traced.told = told
    claims = TracedClaims(WORKSPACE, stores.claims)
    claims.told = told
    return traced, claims


def machines(rng: random.Random, count: int, network: Network) -> list[Machine]:
    """Draw machines whose clocks are wrong in their own ways."""
    return [Machine(number, rng.uniform(0.95, 1.05), int(rng.gauss(0, 600_000)), network) for number in range(count)]

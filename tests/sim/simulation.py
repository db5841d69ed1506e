"""One simulation: a seed gives the setting, the faults and all chance; what comes out is a log and what was wrong."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.sim.checks import Checks, Watching, watched_stores
from tests.sim.faults import (
    AIMED,
    ASKING_SECONDS,
    FAULTS_SECONDS,
    OF_HINTS,
    OF_NOTICES,
    WINDOWS,
    Fault,
    Harm,
    plan,
    plan_news,
)
from tests.sim.process import SWEEP_SECONDS, TTL_SECONDS, Life, Machine, Network, Setting, machines
from tests.sim.readers import Reader
from tests.sim.trace import Trace
from tests.sim.virtual import VirtualLoop, now, pause, seeded
from tests.sim.wires import Aim, Line
from tests.sim.workload import Acting, People, Used
from turnkeeper.adapters.memory import MemoryStore

CHECK_SECONDS = 3.0
"""Between two looks at the invariants while faults go on. Arbitrary: cheap, and no breach ever goes away by itself."""

REST_POLL_SECONDS = 0.25
SENDERS = 3

TRACED_SECONDS = 1.0
"""How long a trace goes on at rest, so that the reads which follow the last releases are in it. Arbitrary."""

DRIFT = 1.2
"""How much later than stated all may be: the clocks' drift of 5 %, and jitter of 10 %."""

SLACK_SECONDS = 12.0
"""For retries that were waiting their longest pause (5 s) when the faults ended, and for the turns themselves."""

DEATH_SECONDS = 2 * TTL_SECONDS + SWEEP_SECONDS + 4.0
"""What one more death of a poisoned turn adds: its takeover, the gap, and a run apart."""

DEATHS_MAX = 6
"""Deaths of one turn: three that are charged, those of crowds before them, and one of a run that had lost its claim."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a seed."""

    seed: int
    setting: Setting
    faults: tuple[Fault, ...]
    breaches: tuple[str, ...]
    log: tuple[str, ...]
    rest_seconds: float


class Simulation:
    """See the module."""

    def __init__(self, seed: int, setting: Setting, faults: Sequence[Fault], trace: Trace | None = None) -> None:
        self.is_calm = False
        self.is_over = False
        self.lines: list[str] = []
        self.deaths = 0
        self.used: dict[str, Used] = {}
        self._rng = random.Random(f"lives {seed}")
        self._wire_rng = random.Random(f"wires {seed}")
        self._act_rng = random.Random(f"handlers {seed}")
        self._setting = setting
        self._faults = faults
        self._trace = trace
        self._watching = Watching()
        if trace is not None:
            self._watching.on_gone = trace.session_gone
        self._stores = watched_stores(self._watching, fused=setting.fused)
        self.journal = self._stores.journal
        self._network = Network(seed, setting)
        self._machines = machines(random.Random(f"machines {seed}"), setting.processes, self._network)
        self._births = [0] * setting.processes
        self.people = People(self, random.Random(f"people {seed}"), setting, ASKING_SECONDS)
        read = range(setting.threads) if setting.hinting else ()
        self.readers = [Reader(self, random.Random(f"reader {number} {seed}"), f"t{number}") for number in read]

    def say(self, who: str, what: str) -> None:
        """Write a line of the log."""
        self.lines.append(f"{now():9.4f} {who:6} {what}")

    def claims_store(self) -> MemoryStore:
        """Return where the sessions and claims are."""
        return self._stores.claims

    def up(self) -> list[Life]:
        """Return the lives that a request could be sent to."""
        return [machine.life for machine in self._machines if machine.life is not None and machine.life.is_up]

    async def run(self) -> tuple[list[str], float]:
        """Run to the end; return the breaches and how long it took to come to rest."""
        loop = asyncio.get_running_loop()
        checks = Checks(self._stores, self._watching, self.used)
        keeping = [loop.create_task(self._keep(machine)) for machine in self._machines]
        senders = [loop.create_task(self.people.send_all(f"s{number}")) for number in range(SENDERS)]
        others = [loop.create_task(self.people.meddle()), loop.create_task(self._harm_all())]
        others += [loop.create_task(reader.read()) for reader in self.readers]
        while now() < FAULTS_SECONDS:
            await pause(CHECK_SECONDS)
            if found := checks.always() + [breach for reader in self.readers for breach in reader.breaches]:
                return found, 0.0
        self.is_calm = True
        self.say("world", "is calm")
        found, seconds = await self._rest(checks, senders)
        if self._trace is not None:
            await pause(TRACED_SECONDS)
        found += [f"Simulation: {task.exception()!r}" for task in (*keeping, *others) if _failed(task)]
        return found, seconds

    async def _rest(self, checks: Checks, senders: list[asyncio.Task[None]]) -> tuple[list[str], float]:
        began, deaths = now(), self.deaths
        while True:
            sweep = SWEEP_SECONDS if self._setting.scheduled else 0.0
            bound = DRIFT * (TTL_SECONDS + sweep) + SLACK_SECONDS
            bound += min(self.deaths - deaths, DEATHS_MAX) * DEATH_SECONDS
            await pause(REST_POLL_SECONDS)
            restless = checks.unrest(self.up())
            restless += [f"{task.get_name()} still sends" for task in senders if not task.done()]
            restless += [what for reader in self.readers for what in reader.left()]
            if not restless:
                return [*checks.always(), *checks.at_rest(self.people.accepted)], now() - began
            if now() - began > bound:
                found = [f"Quiet: after {bound:.1f} s: {what}" for what in restless]
                return [*found, *checks.always()], now() - began

    async def _keep(self, machine: Machine) -> None:
        """Begin a life after each that ended, as long as the simulation lasts."""
        await pause(self._rng.uniform(0.0, 0.5))
        while True:
            life = self._bear(machine)
            task = asyncio.get_running_loop().create_task(life.start())
            while not life.line.is_dead:
                await pause(0.05)
                if task.done() and not task.cancelled():
                    task.result()
            self.deaths += 1
            down = 0.2 if self.is_calm else max(self._down.pop(machine.number, 0.0), self._rng.uniform(0.2, 1.0))
            await pause(down)

    _down: dict[int, float]

    def _bear(self, machine: Machine) -> Life:
        self._births[machine.number] += 1
        line = Line(self._wire_rng, lambda: self.is_over)
        machine.life = Life(
            machine,
            self._births[machine.number],
            self._stores,
            self._setting,
            line,
            self,
            lambda life: Acting(life, self, self._act_rng),
            self._trace,
        )
        return machine.life

    async def _harm_all(self) -> None:
        self._down = {}
        for fault in self._faults:
            await pause(max(fault.at - now(), 0.0))
            self.say("fault", f"{fault.harm} {fault.target} {fault.seconds} {fault.share} {fault.call} {fault.number}")
            await self._harm(fault)

    async def _harm(self, fault: Fault) -> None:
        machine = self._machines[fault.target % len(self._machines)]
        life = machine.life
        if fault.harm is Harm.ALL_GONE:
            self._all_gone(fault)
        elif fault.harm in {Harm.CLAIM_DELETED, Harm.CLAIM_PUT_BACK}:
            self._meddle_with_claim(fault)
        elif fault.harm is Harm.CLOCK_STEP:
            machine.wall_ms_off += int(fault.seconds * 1000)
        elif life is None or life.line.is_dead:
            return
        elif fault.call:
            life.line.aims.append(Aim(fault, fault.number, lambda: self._strike(fault, machine, life)))
        elif fault.harm in WINDOWS:
            life.line.windows.append(replace(fault, at=now()))
        elif fault.harm in {*OF_NOTICES, *OF_HINTS}:
            self._spoil_news(fault, machine, life)
        elif fault.harm in AIMED:
            self._strike(fault, machine, life)
        elif fault.harm is Harm.DRAIN and life.is_started:
            life.spawn(life.stop())
        elif fault.harm is Harm.SESSION_DELETED:
            self._stores.claims.sessions.pop(life.runner._keeper._session, None)

    def _strike(self, fault: Fault, machine: Machine, life: Life) -> None:
        if fault.call:
            self.say("fault", f"{fault.harm} strikes {life.name} at {fault.call}")
        if fault.harm is Harm.FREEZE:
            life.line.frozen_until = now() + fault.seconds
        elif fault.harm is Harm.CRASH:
            self._down[machine.number] = fault.seconds
            life.die("crashes")

    def _spoil_news(self, fault: Fault, machine: Machine, life: Life) -> None:
        if fault.harm is Harm.NOTICE_WRONG:
            self._network.doors[machine.name].slander()
            return
        life.reception.windows.append(replace(fault, at=now()))
        if fault.harm is Harm.DEAF and fault.share == 1:
            self._network.bus.break_off(life.reception)

    def _all_gone(self, fault: Fault) -> None:
        for machine in self._machines:
            self._down[machine.number] = fault.seconds
            if machine.life is not None:
                machine.life.die("crashes with all others")
        if fault.share:
            for session in list(self._stores.claims.sessions):
                self._stores.claims.sessions.pop(session, None)

    def _meddle_with_claim(self, fault: Fault) -> None:
        thread_id = f"t{fault.target % self._setting.threads}"
        seen = self._watching.seen[thread_id]
        if fault.harm is Harm.CLAIM_DELETED:
            was_there = self._stores.claims.claims.pop(thread_id, None) is not None
            if was_there and self._trace is not None:
                self._trace.tell(thread_id, {"action": "ClaimDeleted"})
        elif seen:
            claim = seen[int(fault.seconds * 1000) % len(seen)]
            self._watching.claims.put_by_hand(thread_id, claim)
            if self._trace is not None:
                self._trace.put_back(thread_id, claim)


def _failed(task: asyncio.Task[None]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is not None


def setting_of(seed: int) -> Setting:
    """Return what a seed chooses once."""
    rng = random.Random(f"setting {seed}")
    return Setting(
        processes=rng.randint(2, 4),
        threads=rng.randint(1, 3),
        fused=rng.random() < 0.4,
        scheduled=rng.random() < 0.65,
        max_turns=rng.choice((1, 2, 8)),
        noticing=rng.random() < 0.6,
        hinting=rng.random() < 0.6,
    )


def faults_of(seed: int) -> list[Fault]:
    """Return the faults that a seed draws."""
    setting = setting_of(seed)
    faults = plan(random.Random(f"faults {seed}"), processes=setting.processes, scheduled=setting.scheduled)
    harms = (*(OF_NOTICES if setting.noticing else ()), *(OF_HINTS if setting.hinting else ()))
    if harms:
        faults += plan_news(random.Random(f"news {seed}"), processes=setting.processes, harms=harms)
    return sorted(faults, key=lambda fault: fault.at)


def simulate(
    seed: int, faults: Sequence[Fault] | None = None, setting: Setting | None = None, trace: Trace | None = None
) -> Result:
    """Run a seed, with its own faults or others, and write down in `trace` what took effect."""
    chosen, harms = setting or setting_of(seed), tuple(faults_of(seed) if faults is None else faults)
    logging.disable(logging.CRITICAL)
    loop = VirtualLoop()
    loop.set_exception_handler(lambda *_: None)  # the loop keeps what nobody foresaw
    try:
        with seeded(seed):
            simulation = Simulation(seed, chosen, harms, trace)
            found, seconds = loop.run_until_complete(simulation.run())
            if trace is not None:
                trace.come_to_rest(simulation.journal.threads, simulation.claims_store())
            simulation.is_over = True
            loop.end()
            found += [f"Unforeseen: {error}" for error in loop.errors]
    finally:
        logging.disable(logging.NOTSET)
        gc.collect(0)
    return Result(seed, chosen, harms, tuple(dict.fromkeys(found)), tuple(simulation.lines), seconds)

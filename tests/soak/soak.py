"""Real conversations through three runners that share one journal and are killed at random: `make soak`.

It replays conversations between two people against `turnkeeper run` processes on one SQLite file, then on one
PostgreSQL. Every two seconds a process is killed or frozen past its session's end; at the end come faults that each
try one guard alone. Nobody looks after it: then nothing may be owed, and the journal is checked.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.invariants import dump_of
from tests.postgres_server import postgres_server
from tests.soak.books import Books, open_books
from tests.soak.clients import Clients
from tests.soak.conversations import Conversation, conversations
from tests.soak.faults import Faults
from tests.soak.nursery import nursery
from tests.soak.processes import RunnerProcess, ended_at_last
from tests.soak.verdict import all_breaches, defects, figures
from tests.soak.waiting import CLOCK, until

HERE = Path(__file__).parent
RUNNERS = 3
MAX_TURNS = 8
"""Of each: a command for each of a hundred threads at once would take a small machine longer than the next kill."""

GUARDS = ("fence", "look", "sweep")
SHOWN_BREACHES = 20


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be soaked. All times in seconds. without: a guard that is taken out, to see the checks fail.

    forks: lives are forked from a process that has loaded the code.
    """

    messages: int
    threads: int
    seconds: float
    seed: int
    claim_ttl_seconds: float = 3.0
    settle_seconds: float = 60.0
    without: str = ""
    forks: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it. `breached_after_seconds`: when the first breach was seen, if one was."""

    breaches: list[str]
    figures: dict[str, object]


async def soak(plan: Plan, url: str, folder: Path) -> Outcome:
    """Soak one database. `folder` keeps the processes' logs and the handlers' effects."""
    rng = random.Random(plan.seed)
    chosen = conversations(plan.messages, plan.threads, plan.seconds, rng)
    effects = folder / "effects"
    effects.mkdir()
    processes = [_runner(plan, url, folder, effects, f"runner-{number}") for number in range(RUNNERS)]
    began = CLOCK.monotonic()
    found: list[str] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(ended_at_last(processes))
        if plan.forks:
            kept = stack.enter_context(nursery(plan.without))
            for process in processes:
                process.nursery = kept
        for process in processes:
            process.start()
            await process.ready()
        async with open_books(url) as books, Clients(processes, rng) as clients:
            faults = Faults(processes, clients, books, url, plan.claim_ttl_seconds, rng)
            stage = _Stages(plan, books, clients, effects / "effects", found)
            await _replay(plan, chosen, clients, faults)
            await faults.revive()
            await stage.check("replay")
            for name, end in (
                ("frozen-writer", faults.freeze_a_writer),
                ("buried-alive", faults.bury_alive),
                ("one-waits", faults.kill_with_one_waiting),
                ("all-die", faults.kill_all_alone),
            ):
                if found:
                    break
                await end(name)
                await stage.check(name)
            found += defects(folder)
            if not found:
                await _check_leftovers(plan, books, processes, found)
            told: dict[str, object] = dict(faults.done) | figures(await dump_of(books))  # type: ignore[arg-type]  # it has the reads of one
            told |= {"lives": sum(process.lives for process in processes), "answers": dict(clients.tries.most_common())}
            told["duration"] = f"{CLOCK.monotonic() - began:.0f} s"
            return Outcome(found + clients.faults, told)


@dataclass
class _Stages:
    plan: Plan
    books: Books
    clients: Clients
    effects: Path
    found: list[str]

    async def check(self, name: str) -> None:
        """Wait until nothing is owed, or as long as that may take, and check all there is."""
        began = CLOCK.monotonic()
        await self.books.until_settled(self.plan.settle_seconds)
        dumps = await dump_of(self.books)  # type: ignore[arg-type]  # it only reads
        found = all_breaches(dumps, self.clients.accepted, self.clients.tried, self.effects)
        print(f"  {name}: settled {CLOCK.monotonic() - began:.1f} s after it; {len(found)} breaches", flush=True)
        self.found += [f"[{name}] {breach}" for breach in found]


async def _replay(plan: Plan, chosen: Sequence[Conversation], clients: Clients, faults: Faults) -> None:
    disturbing = asyncio.create_task(faults.disturb())
    began = CLOCK.monotonic()
    try:
        async with asyncio.timeout(2 * plan.seconds + 60), asyncio.TaskGroup() as group:
            for conversation in chosen:
                group.create_task(clients.replay(conversation, began))
    except TimeoutError:
        clients.faults.append(f"Unanswered: not every message was accepted in {2 * plan.seconds + 60:.0f} s")
    finally:
        disturbing.cancel()
        await asyncio.gather(disturbing, return_exceptions=True)


async def _check_leftovers(plan: Plan, books: Books, processes: Sequence[RunnerProcess], found: list[str]) -> None:
    """No claim stands once nothing runs, and no session of a dead process past its end."""

    async def is_clean() -> bool:
        alive = tuple(f"-{process.pid}" for process in processes if process.is_alive)
        sessions = (await books.runners()).values()
        return not await books.claimed() and all(runner.endswith(alive) for runner in sessions)

    try:
        await until(is_clean, "what the dead held is gone", seconds=2 * plan.claim_ttl_seconds + 5)
    except AssertionError:
        found.append(f"NoLeftovers: claims {await books.claimed()}; sessions {await books.runners()}")


def _runner(plan: Plan, url: str, folder: Path, effects: Path, name: str) -> RunnerProcess:
    handler = f"{sys.executable} -I -S {HERE / 'turn_handler.py'}"
    journal = url.removeprefix("sqlite:///")
    flags = ["--journal", journal, "--exec", handler, "--claim-ttl", str(plan.claim_ttl_seconds)]
    flags += ["--recover-interval", "5", "--max-turns", str(MAX_TURNS)]
    process = RunnerProcess(name, folder, flags, environment={"SOAK_EFFECTS": str(effects), "PYTHONPATH": "."})
    if plan.without:
        process.program = (sys.executable, str(HERE / "sabotaged.py"), plan.without)
    return process


@contextlib.contextmanager
def database(kind: str, folder: Path) -> Iterator[str]:
    """Yield the URL of a new database."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'journal.db'}"
    else:
        with postgres_server(durable=True) as url:
            yield url


def main() -> int:
    """Soak as the command line says; return 1 if anything was breached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=("sqlite", "postgresql", "both"), default="both")
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=120.0, help="over how long the messages are sent")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--claim-ttl", type=float, default=3.0)
    parser.add_argument("--without", choices=GUARDS, default="", help="take a guard out, to see the checks fail")
    parser.add_argument("--forks", action="store_true", help="fork the runners from one that has loaded the code")
    parser.add_argument("--keep", type=Path, help="a folder for logs and journal, kept afterwards")
    asked = parser.parse_args()
    plan = Plan(
        asked.messages,
        asked.threads,
        asked.seconds,
        asked.seed,
        asked.claim_ttl,
        without=asked.without,
        forks=asked.forks,
    )
    kinds = ("sqlite", "postgresql") if asked.database == "both" else (asked.database,)
    breached = False
    for kind in kinds:
        print(f"{kind}, seed {plan.seed}{f', without the {plan.without}' if plan.without else ''}", flush=True)
        with tempfile.TemporaryDirectory(prefix="turnkeeper-soak-") as made:
            folder = asked.keep / kind if asked.keep else Path(made)
            folder.mkdir(parents=True, exist_ok=True)
            with database(kind, folder) as url:
                outcome = asyncio.run(soak(plan, url, folder))
        for name, value in outcome.figures.items():
            print(f"  {name:<24} {value}")
        for breach in outcome.breaches[:SHOWN_BREACHES]:
            print(f"  BREACH {breach}")
        print(f"  {len(outcome.breaches)} breaches" if outcome.breaches else "  nothing was breached", flush=True)
        breached = breached or bool(outcome.breaches)
    return int(breached)


if __name__ == "__main__":
    sys.exit(main())

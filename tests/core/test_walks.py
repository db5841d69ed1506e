"""Long seeded walks over the machine's rules, weighted towards what matters: runs, deaths, takeovers, retries.

Hypothesis spreads its draws evenly and shrinks what it finds; these go deep. A failure names its seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tests.core.test_machine import Core
from turnkeeper.core.parking import ParkedAction
from turnkeeper.core.words import Mode, Outcome, Resolution

WALKS = 60
STEPS = 200
"""Arbitrary: some seconds' worth. What each of them has caught, it caught within a third of this."""

RARELY = 0.1


def _accept(core: Core, rng: Random) -> None:
    mode = rng.choice([Mode.STEER, Mode.STEER, Mode.QUEUE, Mode.NOTE])
    core.accepts("a" if rng.random() < 0.6 else "b", rng.choice("xy"), mode, rng.random() < RARELY)


def _take(core: Core, rng: Random) -> None:
    core.takes(rng.randrange(3), rng.randrange(2), rng.random() < 0.5, rng.random() < 0.5, rng.random() < RARELY)


def _end(core: Core, rng: Random) -> None:
    outcome = rng.choice([*Outcome, Outcome.COMPLETED, Outcome.COMPLETED])
    if outcome is Outcome.ABANDONED:
        outcome = Outcome.PAUSED
    core.ends(
        rng.randrange(3), outcome, rng.choice([0, 10_000]), rng.randint(1, 2), rng.random() < 0.5, rng.random() < RARELY
    )


def _stop(core: Core, rng: Random) -> None:
    core.stops("a", rng.randrange(40), rng.random() < RARELY)


def _open(core: Core, _: Random) -> None:
    if len(core.world.processes) < 3:
        core.opens()


def _when(holds: Callable[[Core], Any], act: Callable[[Core, Random], None]) -> Callable[[Core, Random], None]:
    return lambda core, rng: act(core, rng) if holds(core) else None


def _due(core: Core) -> bool:
    return bool(core.world.due())


def _runs(core: Core) -> bool:
    return core.has_runs


STEPS_BY_WEIGHT: tuple[tuple[int, Callable[[Core, Random], None]], ...] = (
    (8, _accept),
    (2, _when(lambda core: core.sent, lambda core, rng: core.accepts_again(rng.randrange(8), rng.random() < 0.5))),
    (12, _when(_due, _take)),
    (6, _when(_due, lambda core, rng: core.claims(rng.randrange(3), rng.randrange(2)))),
    (
        8,
        _when(
            lambda core: any(process.waits_to_start for process in core.world.processes.values()),
            lambda core, rng: core.starts(rng.randrange(3), rng.random() < 0.5, rng.random() < 0.5),
        ),
    ),
    (4, _when(_runs, lambda core, rng: core.appends(rng.randrange(3), rng.random() < RARELY))),
    (2, _when(_runs, lambda core, rng: core.records_step(rng.randrange(3), rng.choice("st")))),
    (9, _when(_runs, _end)),
    (1, _when(_runs, lambda core, rng: core.lets_go(rng.randrange(3)))),
    (
        4,
        _when(
            lambda core: core.world.open_questions(),
            lambda core, rng: core.answers(rng.randrange(8), rng.choice(list(Resolution)[1:4]), rng.random() < RARELY),
        ),
    ),
    (2, _stop),
    (
        6,
        _when(
            lambda core: core.world.parked(),
            lambda core, rng: core.resolves_parked(
                rng.randrange(8),
                rng.choice([ParkedAction.RETRY, ParkedAction.RETRY, ParkedAction.DROP]),
                rng.random() < RARELY,
            ),
        ),
    ),
    (5, _when(_runs, lambda core, rng: core.crashes_in_a_run(rng.randrange(3)))),
    (1, _when(lambda core: core.world.processes, lambda core, rng: core.crashes_unseen(rng.randrange(3)))),
    (3, _when(lambda core: core.world.journal.sessions, lambda core, rng: core.is_declared_dead(rng.randrange(5)))),
    (4, _open),
    (1, _when(lambda core: core.world.journal.claims, lambda core, _: core.loses_its_claim_object("a"))),
    (1, lambda core, _: core.gets_its_old_claim_object_back("a")),
    (1, _when(_due, lambda core, rng: core.has_its_claim_edited("a", rng.randrange(3), rng.randrange(9)))),
)


def walk(seed: int) -> Counter[tuple[str, str]]:
    """Walk with this seed, come to rest, and return how often each act had which verdict."""
    rng = Random(seed)
    core = Core()
    core.world.max_attempts = rng.randint(1, 3)
    weights = [weight for weight, _ in STEPS_BY_WEIGHT]
    for _, act in rng.choices(STEPS_BY_WEIGHT, weights, k=STEPS):
        act(core, rng)
        assert core.world.broken() == [], f"seed {seed}"
    core.world.settle()
    assert core.world.broken(at_rest=True) == [], f"seed {seed}, at rest"
    return core.world.journal.counted


@pytest.mark.parametrize("seed", range(WALKS))
def test_no_walk_breaks_an_invariant(seed: int) -> None:
    """Whatever happens in whatever order, each invariant holds after each step, and at rest nothing is owed."""
    walk(seed)


REACHED = {
    ("accept", "Clash"),
    ("accept", "Known"),
    ("answer", "Answered"),
    ("answer", "WrongAnswer"),
    ("append", "Superseded"),
    ("append", "Written"),
    ("end", "AlreadyEnded"),
    ("end", "Ended"),
    ("record_step", "Recorded"),
    ("record_step", "Superseded"),
    ("resolve_parked", "Unparked"),
    ("start", "NothingOwed"),
    ("start", "Started"),
    ("start", "Superseded"),
    ("stop", "AlreadyEnded"),
    ("stop", "StopRecorded"),
    ("take", "Busy"),
    ("take", "Later"),
    ("take", "NothingOwed"),
    ("take", "SessionGone"),
    ("take", "Started"),
    ("take_again", "Started"),
}


def test_the_walks_reach_every_verdict() -> None:
    """A walk that never comes to a verdict says nothing about it, so each is reached by some."""
    counted = sum((walk(seed) for seed in range(WALKS, WALKS + 40)), Counter())
    assert REACHED - counted.keys() == set()

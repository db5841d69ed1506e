"""What goes wrong, as data: a list of timed faults, drawn from a seed, printed on failure, cut down to reduce one."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

FAULTS_SECONDS = 24.0
"""Over how long faults come: eight of the simulation's claim_ttls, after which all must come to rest."""

ASKING_SECONDS = 18.0
"""How long people ask: less, since a thread that is asked again is taken again, and hides what was left in it."""


class Harm(StrEnum):
    """What happens, to which process or thread."""

    CRASH = "crash"  # the process is gone; another life begins after `seconds`
    FREEZE = "freeze"  # none of its awaits returns for `seconds`; then it goes on as if nothing had been
    DRAIN = "drain"  # an orderly stop; another life begins after `seconds`
    ALL_GONE = "all gone"  # every process crashes; with share 1 their sessions are removed while nobody looks
    SESSION_DELETED = "session deleted"  # declared dead while it lives
    CLAIM_DELETED = "claim deleted"  # by hand
    CLAIM_PUT_BACK = "claim put back"  # by hand: one that stood earlier
    CLOCK_STEP = "clock step"  # the wall clock jumps by `seconds`
    DOWN = "down"  # for `seconds`, this share of its calls is refused before it does anything
    LOST = "lost"  # for `seconds`, the answer of this share of its calls is lost after they took effect
    LATE = "late"  # for `seconds`, this share of its writes takes effect after its caller gave it up
    SLOW = "slow"  # for `seconds`, this share of its calls takes long


WINDOWS = frozenset({Harm.DOWN, Harm.LOST, Harm.LATE, Harm.SLOW})

GENTLE = (
    Harm.CRASH,
    Harm.CRASH,
    Harm.FREEZE,
    Harm.DRAIN,
    Harm.ALL_GONE,
    Harm.SESSION_DELETED,
    Harm.CLOCK_STEP,
    Harm.SLOW,
)
"""What looks, and a sweep at each start, make good without any schedule."""

ALL = (*GENTLE, Harm.CLAIM_DELETED, Harm.CLAIM_PUT_BACK, Harm.DOWN, Harm.LOST, Harm.LATE)
"""What needs the schedule of sweeps: a look that fails is not armed again."""


AIMED = frozenset({Harm.CRASH, Harm.FREEZE, Harm.DOWN, Harm.LOST, Harm.LATE})
"""What may be aimed at a given call, so that the rare moments are met as often as the common ones."""

CALLS = (
    "accept",
    "take",
    "take_again",
    "start",
    "append",
    "end",
    "claim",
    "release",
    "sessions",
    "open_session",
    "declare_dead",
    "thread",
    "owed",
    "ran_by",
)
"""The calls that may be aimed at: the journal's acts by their names, and the doors of journal and claims."""

AIMED_SHARE = 0.5
CALLS_AHEAD_MAX = 6
"""At which of the calls from its time on a fault is aimed at most. Arbitrary: some turns ahead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One harm at its time. `target` numbers a process, or a thread where the harm is a claim's.

    call, number: where it is aimed, it strikes once, at that call of the process, so many calls of the name from its
    time on; a life that ends before takes it along. Such a call is held up on its way for this share of a slow one's.
    """

    at: float
    harm: Harm
    target: int = 0
    seconds: float = 0.0
    share: float = 0.0
    call: str = ""
    number: int = 0


def plan(rng: random.Random, *, processes: int, scheduled: bool) -> list[Fault]:
    """Draw faults in the order of their times. scheduled: sweeps come on a schedule."""
    harms = rng.sample(ALL if scheduled else GENTLE, k=rng.randint(2, 6))
    faults = [_draw(rng, rng.choice(harms), processes) for _ in range(rng.randint(2, 14))]
    return sorted(faults, key=lambda fault: fault.at)


def _draw(rng: random.Random, harm: Harm, processes: int) -> Fault:
    seconds = {
        Harm.CLOCK_STEP: rng.choice((-3600.0, -5.0, 5.0, 3600.0)),
        Harm.FREEZE: rng.uniform(0.5, 8.0),
        Harm.ALL_GONE: rng.uniform(0.1, 6.0),
    }.get(harm, rng.uniform(0.1, 4.0))
    share = rng.choice((0.05, 0.3, 0.7, 1.0)) if harm in WINDOWS else float(rng.random() < 0.5)
    at = round(rng.uniform(0.2, FAULTS_SECONDS - min(abs(seconds), 8.0)), 3)
    call, number = "", 0
    if harm in AIMED and rng.random() < AIMED_SHARE:
        call, number = rng.choice(CALLS), rng.randint(1, CALLS_AHEAD_MAX)
    return Fault(
        at=at,
        harm=harm,
        target=rng.randrange(processes),
        seconds=round(seconds, 3),
        share=share,
        call=call,
        number=number,
    )

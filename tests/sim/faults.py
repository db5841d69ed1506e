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


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One harm at its time. `target` numbers a process, or a thread where the harm is a claim's."""

    at: float
    harm: Harm
    target: int = 0
    seconds: float = 0.0
    share: float = 0.0


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
    return Fault(at=at, harm=harm, target=rng.randrange(processes), seconds=round(seconds, 3), share=share)

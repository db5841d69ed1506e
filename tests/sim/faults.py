"""What goes wrong, as data: a list of timed faults, drawn from a seed, printed on failure, cut down to reduce one."""

from __future__ import annotations

import random
from collections.abc import Sequence
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
    NOTICE_WRONG = "notice wrong"  # whoever holds a connection to it is told that it is gone, and it lives
    NOTICE_LOST = "notice lost"  # for `seconds`, this share of the notices that it would hear
    NOTICE_LATE = "notice late"  # the same, after the timer has come
    HINT_LOST = "hint lost"  # for `seconds`, this share of the hints that it would hear
    HINT_WRONG = "hint wrong"  # for `seconds`, this share of its hints comes twice, or is about another thread
    DEAF = "deaf"  # for `seconds`, its connection for hints carries nothing; with share 1 it ends, else it is silent


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


OF_NOTICES = (Harm.NOTICE_WRONG, Harm.NOTICE_LOST, Harm.NOTICE_LATE)
OF_HINTS = (Harm.HINT_LOST, Harm.HINT_WRONG, Harm.DEAF)
"""What goes wrong between the processes themselves, where a setting has notices, or hints."""

NEWS_FAULTS_MAX = 6
"""How many of these a seed draws at most. Arbitrary: beside as many of the others."""

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


def plan_news(rng: random.Random, *, processes: int, harms: Sequence[Harm]) -> list[Fault]:
    """Draw what goes wrong between the processes, in the order of the times."""
    faults = [_draw_news(rng, rng.choice(harms), processes) for _ in range(rng.randint(1, NEWS_FAULTS_MAX))]
    return sorted(faults, key=lambda fault: fault.at)


def _draw_news(rng: random.Random, harm: Harm, processes: int) -> Fault:
    seconds = rng.uniform(1.0, 16.0 if harm is Harm.DEAF else 8.0)  # deaf for longer than it takes to find out
    return Fault(
        at=round(rng.uniform(0.2, FAULTS_SECONDS - seconds), 3),
        harm=harm,
        target=rng.randrange(processes),
        seconds=round(seconds, 3),
        share=rng.choice((0.3, 1.0, 1.0)),
    )


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

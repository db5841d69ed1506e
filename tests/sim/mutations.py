"""The protocol's guards, each taken away by a line of the code under test that reads differently.

Where other parts of the project do the same work sooner, `without` takes those away too. `alone` is the simulation in
which the guard then matters, and `plan` draws the faults that it is a guard against, where those of an ordinary seed
would meet it too rarely.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from tests.sim.faults import ASKING_SECONDS, FAULTS_SECONDS, Fault, Harm
from tests.sim.mutant import Line, Mutant
from tests.sim.process import Setting
from turnkeeper.adapters.memory import MemoryClaims
from turnkeeper.adapters.polling_hints import PollingHints
from turnkeeper.adapters.two_step import TwoStepTaking
from turnkeeper.core import claim, ending, recovery, turn
from turnkeeper.core.values import Thread
from turnkeeper.runner import stream
from turnkeeper.runner.looks import Looks
from turnkeeper.runner.peers import PeerWatch
from turnkeeper.runner.presence import Presence
from turnkeeper.runner.service import Runner
from turnkeeper.runner.sweep import Sweep
from turnkeeper.runner.taker import Taker
from turnkeeper.runner.turns import LiveTurn

GONE_SECONDS = 500.0
"""A process that is down for so long does not come back in a simulation."""


def gone_for_good(rng: random.Random, setting: Setting) -> list[Fault]:
    """All processes but one die once nobody asks any more, for good; that one can't read what they ran."""
    *dead, left = rng.sample(range(setting.processes), setting.processes)
    blind = [
        Fault(at=ASKING_SECONDS - 2.0, harm=Harm.DOWN, target=left, call="ran_by", number=number)
        for number in range(1, setting.processes)
    ]
    times = sorted(round(rng.uniform(ASKING_SECONDS - 1.0, 21.0), 3) for _ in dead)
    crashes = [
        Fault(at=at, harm=Harm.CRASH, target=target, seconds=GONE_SECONDS)
        for at, target in zip(times, dead, strict=True)
    ]
    return [*blind, *crashes]


def claims_put_back(rng: random.Random, setting: Setting) -> list[Fault]:
    """Old claims of sessions that live are put back by hand while people ask for the last time."""
    times = sorted(round(rng.uniform(ASKING_SECONDS - 6.0, ASKING_SECONDS + 1.0), 3) for _ in range(8))
    return [
        Fault(at=at, harm=Harm.CLAIM_PUT_BACK, target=rng.randrange(setting.threads), seconds=round(rng.random(), 3))
        for at in times
    ]


def at_calls(harm: Harm, call: str) -> Callable[[random.Random, Setting], list[Fault]]:
    """Return a plan that strikes each process at calls of one name, again and again."""

    def plan(rng: random.Random, setting: Setting) -> list[Fault]:
        faults = [
            Fault(
                at=round(rng.uniform(2.0, 20.0), 3),
                harm=harm,
                target=target,
                share=round(rng.random(), 3),
                call=call,
                number=rng.randint(1, 3),
            )
            for target in range(setting.processes)
            for _ in range(8)
        ]
        return sorted(faults, key=lambda fault: fault.at)

    return plan


def wrong_notices(rng: random.Random, setting: Setting) -> list[Fault]:
    """Of one process after the other it is said that it is gone, and all of them live."""
    return [
        Fault(at=round(2.0 + 2.0 * number + rng.random(), 3), harm=Harm.NOTICE_WRONG, target=number)
        for number in range(4 * setting.processes)
        if 2.0 + 2.0 * number < FAULTS_SECONDS - 2.0
    ]


def no_news(*harms: Harm) -> Callable[[random.Random, Setting], list[Fault]]:
    """Return a plan in which none of the news of a kind arrives, and processes crash."""

    def plan(rng: random.Random, setting: Setting) -> list[Fault]:
        times = sorted(round(rng.uniform(2.0, FAULTS_SECONDS - 4.0), 3) for _ in range(6))
        crashes = [
            Fault(at=at, harm=Harm.CRASH, target=rng.randrange(setting.processes), seconds=round(rng.random(), 3))
            for at in times
        ]
        deaf = [  # of each life anew: a process that starts hears for a second at most
            Fault(at=float(at), harm=harm, target=target, seconds=FAULTS_SECONDS - at, share=1.0)
            for at in range(int(FAULTS_SECONDS))
            for harm in harms
            for target in range(setting.processes)
        ]
        return sorted((*deaf, *crashes), key=lambda fault: fault.at)

    return plan


NO_BACKLOG = Line(Taker, "run_backlog", "for thread in ready[:room]:", "for thread in ():")
NO_LOOKS = Line(Looks, "arm", "now = self._clock.monotonic()", "return")
NO_SWEEP = Line(Runner, "recover", "return await sweep.run(limit)", "return Recovered()")
NO_POLL = Line(PollingHints, "run", "self.tell(thread_id)", "pass")
NO_TAKING_OF_THE_ENDED = Line(Runner, "_session_gone", "self._looks.take_over(", "(lambda *_: None)(")

NO_FENCE = Line(ending, "_is_held", "thread.run.run_id == run_id and thread.fence == fence", "fence is not None")

TWO_STEP = Setting(processes=2, threads=3, fused=False, scheduled=False, max_turns=8, deadly=False)
CROWD = Setting(processes=4, threads=1, fused=False, scheduled=False, max_turns=8, deadly=False)
SCHEDULED = Setting(processes=2, threads=3, fused=False, scheduled=True, max_turns=8)
SEVERAL = Setting(processes=3, threads=3, fused=False, scheduled=True, max_turns=8, deadly=False)
CROWD_SCHEDULED = Setting(processes=4, threads=3, fused=False, scheduled=True, max_turns=8, deadly=False)
NOTICING = Setting(processes=3, threads=3, fused=False, scheduled=False, max_turns=8, deadly=False, noticing=True)
HINTING = Setting(processes=3, threads=3, fused=False, scheduled=False, max_turns=8, deadly=False, hinting=True)
ONE_PROCESS = Setting(processes=1, threads=2, fused=False, scheduled=False, max_turns=8)

MUTANTS = (
    Mutant(name="look_only", lines=(NO_SWEEP,)),
    Mutant(name="sweep_only", lines=(NO_LOOKS,)),
    Mutant(name="no_fence", lines=(NO_FENCE,)),
    Mutant(name="wrong_notice_no_fence", lines=(NO_FENCE,), alone=NOTICING, plan=wrong_notices),
    Mutant(
        name="notice_believed",
        lines=(
            Line(
                PeerWatch,
                "_declare_dead",
                "await self._claims.declare_dead(record)",
                "setattr(self._claims._claims, 'told', session) is None",
            ),
            Line(
                MemoryClaims,
                "claim",
                "existing=frozenset(self.store.sessions)",
                "existing=frozenset(self.store.sessions) - {getattr(self, 'told', '')}",
            ),
        ),
        alone=NOTICING,
        plan=wrong_notices,
    ),
    Mutant(
        name="no_timer",
        lines=(Line(Presence, "poll", "if now >= expires_seconds(sighting)", "if False"),),
        alone=NOTICING,
        plan=no_news(Harm.NOTICE_LOST),
    ),
    Mutant(
        name="hint_alone",
        lines=(
            Line(
                stream,
                "follow_log",
                "if not await watch.news(HEARTBEAT_SECONDS):",
                "while not await watch.news(HEARTBEAT_SECONDS):",
            ),
        ),
        without=(NO_POLL,),
        alone=HINTING,
        plan=no_news(Harm.HINT_LOST),
    ),
    Mutant(
        name="fence_token_alone",
        lines=(
            Line(turn, "begin", "fence.token <= thread.token and fence != thread.fence", "fence.token < thread.token"),
        ),
        alone=CROWD,
        plan=at_calls(Harm.SLOW, "claim"),
    ),
    Mutant(
        name="token_from_claim_alone",
        lines=(
            Line(claim, "claim", "if session not in existing:", "journal_token = 0\n    if session not in existing:"),
        ),
    ),
    Mutant(
        name="no_read_after_release",
        lines=(Line(TwoStepTaking, "_read_after", "if not isinstance(verdict, Ended):", "if True:"),),
        without=(NO_BACKLOG, NO_LOOKS),
        alone=TWO_STEP,
        plan=at_calls(Harm.SLOW, "release"),
    ),
    Mutant(
        name="refused_keeps_claim",
        lines=(
            Line(TwoStepTaking, "_start_or_release", "not isinstance(started, Started)", "False"),
            Line(
                TwoStepTaking,
                "end",
                "await self.let_go(started)",
                "isinstance(verdict, Ended) and await self.let_go(started)",
            ),
        ),
    ),
    Mutant(
        name="lost_session_no_look",
        lines=(Line(Taker, "opened", "for thread_id in orphans:", "for thread_id in ():"),),
        without=(NO_BACKLOG,),
        alone=replace(ONE_PROCESS, deadly=False),
        harms=frozenset({Harm.SESSION_DELETED, Harm.FREEZE, Harm.SLOW}),
    ),
    Mutant(
        name="sweep_skips_held",
        lines=(Line(Sweep, "_is_held", "self._looks.arm(", "(lambda *_: None)("),),
        without=(NO_TAKING_OF_THE_ENDED,),
        alone=ONE_PROCESS,
        harms=frozenset({Harm.CRASH}),
    ),
    Mutant(
        name="absence_from_old_view",
        lines=(
            Line(
                MemoryClaims,
                "claim",
                "existing=frozenset(self.store.sessions)",
                "existing=self.__dict__.setdefault('old', frozenset(self.store.sessions)) | {session}",
            ),
        ),
    ),
    Mutant(
        name="session_revived",
        lines=(
            Line(
                MemoryClaims,
                "renew",
                "else SessionGone()",
                "else self._put(SessionRecord(session=session, runner='', version='', duration_seconds=3.0))",
            ),
        ),
    ),
    Mutant(
        name="attempt_counted_after",
        lines=(Line(recovery, "abandon", "charged=turn.charged + 1", "charged=0"),),
        alone=SCHEDULED,
    ),
    Mutant(
        name="taken_before_use",
        lines=(
            Line(LiveTurn, "used_seq", "self._handed_out_seq if completed else self._used_seq", "self.offered_seq"),
        ),
    ),
    Mutant(
        name="open_run_left",
        lines=(Line(recovery, "abandon", "if run is None or turn is None:", "if True:"),),
    ),
    Mutant(
        name="interrupted_not_owed",
        lines=(
            Line(Thread, "is_owed", "(self.asked > self.taken or self.turn is not None)", "self.asked > self.taken"),
        ),
    ),
    Mutant(
        name="one_sweeper",
        lines=(
            Line(
                Runner, "recover", "return await", "return Recovered() if self._tools.options.runner != 'r0' else await"
            ),
        ),
        without=(NO_BACKLOG, NO_TAKING_OF_THE_ENDED),
        alone=SCHEDULED,
        plan=claims_put_back,
    ),
    Mutant(
        name="no_schedule",
        lines=(Line(Runner, "_sweep_on_schedule", "self._tools.options.sweep_interval_seconds", "None"),),
        alone=SEVERAL,
        plan=gone_for_good,
    ),
    Mutant(
        name="answer_not_adopted",
        lines=(Line(turn, "begin", "thread.run.run_id == how.run_id", "False"),),
    ),
    Mutant(
        name="nudge_forgotten",
        lines=(Line(Taker, "take", "known.nudged = True", "pass"),),
        without=(NO_BACKLOG, NO_LOOKS),
        alone=TWO_STEP,
        plan=at_calls(Harm.SLOW, "thread"),
    ),
    Mutant(
        name="release_not_tried_again",
        lines=(Line(TwoStepTaking, "_release", "self._later(self._keep_releasing(thread_id, claim))", "pass"),),
        alone=SEVERAL,
        plan=at_calls(Harm.DOWN, "release"),
    ),
    Mutant(
        name="lost_claim_not_undone",
        lines=(Line(TwoStepTaking, "_undo", "await self._claim_and_release(thread_id, session, nonce)", "pass"),),
        alone=CROWD_SCHEDULED,
        plan=at_calls(Harm.LOST, "claim"),
    ),
)

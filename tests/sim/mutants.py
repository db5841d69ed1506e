"""The protocol's guards, each taken away: what the simulator must find, and after how many seeds it does.

`make sim-mutants` prints the table of docs/simulator.md. A mutant rewrites a line of the code under test, in a process
of its own. Where other parts of the project do the same work sooner, `without` takes those away too, and `alone` is the
simulation in which the guard then matters: its control, the same without the mutant, must come to rest.
"""

from __future__ import annotations
import __future__

import argparse
import inspect
import os
import sys
import textwrap
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from tests.sim.faults import Fault, Harm
from tests.sim.process import Setting
from tests.sim.simulation import faults_of, setting_of, simulate
from turnkeeper.adapters.memory import MemoryClaims
from turnkeeper.adapters.two_step import TwoStepTaking
from turnkeeper.core import claim, ending, recovery, turn
from turnkeeper.core.values import Thread
from turnkeeper.runner.looks import Looks
from turnkeeper.runner.service import Runner
from turnkeeper.runner.sweep import Sweep
from turnkeeper.runner.taker import Taker
from turnkeeper.runner.turns import LiveTurn

SEEDS_MAX = 400
"""After so many seeds without a breach a mutant has survived. Arbitrary: minutes."""

Place = ModuleType | type[Any]


@dataclass(frozen=True)
class Line:
    """A line of a function that reads differently in a mutant."""

    place: Place
    function: str
    old: str
    new: str

    def rewrite(self) -> None:
        """Compile the function anew, with the line changed, and put it where it was."""
        found = inspect.getattr_static(self.place, self.function)
        plain = found.fget if isinstance(found, property) else found
        assert isinstance(plain, FunctionType)
        source = textwrap.dedent(inspect.getsource(plain))
        assert self.old in source, f"{self.function} has no {self.old!r} any more"
        source = source.replace(self.old, self.new)
        names: dict[str, Any] = {}
        code = compile(source, f"<mutant {self.function}>", "exec", __future__.annotations.compiler_flag, True)  # noqa: FBT003 - positional in the language
        exec(code, plain.__globals__, names)  # noqa: S102 - the project's own source, one line changed
        changed = names[self.function]  # with its decorators
        setattr(self.place, self.function, changed)
        for module in list(sys.modules.values()):  # where it was imported by name
            if getattr(module, self.function, None) is plain:
                setattr(module, self.function, changed)


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A guard taken away. `alone`: the setting in which it matters, None for each seed's own; `harms`: all or these."""

    name: str
    lines: tuple[Line, ...]
    without: tuple[Line, ...] = ()
    alone: Setting | None = None
    harms: frozenset[Harm] | None = None


NO_BACKLOG = Line(Taker, "run_backlog", "for thread in ready[:room]:", "for thread in ():")
NO_LOOKS = Line(Looks, "arm", "now = self._clock.monotonic()", "return")
NO_SWEEP = Line(Runner, "recover", "return await sweep.run(limit)", "return Recovered()")
NO_TAKING_OF_THE_ENDED = Line(Runner, "_session_gone", "for thread_id in thread_ids:", "for thread_id in ():")

TWO_STEP = Setting(processes=2, threads=1, fused=False, scheduled=False, max_turns=8, deadly=False)
CROWD = Setting(processes=4, threads=1, fused=False, scheduled=False, max_turns=8, deadly=False)
SCHEDULED = Setting(processes=2, threads=1, fused=False, scheduled=True, max_turns=8)
ONE_PROCESS = Setting(processes=1, threads=2, fused=False, scheduled=False, max_turns=8)

MUTANTS = (
    Mutant(name="look_only", lines=(NO_SWEEP,)),
    Mutant(name="sweep_only", lines=(NO_LOOKS,)),
    Mutant(
        name="no_fence",
        lines=(Line(ending, "_is_held", "thread.run.run_id == run_id and thread.fence == fence", "fence is not None"),),
    ),
    Mutant(
        name="fence_token_alone",
        lines=(
            Line(turn, "begin", "fence.token <= thread.token and fence != thread.fence", "fence.token < thread.token"),
        ),
        alone=CROWD,
        harms=frozenset({Harm.SLOW}),
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
        harms=frozenset(),
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
        alone=ONE_PROCESS,
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
            Line(MemoryClaims, "renew", "if known else SessionGone()", "if known else self._put(session, '', 3.0)"),
        ),
    ),
    Mutant(name="attempt_counted_after", lines=(Line(recovery, "abandon", "charged=turn.charged + 1", "charged=0"),)),
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
        harms=frozenset({Harm.CLAIM_PUT_BACK, Harm.CRASH}),
    ),
    Mutant(
        name="no_schedule",
        lines=(Line(Runner, "_sweep_on_schedule", "self._tools.options.sweep_interval_seconds", "None"),),
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
        harms=frozenset(),
    ),
    Mutant(
        name="release_not_tried_again",
        lines=(Line(TwoStepTaking, "_release", "self._later(self._keep_releasing(thread_id, claim))", "pass"),),
    ),
    Mutant(
        name="lost_claim_not_undone",
        lines=(Line(TwoStepTaking, "_undo", "await self._claim_and_release(thread_id, session, nonce)", "pass"),),
    ),
)


@dataclass(frozen=True)
class Hunt:
    """What came of a mutant: the seeds that it took, and the first breach; empty where it survived."""

    name: str
    seeds: int
    breach: str
    seconds: float


def hunt(name: str, seeds: int, *, control: bool = False) -> Hunt:
    """Apply a mutant to this process, for good, and run seeds until one shows it. control: only what goes with it."""
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    for line in (*mutant.without, *(() if control else mutant.lines)):
        line.rewrite()
    began = time.monotonic()
    for seed in range(1, seeds + 1):
        result = simulate(seed, _faults(mutant, seed), mutant.alone or setting_of(seed))
        if result.breaches:
            return Hunt(name, seed, result.breaches[0], time.monotonic() - began)
    return Hunt(name, seeds, "", time.monotonic() - began)


def _faults(mutant: Mutant, seed: int) -> Sequence[Fault]:
    faults = faults_of(seed)
    return faults if mutant.harms is None else [fault for fault in faults if fault.harm in mutant.harms]


def main() -> int:
    """Print the table; return 1 where a mutant survives or a control does not hold."""
    parser = argparse.ArgumentParser(description="Take each guard away, and count the seeds until it is seen.")
    parser.add_argument("names", nargs="*", help="mutants; all where none is named")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # as in run.py
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606 - this very program
    wanted = [mutant for mutant in MUTANTS if not options.names or mutant.name in options.names]
    print("| mutant | seeds | what is seen first |\n|---|---|---|", flush=True)
    bad = 0
    with ProcessPoolExecutor(options.workers, max_tasks_per_child=1) as pool:
        hunts = [pool.submit(hunt, mutant.name, options.seeds) for mutant in wanted]
        controls = [pool.submit(hunt, mutant.name, CONTROL_SEEDS, control=True) for mutant in wanted if mutant.without]
        for found in (each.result() for each in hunts):
            bad += not found.breach
            print(f"| `{found.name}` | {found.seeds} | {found.breach or 'SURVIVES'} |", flush=True)
        for found in (each.result() for each in controls):
            bad += bool(found.breach)
            if found.breach:
                print(f"the control of {found.name} does not hold: seed {found.seeds}: {found.breach}", flush=True)
    return 1 if bad else 0


CONTROL_SEEDS = 60
"""Seeds in which what goes with a mutant must not show a breach by itself. Arbitrary: more than it takes."""

if __name__ == "__main__":
    sys.exit(main())

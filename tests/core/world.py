"""Processes, their sessions and the harm that befalls them, over one dictionary journal: what the machine drives.

A process does what a runner does: it takes a thread in one task at a time, gives back a claim behind which it has no
run, and raises its claim where the journal has seen a greater token. Each method is an action of the spec. The
machine draws; nothing here does.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace

from tests.core.journal import DictJournal
from tests.invariants import ThreadDump, breaches, cursors_forward
from turnkeeper.core.claim import Claimed, claim
from turnkeeper.core.cursor import AcceptVerdict
from turnkeeper.core.draft import Act
from turnkeeper.core.ending import Ended, Ending, Written, append, end, record_step
from turnkeeper.core.questions import answer
from turnkeeper.core.taking import Taker, accept_and_take, sets_off, take, take_again
from turnkeeper.core.turn import Start, Started, Superseded, start
from turnkeeper.core.values import Claim, Question, Thread
from turnkeeper.core.words import Ask, Outcome, Resolution

ROUNDS = 60
"""Arbitrary: far more sweeps than any thread of a machine's run can need."""


@dataclass
class Process:
    """One life of a runner: what it believes to hold, by thread. None of it outlives a crash."""

    session: str
    runs: dict[str, Started] = field(default_factory=dict)
    claims: dict[str, Claim] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)

    @property
    def threads(self) -> list[str]:
        """The threads that it runs."""
        return sorted(self.runs)

    @property
    def waits_to_start(self) -> list[str]:
        """The threads that it has claimed and not yet begun."""
        return sorted(self.claims.keys() - self.runs.keys())


@dataclass
class World:
    """The stores, the processes that live, and claim objects that a hand removed."""

    journal: DictJournal = field(default_factory=DictJournal)
    processes: dict[str, Process] = field(default_factory=dict)
    removed: dict[str, Claim] = field(default_factory=dict)
    made: int = 0
    max_attempts: int = 2
    before: dict[str, ThreadDump] = field(default_factory=dict)

    def name(self, kind: str) -> str:
        """Return a name never given before."""
        self.made += 1
        return f"{kind}{self.made}"

    def row(self, thread_id: str) -> Thread:
        """Return a thread's row, or that of a thread that is not there yet."""
        kept = self.journal.threads.get(thread_id)
        return kept.row if kept else Thread(thread_id=thread_id)

    def due(self) -> list[str]:
        """Return the threads that are owed or have an open run."""
        rows = (kept.row for _, kept in sorted(self.journal.threads.items()))
        return [row.thread_id for row in rows if row.is_owed or row.run is not None]

    def parked(self) -> list[tuple[str, int]]:
        """Return the parked turns that nobody has resolved."""
        kept = sorted(self.journal.threads.items())
        return [(thread_id, seq) for thread_id, k in kept for seq, parked in k.parked.items() if not parked.resolved]

    def open(self) -> Process:
        """Begin a process, with a session of its own."""
        process = Process(self.name("s"))
        self.processes[process.session] = process
        self.journal.sessions.add(process.session)
        return process

    def crash(self, process: Process) -> None:
        """End a process; its session is left behind."""
        del self.processes[process.session]

    def declare_dead(self, session: str) -> None:
        """Remove a session, whether its process lives or not."""
        self.journal.sessions.discard(session)

    def how(self, run_id: str, *, ripe: bool, apart: bool) -> Start:
        """Return how a process would start."""
        most = self.max_attempts
        return Start(run_id=run_id, runner="r", now_ms=self.made, max_attempts=most, ripe=ripe, apart=apart)

    def take(self, process: Process, thread_id: str, *, ripe: bool, apart: bool, lost: bool = False) -> None:
        """Claim and start in one transaction."""
        if thread_id in process.runs or thread_id in process.claims:
            return
        run_id = self.name("r")
        act = take(thread_id, Taker(process.session, f"n-{run_id}"), self.how(run_id, ripe=ripe, apart=apart))
        verdict = self.journal.run(act)
        if lost and isinstance(verdict, Started):
            again = self.journal.lose(act)
            assert isinstance(again, Started)
            assert (again.run, again.fence, again.thread) == (verdict.run, verdict.fence, verdict.thread)
            assert (again.prompts, again.questions) == (verdict.prompts, verdict.questions)
        self._mind(process, thread_id, verdict)

    def accept_and_take(self, process: Process, accepting: Act[AcceptVerdict], *, lost: bool) -> None:
        """Record a message and take its thread in one transaction, as two would that nobody comes between."""
        run_id, thread_id = self.name("r"), accepting.thread_id
        how = self.how(run_id, ripe=False, apart=False)
        act = accept_and_take(accepting, Taker(process.session, f"n-{run_id}"), how)
        apart = deepcopy(self.journal)
        accepted, taken = self.journal.run(act)
        assert accepted == apart.run(accepting)
        assert (taken is not None) == sets_off(accepted, run_id)
        if taken is not None:
            assert taken == apart.run(act.second)
        assert (self.journal.threads, self.journal.claims) == (apart.threads, apart.claims)
        if lost and isinstance(taken, Started):
            assert self.journal.lose(act)[1] == taken
        if taken is not None:
            self._mind(process, thread_id, taken)

    def claim(self, process: Process, thread_id: str, journal_token: int | None = None) -> None:
        """Claim alone, as where claims and journal are two stores."""
        if thread_id in process.runs:
            return
        known = process.claims.get(thread_id)
        verdict = claim(
            self.journal.claims.get(thread_id),
            session=process.session,
            nonce=known.nonce if known else self.name("n"),
            journal_token=self.row(thread_id).token if journal_token is None else journal_token,
            existing=frozenset(self.journal.sessions),
        )
        process.claims.pop(thread_id, None)
        if isinstance(verdict, Claimed):
            process.claims[thread_id] = self.journal.claims[thread_id] = verdict.claim

    def start(self, process: Process, thread_id: str, *, ripe: bool, apart: bool) -> None:
        """Open the claim in the journal; raise it where the journal has seen a greater token."""
        held = process.claims.get(thread_id)
        if held is None:
            return
        how = self.how(self.name("r"), ripe=ripe, apart=apart)
        is_gone = self.row(thread_id).session not in self.journal.sessions
        fence = replace(self.row(thread_id).fence, token=held.token, session=process.session)
        verdict = self.journal.run(start(thread_id, fence, how, holder_gone=is_gone))
        if isinstance(verdict, Superseded):
            self.claim(process, thread_id, verdict.token + 1)
            return
        self._mind(process, thread_id, verdict)

    def _mind(self, process: Process, thread_id: str, verdict: object) -> None:
        if isinstance(verdict, Started):
            asked = self.journal.threads[thread_id].questions.values()
            assert set(verdict.questions) == {q for q in asked if q.turn_id == verdict.turn.turn_id}
            process.runs[thread_id] = verdict
            process.events[thread_id] = 0
        else:
            self.release(process, thread_id)

    def release(self, process: Process, thread_id: str) -> None:
        """Give back what is one's own, and nobody else's."""
        held = process.claims.pop(thread_id, None)
        process.runs.pop(thread_id, None)
        if held is not None and self.journal.claims.get(thread_id) == held:
            del self.journal.claims[thread_id]

    def append(self, process: Process, thread_id: str, *, lost: bool = False) -> None:
        """Write the run's next event; only who stands in the row may."""
        started, number = process.runs[thread_id], process.events[thread_id]
        row = self.row(thread_id)
        is_holder = row.run is not None and row.run.run_id == started.run.run_id and row.fence == started.fence
        act = append(thread_id, started.run.run_id, started.fence, number, {"n": number}, self.made)
        verdict = self.journal.run(act)
        assert isinstance(verdict, Written) is is_holder
        if lost and is_holder:
            assert self.journal.lose(act) == Written(None)
        process.events[thread_id] += 1

    def step(self, process: Process, thread_id: str, name: str) -> None:
        """Record a step of the turn."""
        started = process.runs[thread_id]
        self.journal.run(record_step(thread_id, started.run.run_id, started.fence, name, started.run.run_id, 0))

    def end(self, process: Process, thread_id: str, ending: Ending, *, keep: bool, lost: bool = False) -> None:
        """End the run, whatever becomes of it; go on under the same claim where it was kept."""
        started = process.runs[thread_id]
        act = end(thread_id, started.run.run_id, started.fence, ending, self.made, keep_claim=keep)
        verdict = self.journal.run(act)
        if lost and isinstance(verdict, Ended):
            self.journal.lose(act)
        held = process.claims.get(thread_id)
        if isinstance(verdict, Ended) and not verdict.released and held is not None:
            del process.runs[thread_id]
            self.start(process, thread_id, ripe=False, apart=False)
        elif isinstance(verdict, Ended) and not verdict.released:
            del process.runs[thread_id]
            again = take_again(thread_id, started.fence, self.how(self.name("r"), ripe=False, apart=False))
            self._mind(process, thread_id, self.journal.run(again))
        else:
            self.release(process, thread_id)

    def let_go(self, process: Process, thread_id: str) -> None:
        """Give the claim back and leave the run open in the row."""
        standing = self.journal.claims.get(thread_id)
        if standing is not None and standing.session == process.session:
            del self.journal.claims[thread_id]
        self.release(process, thread_id)

    def asked(self, thread_id: str, count: int, timeout_ms: int | None = None) -> tuple[Question, ...]:
        """Return questions for a run to end with, the first of them an approval."""
        turn = self.row(thread_id).turn
        return tuple(
            Question(
                question_id=self.name("q"),
                turn_id=turn.turn_id if turn else "",
                ask=Ask.FREE if number else Ask.APPROVAL,
                text="may I?",
                expires_ms=timeout_ms,
            )
            for number in range(count)
        )

    def open_questions(self) -> list[tuple[str, Question]]:
        """Return what is open, anywhere."""
        return [
            (thread_id, question)
            for thread_id, kept in sorted(self.journal.threads.items())
            for question in kept.questions.values()
            if question.resolution is Resolution.OPEN
        ]

    def broken(self, *, at_rest: bool = False) -> list[str]:
        """Return what is breached now, and against what was seen before."""
        now = self.journal.dumps()
        moved = [b for thread_id, old in self.before.items() for b in cursors_forward(old, now[thread_id])]
        self.before = now
        return [*breaches(now.values(), at_rest=at_rest), *moved]

    def settle(self) -> None:
        """Let every holder end, every question be answered and every owed thread be swept, until nothing is left."""
        for session in list(self.journal.sessions - set(self.processes)):
            self.declare_dead(session)
        for process in list(self.processes.values()):
            for thread_id in {*process.runs, *process.claims}:
                self._finish(process, thread_id)
        for thread_id, question in self.open_questions():
            verdict = Resolution.ANSWERED if question.ask is Ask.FREE else Resolution.APPROVED
            self.journal.run(answer(thread_id, question.question_id, verdict, True, self.made))  # noqa: FBT003 - a JSON value
        if not any(process.session in self.journal.sessions for process in self.processes.values()):
            self.open()
        for _ in range(ROUNDS):
            if not list(self._sweep()):
                return

    def _finish(self, process: Process, thread_id: str) -> None:
        if thread_id in process.runs:
            self.end(process, thread_id, Ending(outcome=Outcome.COMPLETED), keep=False)
        self.release(process, thread_id)

    def _sweep(self) -> Iterator[str]:
        """Take each thread that is owed or left open with every process, and yield those there were."""
        for thread_id in self.due():
            yield thread_id
            for process in list(self.processes.values()):
                self.take(process, thread_id, ripe=True, apart=True)
                self._finish(process, thread_id)

"""The core under a random environment: whatever the order of the spec's actions, the invariants hold.

Each rule is an action of `spec/ThreadClaim.tla` or a blow of its environment. After each step every invariant is
checked over the whole journal; at the end everybody comes to rest, and then nothing may be owed.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.core.world import Process, World
from turnkeeper.core.cursor import Accepted, Clash, Known, NewMessage, accept
from turnkeeper.core.ending import Ending
from turnkeeper.core.parking import ParkedAction, resolve_parked
from turnkeeper.core.questions import answer
from turnkeeper.core.stopping import StopRecorded, stop
from turnkeeper.core.values import Claim
from turnkeeper.core.words import Mode, Outcome, Resolution

THREADS = st.sampled_from(["a", "a", "a", "b"])
PICK = st.integers(0, 7)
FLAG = st.booleans()
ENDINGS = st.sampled_from(
    [Outcome.COMPLETED, Outcome.PAUSED, Outcome.INTERRUPTED, Outcome.FAILED, Outcome.TIMED_OUT, Outcome.COMPLETED]
)
VERDICTS = st.sampled_from([Resolution.ANSWERED, Resolution.APPROVED, Resolution.DENIED, Resolution.EXPIRED])


class Core(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.sent: list[tuple[str, NewMessage]] = []

    @initialize(max_attempts=st.integers(1, 2))
    def begins(self, max_attempts: int) -> None:
        self.world.max_attempts = max_attempts

    def process(self, pick: int) -> Process:
        living = list(self.world.processes.values()) or [self.world.open()]
        return living[pick % len(living)]

    def busy(self, pick: int) -> tuple[Process, str]:
        held = [(p, thread_id) for p in self.world.processes.values() for thread_id in p.threads]
        return held[pick % len(held)]

    @property
    def has_runs(self) -> bool:
        return any(process.runs for process in self.world.processes.values())

    @precondition(lambda self: len(self.world.processes) < 3)
    @rule()
    def opens(self) -> None:
        self.world.open()

    @rule(thread_id=THREADS, sender=st.sampled_from("xy"), mode=st.sampled_from([*Mode, Mode.STEER]), lost=FLAG)
    def accepts(self, thread_id: str, sender: str, mode: Mode, lost: bool) -> None:  # noqa: FBT001 - drawn by Hypothesis
        new = NewMessage(message_id=self.world.name("m"), content="hello", sender=sender, mode=mode)
        act = accept(new, thread_id, self.world.made)
        assert isinstance(self.world.journal.run(act), Accepted)
        if lost:
            assert isinstance(self.world.journal.lose(act), Accepted)
        self.sent.append((thread_id, new))

    @rule(pick=PICK, thread_id=THREADS, mode=st.sampled_from([*Mode, Mode.STEER]), lost=FLAG)
    def accepts_and_takes(self, pick: int, thread_id: str, mode: Mode, lost: bool) -> None:  # noqa: FBT001 - drawn by Hypothesis
        process = self.process(pick)
        if thread_id in process.threads:
            return
        new = NewMessage(message_id=self.world.name("m"), content="hello", mode=mode)
        self.world.accept_and_take(process, accept(new, thread_id, self.world.made), lost=lost)
        self.sent.append((thread_id, new))

    @precondition(lambda self: self.sent)
    @rule(pick=PICK, is_other=FLAG)
    def accepts_again(self, pick: int, is_other: bool) -> None:  # noqa: FBT001 - drawn by Hypothesis
        thread_id, new = self.sent[pick % len(self.sent)]
        again = NewMessage(message_id=new.message_id, content="other", sender=new.sender) if is_other else new
        verdict, change = self.world.journal.try_out(accept(again, thread_id, 0))
        assert isinstance(verdict, Clash if is_other else Known)
        assert change is None

    @precondition(lambda self: self.world.due())
    @rule(pick=PICK, thread=PICK, ripe=FLAG, apart=FLAG, lost=FLAG)
    def takes(self, pick: int, thread: int, ripe: bool, apart: bool, lost: bool) -> None:  # noqa: FBT001 - drawn by Hypothesis
        due = self.world.due()
        self.world.take(self.process(pick), due[thread % len(due)], ripe=ripe, apart=apart, lost=lost)

    @precondition(lambda self: self.world.due())
    @rule(pick=PICK, thread=PICK)
    def claims(self, pick: int, thread: int) -> None:
        due = self.world.due()
        self.world.claim(self.process(pick), due[thread % len(due)])

    @precondition(lambda self: any(process.waits_to_start for process in self.world.processes.values()))
    @rule(pick=PICK, ripe=FLAG, apart=FLAG)
    def starts(self, pick: int, ripe: bool, apart: bool) -> None:  # noqa: FBT001 - drawn by Hypothesis
        found = [(p, thread_id) for p in self.world.processes.values() for thread_id in p.waits_to_start]
        self.world.start(*found[pick % len(found)], ripe=ripe, apart=apart)

    @precondition(lambda self: self.has_runs)
    @rule(pick=PICK, lost=FLAG)
    def appends(self, pick: int, lost: bool) -> None:  # noqa: FBT001 - drawn by Hypothesis
        self.world.append(*self.busy(pick), lost=lost)

    @precondition(lambda self: self.has_runs)
    @rule(pick=PICK, name=st.sampled_from("st"))
    def records_step(self, pick: int, name: str) -> None:
        self.world.step(*self.busy(pick), name)

    @precondition(lambda self: self.has_runs)
    @rule(pick=PICK, outcome=ENDINGS, used=st.integers(0, 40), count=st.integers(1, 2), keep=FLAG, lost=FLAG)
    def ends(self, pick: int, outcome: Outcome, used: int, count: int, keep: bool, lost: bool) -> None:  # noqa: FBT001 - drawn by Hypothesis
        process, thread_id = self.busy(pick)
        asked = self.world.asked(thread_id, count) if outcome is Outcome.PAUSED else ()
        ending = Ending(outcome=outcome, answer="done", used_seq=used, questions=asked)
        self.world.end(process, thread_id, ending, keep=keep, lost=lost)

    @precondition(lambda self: self.has_runs)
    @rule(pick=PICK)
    def lets_go(self, pick: int) -> None:
        process, thread_id = self.busy(pick)
        self.world.let_go(process, thread_id)

    @precondition(lambda self: self.world.open_questions())
    @rule(pick=PICK, verdict=VERDICTS, lost=FLAG)
    def answers(self, pick: int, verdict: Resolution, lost: bool) -> None:  # noqa: FBT001 - drawn by Hypothesis
        found = self.world.open_questions()
        thread_id, question = found[pick % len(found)]
        act = answer(thread_id, question.question_id, verdict, None, 0)
        first = self.world.journal.run(act)
        if lost:
            assert type(self.world.journal.lose(act)) is type(first)

    @precondition(lambda self: self.world.journal.threads)
    @rule(thread_id=THREADS, pick=st.integers(0, 40), lost=FLAG)
    def stops(self, thread_id: str, pick: int, lost: bool) -> None:  # noqa: FBT001 - drawn by Hypothesis
        kept = self.world.journal.threads.get(thread_id)
        if kept is None or not kept.runs:
            return
        # The newest run is the likeliest to be stopped; any other may be.
        run_id = list(kept.runs)[-1 - (pick % len(kept.runs) if pick > 20 else 0)]
        act = stop(thread_id, run_id, 0)
        if isinstance(self.world.journal.run(act), StopRecorded) and lost:
            assert isinstance(self.world.journal.lose(act), StopRecorded)

    @precondition(lambda self: self.world.parked())
    @rule(pick=PICK, action=st.sampled_from([ParkedAction.RETRY, *ParkedAction]), lost=FLAG)
    def resolves_parked(self, pick: int, action: ParkedAction, lost: bool) -> None:  # noqa: FBT001 - drawn by Hypothesis
        found = self.world.parked()
        thread_id, seq = found[pick % len(found)]
        act = resolve_parked(thread_id, seq, action, 0)
        first = self.world.journal.run(act)
        if lost:
            assert type(self.world.journal.lose(act)) is type(first)

    @precondition(lambda self: self.has_runs)
    @rule(pick=PICK)
    def crashes_in_a_run(self, pick: int) -> None:
        process, _ = self.busy(pick)
        self.world.crash(process)
        self.world.declare_dead(process.session)

    @precondition(lambda self: self.world.processes)
    @rule(pick=PICK)
    def crashes_unseen(self, pick: int) -> None:
        self.world.crash(self.process(pick))

    @precondition(lambda self: self.world.journal.sessions)
    @rule(pick=PICK)
    def is_declared_dead(self, pick: int) -> None:
        standing = sorted(self.world.journal.sessions)
        self.world.declare_dead(standing[pick % len(standing)])

    @precondition(lambda self: self.world.journal.claims)
    @rule(thread_id=THREADS)
    def loses_its_claim_object(self, thread_id: str) -> None:
        removed = self.world.journal.claims.pop(thread_id, None)
        if removed is not None:
            self.world.removed[thread_id] = removed

    @precondition(lambda self: self.world.removed)
    @rule(thread_id=THREADS)
    def gets_its_old_claim_object_back(self, thread_id: str) -> None:
        if thread_id in self.world.removed:
            self.world.journal.claims[thread_id] = self.world.removed[thread_id]

    @precondition(lambda self: self.world.due())
    @rule(thread_id=THREADS, pick=PICK, token=st.integers(0, 9))
    def has_its_claim_edited(self, thread_id: str, pick: int, token: int) -> None:
        self.world.journal.claims[thread_id] = Claim(session=self.process(pick).session, token=token, nonce="by hand")

    @invariant()
    def holds(self) -> None:
        assert self.world.broken() == []

    def teardown(self) -> None:
        self.world.settle()
        assert self.world.broken(at_rest=True) == []


TestCore = Core.TestCase
TestCore.settings = settings(max_examples=100, stateful_step_count=50, deadline=None, derandomize=True)

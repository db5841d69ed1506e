"""What a decision sees, what it changes, and the draft in which it gathers its changes.

A journal runs an `Act` in one transaction: it locks the thread's row, loads what the act `needs` into a `Seen`, calls
`decide`, and stores the `Change`. A decision without a change (None) writes nothing. The draft is a local of one
decision; nothing in it outlives the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from turnkeeper.core.values import Claim, Entry, Json, Message, Parked, Question, Run, Step, Thread
from turnkeeper.core.words import Kind

PENDING_LOADED_MAX = 100
"""Most waiting messages that one decision sees, and so the most prompts of a turn. Arbitrary: bounds a transaction."""

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What an act must see besides the thread's row. An empty string means: not needed."""

    message_id: str = ""
    run_id: str = ""
    question_id: str = ""
    step_name: str = ""
    parked_seq: int = 0
    pending: bool = False  # the oldest waiting messages, and the oldest parked turn to retry
    turn: bool = False  # the prompts of the turn in progress, its open run, and what the row's session died with
    questions: bool = False  # those of the turn in progress, and of the parked one to retry
    claim_for: str = ""  # where claims share the database: the claim, and which sessions exist, asked by this session


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the transaction saw.

    pending: waiting messages, oldest first, at most PENDING_LOADED_MAX. prompts: messages of the turn in progress.
    questions: those of the turn in progress and of the one to retry, resolved ones too. retrying, retry_prompts: the
    oldest parked turn that a person asked to retry. died_with: how many runs the row's session left open or had
    abandoned. sessions: which of the sessions that the claim, the row and the act name do exist; together with `claim`
    only where asked for. repeated: the answer to an earlier try of this very act was lost, so what it would have done
    may stand already.
    """

    thread: Thread | None = None
    message: Message | None = None
    pending: tuple[Message, ...] = ()
    prompts: tuple[Message, ...] = ()
    run: Run | None = None
    question: Question | None = None
    questions: tuple[Question, ...] = ()
    step: Step | None = None
    parked: Parked | None = None
    retrying: Parked | None = None
    retry_prompts: tuple[Message, ...] = ()
    died_with: int = 0
    claim: Claim | None = None
    sessions: frozenset[str] = frozenset()
    repeated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What the transaction stores.

    claim: the claim that stands from now on, where `claim_changes`; None gives back that of the session `claim_of`, or
    of the row's, and of no other.
    """

    thread: Thread
    entries: tuple[Entry, ...] = ()
    messages: tuple[Message, ...] = ()
    runs: tuple[Run, ...] = ()
    questions: tuple[Question, ...] = ()
    steps: tuple[Step, ...] = ()
    parked: tuple[Parked, ...] = ()
    claim_changes: bool = False
    claim: Claim | None = None
    claim_of: str = ""


@dataclass(frozen=True, slots=True)
class Act(Generic[T_co]):
    """One action of the spec, ready to be run by a journal. `creates`: an unknown thread is made, not refused."""

    name: str
    thread_id: str
    decide: Callable[[Seen], tuple[T_co, Change | None]]
    needs: Needs = field(default_factory=Needs)
    creates: bool = False

    def parts(self, verdict: Any) -> tuple[tuple[str, object], ...]:  # noqa: ANN401 - its own verdict, told to observers
        """Return the actions that were carried out, each by its name with its verdict."""
        return ((self.name, verdict),)


class Draft:
    """Gathers the changes of one decision and hands out the thread's next seqs, gap-free."""

    def __init__(self, thread: Thread, now_ms: int) -> None:
        self.thread = thread
        self.now_ms = now_ms
        self._entries: list[Entry] = []
        self._messages: dict[str, Message] = {}
        self._runs: dict[str, Run] = {}
        self._questions: dict[str, Question] = {}
        self._steps: list[Step] = []
        self._parked: dict[int, Parked] = {}
        self._claim_changes = False
        self._claim: Claim | None = None

    def write(self, kind: Kind, body: Mapping[str, Json], run_id: str = "") -> int:
        """Append an entry and return its seq. A run's entry carries the token that stands in the row."""
        seq = self.thread.last_seq + 1
        token = self.thread.token if run_id else 0
        self._entries.append(
            Entry(seq=seq, kind=kind, created_ms=self.now_ms, run_id=run_id, token=token, body=body),
        )
        self.thread = replace(self.thread, last_seq=seq)
        return seq

    def put_message(self, message: Message) -> None:
        """Store a message, new or changed."""
        self._messages[message.message_id] = message

    def put_run(self, run: Run) -> None:
        """Store a run, new or changed."""
        self._runs[run.run_id] = run

    def put_question(self, question: Question) -> None:
        """Store a question, new or changed."""
        self._questions[question.question_id] = question

    def put_step(self, step: Step) -> None:
        """Store a step's result."""
        self._steps.append(step)

    def put_parked(self, parked: Parked) -> None:
        """Store a parked turn, new or changed."""
        self._parked[parked.seq] = parked

    def put_claim(self, claim: Claim | None) -> None:
        """Set the claim that stands from now on, or give it back."""
        self._claim_changes, self._claim = True, claim

    def change(self) -> Change:
        """Return what was gathered; when the thread became owed, the moment is noted here, once for all decisions."""
        thread = self.thread
        is_waiting = thread.run is not None or thread.is_owed
        if not is_waiting:
            thread = replace(thread, owed_since_ms=None)
        elif thread.owed_since_ms is None:
            thread = replace(thread, owed_since_ms=self.now_ms)
        return Change(
            thread=thread,
            entries=tuple(self._entries),
            messages=tuple(self._messages.values()),
            runs=tuple(self._runs.values()),
            questions=tuple(self._questions.values()),
            steps=tuple(self._steps),
            parked=tuple(self._parked.values()),
            claim_changes=self._claim_changes,
            claim=self._claim,
        )

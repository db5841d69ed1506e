"""An interpreter of Act and Change over dictionaries, which gives a decision exactly what it says that it needs.

It is no adapter: it has no ports, no errors and no paging, and it is strict where a database is lenient. What an act
did not ask for it does not see, so a decision that leans on more than its `Needs` fails here first.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeVar

from tests.invariants import ThreadDump
from turnkeeper.core.draft import PENDING_LOADED_MAX, Act, Change, Needs, Seen
from turnkeeper.core.values import Claim, Entry, Message, Parked, Question, Run, Step, Thread, TurnState
from turnkeeper.core.words import Fate, Outcome

T = TypeVar("T")

PROMPT_FATES = frozenset({Fate.STARTED, Fate.PARKED, Fate.RETRYING})


@dataclass
class Kept:
    """What is kept of one thread."""

    row: Thread
    entries: list[Entry] = field(default_factory=list)
    messages: dict[str, Message] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    questions: dict[str, Question] = field(default_factory=dict)
    steps: dict[tuple[str, str], Step] = field(default_factory=dict)
    parked: dict[int, Parked] = field(default_factory=dict)

    def dump(self) -> ThreadDump:
        """Return what the invariants are checked over."""
        return ThreadDump(
            row=self.row,
            entries=tuple(self.entries),
            messages=tuple(self.messages.values()),
            runs=tuple(self.runs.values()),
            questions=tuple(self.questions.values()),
            parked=tuple(self.parked.values()),
        )

    def prompts(self, turn_id: str, leg: int) -> tuple[Message, ...]:
        """Return what started the runs of a turn's leg."""
        found = (m for m in self.messages.values() if m.fate in PROMPT_FATES and (m.turn_id, m.leg) == (turn_id, leg))
        return tuple(sorted(found, key=lambda message: message.seq))


@dataclass
class DictJournal:
    """Threads, claims and the sessions that exist, as one store."""

    threads: dict[str, Kept] = field(default_factory=dict)
    claims: dict[str, Claim] = field(default_factory=dict)
    sessions: set[str] = field(default_factory=set)
    counted: Counter[tuple[str, str]] = field(default_factory=Counter)

    def run(self, act: Act[T]) -> T:
        """Run an act, and return its verdict."""
        return self.try_out(act)[0]

    def try_out(self, act: Act[T], *, repeated: bool = False) -> tuple[T, Change | None]:
        """Run an act, and return its verdict and what it changed."""
        verdict, change = act.decide(self.seen(act, repeated=repeated))
        self.counted[act.name, type(verdict).__name__] += 1
        if change is not None:
            assert change.thread.thread_id == act.thread_id
            assert act.creates or act.thread_id in self.threads
            self.apply(change)
        return verdict, change

    def lose(self, act: Act[T]) -> T:
        """Run an act whose answer is lost, and ask again."""
        self.try_out(act)
        verdict, change = self.try_out(act, repeated=True)
        is_idle = change is None or change == Change(thread=change.thread, claim_changes=change.claim_changes)
        assert is_idle, f"{act.name} was done twice"
        return verdict

    def seen(self, act: Act[T], *, repeated: bool = False) -> Seen:
        """Return what the act's needs name, and nothing else."""
        kept, needs = self.threads.get(act.thread_id), act.needs
        if kept is None and not act.creates:
            return Seen(repeated=repeated)
        kept = kept or Kept(Thread(thread_id=act.thread_id))  # databases make the row before they look
        parked = kept.parked.get(needs.parked_seq) if needs.parked_seq else None
        turn = kept.row.turn
        # Databases look for what waits only where the cursors say that something does.
        is_sought = needs.pending and kept.row.asked > kept.row.taken
        waiting = sorted((m for m in kept.messages.values() if m.fate is Fate.PENDING), key=lambda m: m.seq)
        retries = sorted((p for p in kept.parked.values() if p.ask_seq), key=lambda p: p.ask_seq)
        retrying = retries[0] if retries and is_sought else None
        return Seen(
            thread=kept.row,
            message=kept.messages.get(needs.message_id) if needs.message_id else None,
            pending=tuple(waiting[:PENDING_LOADED_MAX]) if is_sought else (),
            prompts=self._prompts(kept, needs, parked),
            run=self._run(kept, needs),
            question=kept.questions.get(needs.question_id) if needs.question_id else None,
            questions=_questions(kept, turn, retrying) if needs.questions else (),
            step=kept.steps.get((turn.turn_id, needs.step_name)) if turn and needs.step_name else None,
            parked=parked,
            retrying=retrying,
            retry_prompts=kept.prompts(retrying.turn_id, retrying.leg) if retrying and needs.turn else (),
            died_with=self._died_with(kept.row.session) if needs.turn else 0,
            claim=self.claims.get(act.thread_id) if needs.claim_for else None,
            sessions=self._sessions(kept, needs),
            repeated=repeated,
        )

    def apply(self, change: Change) -> None:
        """Store a change, as a database would; a claim is set, or taken from the row's session alone."""
        thread_id = change.thread.thread_id
        kept = self.threads.setdefault(thread_id, Kept(change.thread))
        kept.row = change.thread
        kept.entries.extend(change.entries)
        kept.messages.update({message.message_id: message for message in change.messages})
        kept.runs.update({run.run_id: run for run in change.runs})
        kept.questions.update({question.question_id: question for question in change.questions})
        kept.steps.update({(step.turn_id, step.name): step for step in change.steps})
        kept.parked.update({parked.seq: parked for parked in change.parked})
        if change.claim_changes and change.claim is not None:
            self.claims[thread_id] = change.claim
        elif change.claim_changes and self.claims.get(thread_id, Claim(session="", token=0, nonce="")).session == (
            change.claim_of or change.thread.session
        ):
            del self.claims[thread_id]

    def dumps(self) -> dict[str, ThreadDump]:
        """Return every thread's dump by its id."""
        return {thread_id: kept.dump() for thread_id, kept in self.threads.items()}

    def _prompts(self, kept: Kept, needs: Needs, parked: Parked | None) -> tuple[Message, ...]:
        if parked is not None:
            return kept.prompts(parked.turn_id, parked.leg)
        turn = kept.row.turn
        return kept.prompts(turn.turn_id, turn.leg) if turn is not None and needs.turn else ()

    def _run(self, kept: Kept, needs: Needs) -> Run | None:
        open_id = kept.row.run.run_id if needs.turn and kept.row.run else ""
        return kept.runs.get(needs.run_id or open_id)

    def _died_with(self, session: str) -> int:
        runs = (run for kept in self.threads.values() for run in kept.runs.values())
        return sum(run.session == session and run.outcome in {None, Outcome.ABANDONED} for run in runs)

    def _sessions(self, kept: Kept, needs: Needs) -> frozenset[str]:
        if not needs.claim_for:
            return frozenset()
        claim = self.claims.get(kept.row.thread_id)
        named = {needs.claim_for, kept.row.session, claim.session if claim else ""}
        return frozenset(named & self.sessions)


def _questions(kept: Kept, *turns: TurnState | Parked | None) -> tuple[Question, ...]:
    turn_ids = {turn.turn_id for turn in turns if turn is not None}
    return tuple(question for question in kept.questions.values() if question.turn_id in turn_ids)

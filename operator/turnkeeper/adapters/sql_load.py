"""What a batch of acts must see, loaded with one statement for each kind of thing, however many threads are in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, literal_column, select

from turnkeeper.adapters import sql_rows as rows
from turnkeeper.adapters.sql_lookup import Lookup, LookupOfEach
from turnkeeper.adapters.sql_tables import (
    IS_PENDING,
    IS_RETRYING,
    IS_UNENDED,
    claims,
    entries,
    messages,
    parked,
    questions,
    runs,
    sessions,
    steps,
)
from turnkeeper.core.draft import PENDING_LOADED_MAX, Act, Seen
from turnkeeper.core.values import Claim, Message, Parked, Question, Run, Step, Thread
from turnkeeper.core.words import Fate

_PROMPT_FATES = (Fate.STARTED, Fate.PARKED, Fate.RETRYING)


@dataclass(slots=True)
class Wanted:
    """An act, its thread's row under lock, and what was loaded for it."""

    act: Act[Any]
    key: int
    thread: Thread
    message: Message | None = None
    pending: list[Message] = field(default_factory=list)
    prompts: list[Message] = field(default_factory=list)
    run: Run | None = None
    question: Question | None = None
    questions: list[Question] = field(default_factory=list)
    step: Step | None = None
    parked: Parked | None = None
    retrying: Parked | None = None
    retry_prompts: list[Message] = field(default_factory=list)
    died_with: int = 0
    claim: Claim | None = None
    sessions: frozenset[str] = frozenset()

    def seen(self, *, repeated: bool) -> Seen:
        """Return what the act's decision is given."""
        return Seen(
            thread=self.thread,
            message=self.message,
            pending=tuple(self.pending),
            prompts=tuple(self.prompts),
            run=self.run,
            question=self.question,
            questions=tuple(self.questions),
            step=self.step,
            parked=self.parked,
            retrying=self.retrying,
            retry_prompts=tuple(self.retry_prompts),
            died_with=self.died_with,
            claim=self.claim,
            sessions=self.sessions,
            repeated=repeated,
        )


def load(connection: Connection, workspace: str, batch: Sequence[Wanted]) -> None:
    """Load for each act what it needs and its thread can have."""
    _load_messages(connection, batch)
    _load_pending(connection, batch)
    _load_parked(connection, batch)
    _load_prompts(connection, batch)
    _load_runs(connection, batch)
    _load_died_with(connection, batch)
    _load_questions(connection, batch)
    _load_steps(connection, batch)
    _load_claims(connection, workspace, batch)


_MESSAGES = Lookup((messages.c.thread_key, messages.c.message_id), lambda found: select(messages).where(found))
_RUNS = Lookup((runs.c.run_id,), lambda found: select(runs).where(found))
_STEPS = Lookup((steps.c.thread_key, steps.c.turn_id, steps.c.name), lambda found: select(steps).where(found))
_CLAIMS = Lookup((claims.c.workspace, claims.c.thread_id), lambda found: select(claims).where(found))
_SESSIONS = Lookup((sessions.c.workspace, sessions.c.session), lambda found: select(sessions.c.session).where(found))
_PARKED = Lookup((parked.c.thread_key, parked.c.seq), lambda found: select(parked).where(found))
_RETRYING = Lookup(
    (parked.c.thread_key,), lambda found: select(parked).where(found, IS_RETRYING).order_by(parked.c.ask_seq)
)
_QUESTIONS = Lookup((questions.c.thread_key, questions.c.question_id), lambda found: select(questions).where(found))
_QUESTIONS_OF_TURNS = Lookup(
    (questions.c.thread_key, questions.c.turn_id),
    lambda found: select(questions).where(found).order_by(questions.c.question_id),
)
_UNENDED = Lookup(
    (runs.c.session,),
    lambda found: (
        select(runs.c.session, func.count().label("died_with")).where(found, IS_UNENDED).group_by(runs.c.session)
    ),
)


def _oldest_pending(found: ColumnElement[bool]) -> Select[Any]:
    """A thread may have any number of waiting messages: no more are read than a decision can use."""
    return (
        select(messages, entries.c.body)
        .join(entries, and_(entries.c.thread_key == messages.c.thread_key, entries.c.seq == messages.c.seq))
        .where(found, IS_PENDING)
        .order_by(messages.c.seq)
        .limit(literal_column(str(PENDING_LOADED_MAX)))
        .offset(literal_column("0"))  # SQLAlchemy would add it for SQLite, as a parameter of its own
    )


def _prompts(found: ColumnElement[bool]) -> Select[Any]:
    return (
        select(messages, entries.c.body)
        .join(entries, and_(entries.c.thread_key == messages.c.thread_key, entries.c.seq == messages.c.seq))
        .where(found, messages.c.fate.in_([literal_column(f"'{fate.value}'") for fate in _PROMPT_FATES]))
        .order_by(messages.c.thread_key, messages.c.seq)
    )


_PENDING = LookupOfEach((messages.c.thread_key,), _oldest_pending)
_PROMPTS = Lookup((messages.c.thread_key, messages.c.turn_id, messages.c.leg), _prompts)


def _load_messages(connection: Connection, batch: Sequence[Wanted]) -> None:
    wanting = {(w.key, w.act.needs.message_id): w for w in batch if w.act.needs.message_id and w.thread.last_seq}
    if not wanting:
        return
    for row in _MESSAGES.by_keys(connection, wanting):
        if wanted := wanting.get((row.thread_key, row.message_id)):
            wanted.message = rows.message_from(row)


def _load_pending(connection: Connection, batch: Sequence[Wanted]) -> None:
    wanting = {w.key: w for w in batch if w.act.needs.pending and w.thread.asked > w.thread.taken}
    if not wanting:
        return
    for row in _PENDING(connection, wanting):
        wanting[row.thread_key].pending.append(rows.message_from(row))
    for wanted in wanting.values():
        wanted.pending.sort(key=attrgetter("seq"))


def _load_parked(connection: Connection, batch: Sequence[Wanted]) -> None:
    by_seq = {(w.key, w.act.needs.parked_seq): w for w in batch if w.act.needs.parked_seq}
    for row in _PARKED.by_keys(connection, by_seq) if by_seq else ():
        if wanted := by_seq.get((row.thread_key, row.seq)):
            wanted.parked = rows.parked_from(row)
    retries = {w.key: w for w in batch if w.act.needs.pending and w.thread.asked > w.thread.taken}
    for row in _RETRYING(connection, retries) if retries else ():
        waiting = retries[row.thread_key]
        if waiting.retrying is None:
            waiting.retrying = rows.parked_from(row)


def _load_prompts(connection: Connection, batch: Sequence[Wanted]) -> None:
    wanting: dict[tuple[int, str, int], list[Message]] = {}
    for w in batch:
        if w.parked is not None:
            wanting[w.key, w.parked.turn_id, w.parked.leg] = w.prompts
        elif w.act.needs.turn and w.thread.turn is not None:
            wanting[w.key, w.thread.turn.turn_id, w.thread.turn.leg] = w.prompts
        if w.act.needs.turn and w.retrying is not None:
            wanting[w.key, w.retrying.turn_id, w.retrying.leg] = w.retry_prompts
    if not wanting:
        return
    for row in _PROMPTS.by_keys(connection, wanting):
        if (row.thread_key, row.turn_id, row.leg) in wanting:
            wanting[row.thread_key, row.turn_id, row.leg].append(rows.message_from(row))


def _load_runs(connection: Connection, batch: Sequence[Wanted]) -> None:
    wanting: dict[str, Wanted] = {}
    for w in batch:
        open_id = w.thread.run.run_id if w.act.needs.turn and w.thread.run is not None else ""
        if run_id := w.act.needs.run_id or open_id:
            wanting[run_id] = w
    for row in _RUNS(connection, wanting) if wanting else ():
        if wanting[row.run_id].key == row.thread_key:
            wanting[row.run_id].run = rows.run_from(row)


def _load_died_with(connection: Connection, batch: Sequence[Wanted]) -> None:
    wanting = defaultdict(list)
    for w in batch:
        if w.act.needs.turn and w.thread.run is not None:
            wanting[w.thread.session].append(w)
    if not wanting:
        return
    for row in _UNENDED(connection, wanting):
        for wanted in wanting[row.session]:
            wanted.died_with = row.died_with


def _load_questions(connection: Connection, batch: Sequence[Wanted]) -> None:
    by_id = {(w.key, w.act.needs.question_id): w for w in batch if w.act.needs.question_id}
    by_turn = {
        (w.key, w.thread.turn.turn_id): w
        for w in batch
        if w.act.needs.questions and w.thread.turn is not None and w.thread.turn.leg
    }
    by_turn |= {(w.key, w.retrying.turn_id): w for w in batch if w.act.needs.questions and w.retrying is not None}
    for row in _QUESTIONS.by_keys(connection, by_id) if by_id else ():
        if wanted := by_id.get((row.thread_key, row.question_id)):
            wanted.question = rows.question_from(row)
    for row in _QUESTIONS_OF_TURNS.by_keys(connection, by_turn) if by_turn else ():
        if wanted := by_turn.get((row.thread_key, row.turn_id)):
            wanted.questions.append(rows.question_from(row))


def _load_steps(connection: Connection, batch: Sequence[Wanted]) -> None:
    wanting = {
        (w.key, w.thread.turn.turn_id, w.act.needs.step_name): w
        for w in batch
        if w.act.needs.step_name and w.thread.turn is not None
    }
    if not wanting:
        return
    for row in _STEPS.by_keys(connection, wanting):
        if wanted := wanting.get((row.thread_key, row.turn_id, row.name)):
            wanted.step = rows.step_from(row)


def _load_claims(connection: Connection, workspace: str, batch: Sequence[Wanted]) -> None:
    wanting = {w.thread.thread_id: w for w in batch if w.act.needs.claim_for}
    if not wanting:
        return
    for row in _CLAIMS(connection, (workspace,), wanting):
        wanting[row.thread_id].claim = rows.claim_from(row)
    named = {w.act.needs.claim_for for w in wanting.values()}
    named |= {w.thread.session for w in wanting.values()}
    named |= {w.claim.session for w in wanting.values() if w.claim is not None}
    existing = existing_sessions(connection, workspace, sorted(named))
    for wanted in wanting.values():
        wanted.sessions = existing


def existing_sessions(connection: Connection, workspace: str, named: Sequence[str]) -> frozenset[str]:
    """Return which of the sessions exist."""
    return frozenset(row.session for row in _SESSIONS(connection, (workspace,), named))

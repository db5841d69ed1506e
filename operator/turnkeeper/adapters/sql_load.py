"""What a batch of acts must see, loaded with one statement for each kind of thing, however many threads are in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, Row, and_, func, or_, select

from turnkeeper.adapters import sql_rows as rows
from turnkeeper.adapters.sql_tables import (
    IS_PENDING,
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

V = TypeVar("V")

_PROMPT_FATES = (Fate.STARTED.value, Fate.PARKED.value, Fate.RETRYING.value)


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


def padded(values: Iterable[V]) -> list[V]:
    """Repeat the last value up to a power of two, so that few distinct statements have to be prepared."""
    found = list(values)
    return found + found[-1:] * ((1 << (len(found) - 1).bit_length()) - len(found)) if found else found


def among(columns: Sequence[Column[Any]], keys: Iterable[tuple[Any, ...]]) -> ColumnElement[bool]:
    """Return what finds all rows of these keys, and some that mix the parts of two: the reader leaves those out.

    A list for each column is looked up by an index; SQLite looks up a list of tuples by reading the whole table.
    """
    parts = zip(*keys, strict=True)
    return and_(*(column.in_(padded(dict.fromkeys(part))) for column, part in zip(columns, parts, strict=True)))


def _load_messages(connection: Connection, batch: Sequence[Wanted]) -> None:
    wanting = {(w.key, w.act.needs.message_id): w for w in batch if w.act.needs.message_id and w.thread.last_seq}
    if not wanting:
        return
    where = among((messages.c.thread_key, messages.c.message_id), wanting)
    for row in connection.execute(select(messages).where(where)):
        if wanted := wanting.get((row.thread_key, row.message_id)):
            wanted.message = rows.message_from(row)


def _load_pending(connection: Connection, batch: Sequence[Wanted]) -> None:
    wanting = {w.key: w for w in batch if w.act.needs.pending and w.thread.asked > w.thread.taken}
    if not wanting:
        return
    number = func.row_number().over(partition_by=messages.c.thread_key, order_by=messages.c.seq).label("number")
    where = and_(messages.c.thread_key.in_(padded(wanting)), IS_PENDING)
    first = select(messages, number).where(where).subquery()
    query = (
        select(first, entries.c.body)
        .join(entries, and_(entries.c.thread_key == first.c.thread_key, entries.c.seq == first.c.seq))
        .where(first.c.number <= PENDING_LOADED_MAX)
        .order_by(first.c.thread_key, first.c.seq)
    )
    for row in connection.execute(query):
        wanting[row.thread_key].pending.append(rows.message_from(row))


def _load_parked(connection: Connection, batch: Sequence[Wanted]) -> None:
    by_seq = {(w.key, w.act.needs.parked_seq): w for w in batch if w.act.needs.parked_seq}
    retries = {w.key: w for w in batch if w.act.needs.pending and w.thread.asked > w.thread.taken}
    where: list[ColumnElement[bool]] = []
    if by_seq:
        where.append(among((parked.c.thread_key, parked.c.seq), by_seq))
    if retries:
        where.append(and_(parked.c.thread_key.in_(padded(retries)), parked.c.ask_seq > 0))
    if not where:
        return
    for row in connection.execute(select(parked).where(or_(*where)).order_by(parked.c.ask_seq)):
        found = rows.parked_from(row)
        if wanted := by_seq.get((row.thread_key, row.seq)):
            wanted.parked = found
        waiting = retries.get(row.thread_key)
        if waiting is not None and waiting.retrying is None and found.ask_seq:
            waiting.retrying = found


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
    query = (
        select(messages, entries.c.body)
        .join(entries, and_(entries.c.thread_key == messages.c.thread_key, entries.c.seq == messages.c.seq))
        .where(among((messages.c.thread_key, messages.c.turn_id, messages.c.leg), wanting))
        .where(messages.c.fate.in_(_PROMPT_FATES))
        .order_by(messages.c.thread_key, messages.c.seq)
    )
    for row in connection.execute(query):
        if (row.thread_key, row.turn_id, row.leg) in wanting:
            wanting[row.thread_key, row.turn_id, row.leg].append(rows.message_from(row))


def _load_runs(connection: Connection, batch: Sequence[Wanted]) -> None:
    wanting: dict[str, Wanted] = {}
    for w in batch:
        open_id = w.thread.run.run_id if w.act.needs.turn and w.thread.run is not None else ""
        if run_id := w.act.needs.run_id or open_id:
            wanting[run_id] = w
    for row in _rows_in(connection, runs.c.run_id, list(wanting)):
        if wanting[row.run_id].key == row.thread_key:
            wanting[row.run_id].run = rows.run_from(row)


def _load_died_with(connection: Connection, batch: Sequence[Wanted]) -> None:
    wanting = defaultdict(list)
    for w in batch:
        if w.act.needs.turn and w.thread.run is not None:
            wanting[w.thread.session].append(w)
    if not wanting:
        return
    query = (
        select(runs.c.session, func.count().label("died_with"))
        .where(runs.c.session.in_(padded(wanting)), IS_UNENDED)
        .group_by(runs.c.session)
    )
    for row in connection.execute(query):
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
    where: list[ColumnElement[bool]] = []
    if by_id:
        where.append(among((questions.c.thread_key, questions.c.question_id), by_id))
    if by_turn:
        where.append(among((questions.c.thread_key, questions.c.turn_id), by_turn))
    if not where:
        return
    for row in connection.execute(select(questions).where(or_(*where)).order_by(questions.c.question_id)):
        found = rows.question_from(row)
        if wanted := by_id.get((row.thread_key, row.question_id)):
            wanted.question = found
        if wanted := by_turn.get((row.thread_key, row.turn_id)):
            wanted.questions.append(found)


def _load_steps(connection: Connection, batch: Sequence[Wanted]) -> None:
    wanting = {
        (w.key, w.thread.turn.turn_id, w.act.needs.step_name): w
        for w in batch
        if w.act.needs.step_name and w.thread.turn is not None
    }
    if not wanting:
        return
    where = among((steps.c.thread_key, steps.c.turn_id, steps.c.name), wanting)
    for row in connection.execute(select(steps).where(where)):
        if wanted := wanting.get((row.thread_key, row.turn_id, row.name)):
            wanted.step = rows.step_from(row)


def _load_claims(connection: Connection, workspace: str, batch: Sequence[Wanted]) -> None:
    wanting = {w.thread.thread_id: w for w in batch if w.act.needs.claim_for}
    if not wanting:
        return
    query = select(claims).where(claims.c.workspace == workspace, claims.c.thread_id.in_(padded(wanting)))
    for row in connection.execute(query):
        wanting[row.thread_id].claim = rows.claim_from(row)
    named = {w.act.needs.claim_for for w in wanting.values()}
    named |= {w.thread.session for w in wanting.values()}
    named |= {w.claim.session for w in wanting.values() if w.claim is not None}
    existing = existing_sessions(connection, workspace, sorted(named))
    for wanted in wanting.values():
        wanted.sessions = existing


def existing_sessions(connection: Connection, workspace: str, named: Sequence[str]) -> frozenset[str]:
    """Return which of the sessions exist."""
    query = select(sessions.c.session).where(sessions.c.workspace == workspace, sessions.c.session.in_(padded(named)))
    return frozenset(connection.scalars(query))


def _rows_in(connection: Connection, column: Column[str], values: Sequence[str]) -> Sequence[Row[Any]]:
    if not values:
        return ()
    return connection.execute(select(column.table).where(column.in_(padded(values)))).all()

"""A journal and claims in memory: real adapters, held to the contract. Several runners may share one store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeVar

from turnkeeper.core import claim as claims
from turnkeeper.core.claim import Busy, Claimed, SessionGone, SessionRecord
from turnkeeper.core.draft import PENDING_LOADED_MAX, Act, Change, Needs, Seen
from turnkeeper.core.trace import verdict_name
from turnkeeper.core.values import Claim, Entry, Message, Parked, Question, Run, Stats, Step, Thread
from turnkeeper.core.words import Fate, Kind, Outcome, Resolution, ThreadState
from turnkeeper.ports import Observer

T = TypeVar("T")

_PROMPT_FATES = frozenset({Fate.STARTED, Fate.PARKED, Fate.RETRYING})
_HISTORY_KINDS = frozenset({Kind.MESSAGE, Kind.NOTE, Kind.RUN_ENDED})


@dataclass
class ThreadStore:
    """All that is kept of one thread."""

    thread: Thread
    entries: list[Entry] = field(default_factory=list)
    messages: dict[str, Message] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    questions: dict[str, Question] = field(default_factory=dict)
    steps: dict[tuple[str, str], Step] = field(default_factory=dict)
    parked: dict[int, Parked] = field(default_factory=dict)


@dataclass
class MemoryStore:
    """What a database would be: the threads of one workspace, its sessions and its claims."""

    threads: dict[str, ThreadStore] = field(default_factory=dict)
    sessions: dict[str, SessionRecord] = field(default_factory=dict)
    claims: dict[str, Claim] = field(default_factory=dict)
    versions: Iterator[int] = field(default_factory=count)


class MemoryJournal:
    """A journal over a `MemoryStore`. An act runs without an await in it: that is its transaction.

    fused: an act's claim is changed with the rest; else the store's claims are left to `MemoryClaims`.
    """

    def __init__(
        self,
        workspace: str,
        store: MemoryStore | None = None,
        observer: Observer | None = None,
        *,
        fused: bool = False,
    ) -> None:
        self.workspace = workspace
        self.store = store if store is not None else MemoryStore()
        self._observer = observer
        self._fused = fused

    async def transact(self, act: Act[T]) -> T:
        """See `ports.Journal`."""
        verdict = self._transact(act)
        if self._observer is not None:
            for name, each in act.parts(verdict):
                self._observer.acted(name, act.thread_id, verdict_name(each), 0.0)
        return verdict

    def _transact(self, act: Act[T]) -> T:
        kept = self.store.threads.get(act.thread_id)
        verdict, change = act.decide(self._seen(act.thread_id, kept, act.needs))
        if change is not None:
            self._apply(change)
        return verdict

    def _seen(self, thread_id: str, kept: ThreadStore | None, needs: Needs) -> Seen:
        claim, sessions = self.store.claims.get(thread_id), frozenset(self.store.sessions)
        if kept is None:
            return Seen(claim=claim, sessions=sessions)
        turn, run = kept.thread.turn, kept.thread.run
        retrying = min((p for p in kept.parked.values() if p.ask_seq), key=lambda p: p.ask_seq, default=None)
        parked = kept.parked.get(needs.parked_seq)
        of = parked if parked is not None else turn
        waiting = _by_seq(m for m in kept.messages.values() if m.fate is Fate.PENDING)
        turn_ids = {of.turn_id for of in (turn, retrying) if of is not None}
        run_id = needs.run_id or (run.run_id if run is not None else "")
        return Seen(
            thread=kept.thread,
            message=kept.messages.get(needs.message_id),
            pending=waiting[:PENDING_LOADED_MAX],
            prompts=_prompts(kept, of.turn_id, of.leg) if of is not None else (),
            run=kept.runs.get(run_id),
            question=kept.questions.get(needs.question_id),
            questions=tuple(q for q in kept.questions.values() if q.turn_id in turn_ids),
            step=kept.steps.get((turn.turn_id if turn is not None else "", needs.step_name)),
            parked=parked,
            retrying=retrying,
            retry_prompts=_prompts(kept, retrying.turn_id, retrying.leg) if retrying is not None else (),
            died_with=self._died_with(kept.thread.session),
            claim=claim,
            sessions=sessions,
        )

    def _died_with(self, session: str) -> int:
        runs = (run for kept in self.store.threads.values() for run in kept.runs.values())
        return sum(run.session == session and run.outcome in (None, Outcome.ABANDONED) for run in runs)

    def _apply(self, change: Change) -> None:
        thread_id = change.thread.thread_id
        kept = self.store.threads.setdefault(thread_id, ThreadStore(change.thread))
        kept.thread = change.thread
        kept.entries.extend(change.entries)
        kept.messages.update({message.message_id: message for message in change.messages})
        kept.runs.update({run.run_id: run for run in change.runs})
        kept.questions.update({question.question_id: question for question in change.questions})
        kept.steps.update({(step.turn_id, step.name): step for step in change.steps})
        kept.parked.update({parked.seq: parked for parked in change.parked})
        if self._fused and change.claim_changes:
            self._put_claim(change)

    def _put_claim(self, change: Change) -> None:
        thread_id = change.thread.thread_id
        known = self.store.claims.get(thread_id)
        if change.claim is not None:
            self.store.claims[thread_id] = change.claim
        elif known is not None and known.session == (change.claim_of or change.thread.session):
            del self.store.claims[thread_id]

    def _rows(self) -> list[Thread]:
        return [kept.thread for _, kept in sorted(self.store.threads.items())]

    async def thread(self, thread_id: str) -> Thread | None:
        """See `ports.Journal`."""
        kept = self.store.threads.get(thread_id)
        return kept.thread if kept else None

    async def threads(self, state: ThreadState | None, after: str, limit: int) -> Sequence[Thread]:
        """See `ports.Journal`."""
        rows = (row for row in self._rows() if row.thread_id > after and state in (None, row.state))
        return [row for row, _ in zip(rows, range(limit), strict=False)]

    async def owed(self, state: ThreadState, after: tuple[int, str] | None, limit: int) -> Sequence[Thread]:
        """See `ports.Journal`."""
        rows = sorted((row.owed_since_ms or 0, row.thread_id, row) for row in self._rows() if row.state is state)
        return [row for since, thread_id, row in rows if after is None or (since, thread_id) > after][:limit]

    async def ran_by(self, session: str) -> Sequence[str]:
        """See `ports.Journal`."""
        return [row.thread_id for row in self._rows() if row.run is not None and row.session == session]

    async def log(self, thread_id: str, after: int, limit: int) -> Sequence[Entry]:
        """See `ports.Journal`."""
        kept = self.store.threads.get(thread_id)
        return kept.entries[max(after, 0) :][:limit] if kept else []

    async def history(self, thread_id: str, before: int, limit: int) -> Sequence[Entry]:
        """See `ports.Journal`."""
        kept = self.store.threads.get(thread_id)
        entries = kept.entries[: max(before - 1, 0)] if kept else []
        return [entry for entry in entries if entry.kind in _HISTORY_KINDS][-limit:]

    async def waiting(self, thread_id: str, after: int, limit: int) -> Sequence[Message]:
        """See `ports.Journal`."""
        kept = self.store.threads.get(thread_id)
        messages = kept.messages.values() if kept else ()
        return _by_seq(m for m in messages if m.fate is Fate.PENDING and m.seq > after)[:limit]

    async def message(self, thread_id: str, message_id: str) -> Message | None:
        """See `ports.Journal`."""
        kept = self.store.threads.get(thread_id)
        return kept.messages.get(message_id) if kept else None

    async def question(self, thread_id: str, question_id: str) -> Question | None:
        """See `ports.Journal`."""
        kept = self.store.threads.get(thread_id)
        return kept.questions.get(question_id) if kept else None

    async def questions(self, thread_id: str) -> Sequence[Question]:
        """See `ports.Journal`."""
        kept = self.store.threads.get(thread_id)
        return [q for q in (kept.questions.values() if kept else ()) if q.resolution is Resolution.OPEN]

    async def parked(self, thread_id: str) -> Sequence[Parked]:
        """See `ports.Journal`."""
        kept = self.store.threads.get(thread_id)
        return [parked for parked in kept.parked.values() if not parked.resolved] if kept else []

    async def run(self, run_id: str) -> tuple[str, Run] | None:
        """See `ports.Journal`."""
        for thread_id, kept in self.store.threads.items():
            if run_id in kept.runs:
                return thread_id, kept.runs[run_id]
        return None

    async def heads(self, thread_ids: Sequence[str]) -> Mapping[str, int]:
        """See `ports.Journal`."""
        known = self.store.threads
        return {thread_id: known[thread_id].thread.last_seq for thread_id in thread_ids if thread_id in known}

    async def overdue(self, now_ms: int, limit: int) -> Sequence[tuple[str, str]]:
        """See `ports.Journal`."""
        return [
            (thread_id, question.question_id)
            for thread_id, kept in self.store.threads.items()
            for question in kept.questions.values()
            if question.resolution is Resolution.OPEN and question.expires_ms and question.expires_ms <= now_ms
        ][:limit]

    async def stats(self) -> Stats:
        """See `ports.Journal`."""
        rows = self._rows()
        count = {state: sum(row.state is state for row in rows) for state in ThreadState}
        waits = [row.owed_since_ms or 0 for row in rows if row.state is ThreadState.OWED]
        return Stats(
            owed=count[ThreadState.OWED],
            running=count[ThreadState.RUNNING],
            paused=count[ThreadState.PAUSED],
            parked=sum(row.parked for row in rows),
            oldest_owed_ms=min(waits, default=None),
        )

    async def aclose(self) -> None:
        """See `ports.Journal`."""


class MemoryClaims:
    """Sessions and claims over a `MemoryStore`."""

    def __init__(self, workspace: str, store: MemoryStore | None = None) -> None:
        self.workspace = workspace
        self.store = store if store is not None else MemoryStore()

    async def open_session(
        self, session: str, runner: str, duration_seconds: float, address: str = ""
    ) -> SessionRecord:
        """See `ports.Claims`."""
        fresh = SessionRecord(
            session=session, runner=runner, version="", duration_seconds=duration_seconds, address=address
        )
        return self.store.sessions.get(session) or self._put(fresh)

    async def renew(self, session: str) -> SessionRecord | SessionGone:
        """See `ports.Claims`."""
        return self._put(known) if (known := self.store.sessions.get(session)) else SessionGone()

    def _put(self, record: SessionRecord) -> SessionRecord:
        newer = self.store.sessions[record.session] = replace(record, version=str(next(self.store.versions)))
        return newer

    async def close_session(self, session: str) -> None:
        """See `ports.Claims`."""
        self.store.sessions.pop(session, None)

    async def sessions(self) -> Sequence[SessionRecord]:
        """See `ports.Claims`."""
        return list(self.store.sessions.values())

    async def session(self, session: str) -> SessionRecord | None:
        """See `ports.Claims`."""
        return self.store.sessions.get(session)

    async def declare_dead(self, record: SessionRecord) -> bool:
        """See `ports.Claims`."""
        if is_unchanged := self.store.sessions.get(record.session) == record:
            del self.store.sessions[record.session]
        return is_unchanged

    async def claim(self, thread_id: str, session: str, nonce: str, journal_token: int) -> Claimed | Busy | SessionGone:
        """See `ports.Claims`."""
        verdict = claims.claim(
            self.store.claims.get(thread_id),
            session=session,
            nonce=nonce,
            journal_token=journal_token,
            existing=frozenset(self.store.sessions),
        )
        if isinstance(verdict, Claimed):
            self.store.claims[thread_id] = verdict.claim
        return verdict

    async def release(self, thread_id: str, claim: Claim) -> None:
        """See `ports.Claims`."""
        known = self.store.claims.get(thread_id)
        if known is not None and (known.session, known.token) == (claim.session, claim.token):
            del self.store.claims[thread_id]


def _by_seq(messages: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(sorted(messages, key=lambda message: message.seq))


def _prompts(kept: ThreadStore, turn_id: str, leg: int) -> tuple[Message, ...]:
    found = (m for m in kept.messages.values() if m.fate in _PROMPT_FATES and (m.turn_id, m.leg) == (turn_id, leg))
    return _by_seq(found)

"""What must hold: the invariants over the journal, and what only somebody who sees everything can check."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TypeVar

from tests.invariants import ThreadDump, breaches, cursors_forward
from tests.sim.process import Life, Stores
from tests.sim.workload import Used
from turnkeeper.adapters.memory import MemoryStore, ThreadStore
from turnkeeper.core.claim import SessionRecord
from turnkeeper.core.values import Claim
from turnkeeper.core.words import Fate, Kind

V = TypeVar("V")


class Watching:
    """The claim store's own guards: LiveClaimStands, and a session that is gone stays gone."""

    def __init__(self) -> None:
        self.breaches: list[str] = []
        self.on_gone: Callable[[str], None] | None = None
        self.by_hand: dict[str, Claim] = {}
        self.seen: defaultdict[str, list[Claim]] = defaultdict(list)
        self.sessions = _Sessions(self)
        self.claims = _Claims(self)


class _Sessions(dict[str, SessionRecord]):
    def __init__(self, watching: Watching) -> None:
        super().__init__()
        self._watching = watching
        self._gone: set[str] = set()

    def __setitem__(self, session: str, record: SessionRecord) -> None:
        if session in self._gone:
            self._watching.breaches.append(f"SessionGone: {session[:6]} was gone and is there again")
        super().__setitem__(session, record)

    def __delitem__(self, session: str) -> None:
        self._note(session)
        super().__delitem__(session)

    def pop(self, session: str, *default: object) -> object:  # type: ignore[override] # one of dict's overloads is used
        self._note(session)
        return super().pop(session, *default)

    def _note(self, session: str) -> None:
        self._gone.add(session)
        if session in self and self._watching.on_gone is not None:
            self._watching.on_gone(session)


class _Claims(dict[str, Claim]):
    def __init__(self, watching: Watching) -> None:
        super().__init__()
        self._watching = watching

    def __setitem__(self, thread_id: str, claim: Claim) -> None:
        known, watching = self.get(thread_id), self._watching
        is_by_hand = known is not None and watching.by_hand.get(thread_id) == known
        if known is not None and known.session != claim.session and known.session in watching.sessions:
            where = f"{thread_id}, of session {known.session[:6]}, which exists, by {claim.session[:6]}"
            watching.breaches.append(f"LiveClaimStands: the claim of {where}{' (by hand)' if is_by_hand else ''}")
        watching.seen[thread_id].append(claim)
        super().__setitem__(thread_id, claim)

    def put_by_hand(self, thread_id: str, claim: Claim) -> None:
        """Put a claim there as a hand would, past all guards."""
        self._watching.by_hand[thread_id] = claim
        super().__setitem__(thread_id, claim)


class Checks:
    """Looks at the whole world, now and then and at rest."""

    def __init__(self, stores: Stores, watching: Watching, used: Mapping[str, Used]) -> None:
        self._stores = stores
        self._used = used
        self._watching = watching
        self._before: dict[str, ThreadDump] = {}

    def always(self) -> list[str]:
        """Return what is wrong now, whatever goes on."""
        dumps = [_dump(kept) for kept in self._stores.journal.threads.values()]
        found = [*self._watching.breaches, *breaches(dumps, at_rest=False)]
        for dump in dumps:
            before = self._before.get(dump.row.thread_id)
            if before is not None:
                found += cursors_forward(before, dump)
            found += _attempts_counted(dump)
            found += self._taken_is_used(dump)
            self._before[dump.row.thread_id] = dump
        return found

    def _taken_is_used(self, dump: ThreadDump) -> list[str]:
        """A message counts as steered only where the handler was given it, and said so unless it returned."""
        return [
            f"TakenIsUsed: {dump.row.thread_id} at {message.seq}: steered into {message.run_id[:6]}, which used it not"
            for message in dump.messages
            if message.fate is Fate.STEERED and message.seq > self._used.get(message.run_id, Used()).seq
        ]

    def at_rest(self, accepted: Mapping[str, str]) -> list[str]:
        """Return what is wrong once everybody has come to rest."""
        found = breaches([_dump(kept) for kept in self._stores.journal.threads.values()], at_rest=True)
        for message_id, thread_id in accepted.items():
            kept = self._stores.journal.threads.get(thread_id)
            message = kept.messages.get(message_id) if kept else None
            if message is None:
                found.append(f"Durable: {message_id} was accepted and is not in {thread_id}")
            elif message.fate in {Fate.PENDING, Fate.RETRYING}:
                found.append(f"SentIsTaken: {message_id} in {thread_id} is {message.fate} at rest")
        return found

    def unrest(self, lives: list[Life]) -> list[str]:
        """Return what is not at rest: owed threads, open runs, claims without a task, sessions of nobody."""
        found = []
        for thread_id, kept in self._stores.journal.threads.items():
            row = kept.thread
            if row.run is not None or row.turn is not None or row.asked > row.taken or row.open_questions:
                found.append(f"{thread_id} is {row.state}: asked {row.asked}, taken {row.taken}")
        for thread_id, claim in self._stores.claims.claims.items():
            is_live = claim.session in self._stores.claims.sessions
            if is_live and self._watching.by_hand.get(thread_id) != claim:
                found.append(f"{thread_id} has a claim of {claim.session[:6]}, and no task")
        held = {life.runner._keeper.session for life in lives}
        found += [
            f"session {session[:6]} is nobody's" for session in self._stores.claims.sessions if session not in held
        ]
        return found


def watched_stores(watching: Watching, *, fused: bool) -> Stores:
    """Make the stores: one, or the claims apart."""
    claims = MemoryStore(sessions=watching.sessions, claims=watching.claims)
    return Stores(claims if fused else MemoryStore(), claims)


def _dump(kept: ThreadStore) -> ThreadDump:
    return ThreadDump(
        row=kept.thread,
        entries=list(kept.entries),
        messages=list(kept.messages.values()),
        runs=list(kept.runs.values()),
        questions=list(kept.questions.values()),
        parked=list(kept.parked.values()),
    )


def _attempts_counted(dump: ThreadDump) -> list[str]:
    """Within a turn attempts rise by one, and begin again only after a pause or a retry."""
    last: dict[str, int] = {}
    found = []
    for entry in dump.of(Kind.RUN_STARTED):
        turn_id, attempt = str(entry.body["turn_id"]), entry.body["attempt"]
        assert isinstance(attempt, int)
        if attempt not in {1, last.get(turn_id, 0) + 1}:
            found.append(f"AttemptsCounted: {dump.row.thread_id} at {entry.seq}: attempt {attempt} of {turn_id[:6]}")
        last[turn_id] = attempt
    return found

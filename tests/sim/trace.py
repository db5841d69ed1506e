"""The trace of a simulation: one event for each action of the specification, in the order in which they took effect.

What is written and claimed is told where it happens, at the stores' side of the wires; what a runner decides by itself,
by its observer. spec/README.md (Traces) says what an event holds. Each thread has a trace of its own. Two kinds
of event are of a process as a whole and are told to a thread when they matter there:

* A process that lost its session is told to have lost it when its drive of the thread is over: until then it has not
  acted upon the loss, and what it had on its way still arrives.
* A process is told to have crashed when its next life begins: what it had sent before may arrive until then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from turnkeeper.adapters.memory import MemoryStore, ThreadStore
from turnkeeper.core.values import Claim, Thread

Event: TypeAlias = dict[str, str | int | bool]


class Life(Protocol):
    """One life of a process; `is_over` once another has begun."""

    process: str
    is_over: bool


@dataclass
class At:
    """What one process is doing about one thread, as far as the writer must know."""

    is_driving: bool = False
    token: int = 0  # of the claim that it made and has not released
    has_released: bool = False  # and not read the row since
    has_failed: bool = False  # it tried to, and got no answer
    opened: str = ""  # the session that it opened while it was driving


@dataclass
class Part:
    """One thread's trace. `untold`: why it can't be told, where that is so: something that the model leaves out."""

    events: list[Event] = field(default_factory=list)
    at: dict[str, At] = field(default_factory=dict)
    interrupted: dict[str, int] = field(default_factory=dict)  # runs of a turn that were not charged to it
    untold: str = ""


class Trace:
    """See the module."""

    def __init__(self, threads: int) -> None:
        self.parts = {f"t{number}": Part() for number in range(threads)}
        self._names: dict[str, str] = {}
        self._lives: dict[str, Life] = {}
        self._is_over = False
        self.noticed_by = ""  # who is declaring a session dead because it was given notice

    def name(self, session: str) -> str:
        """Return a session's short name."""
        return self._names.setdefault(session, f"s{len(self._names) + 1}")

    def tell(self, thread_id: str, event: Event) -> None:
        """Write an event of a thread."""
        if not self._is_over:
            self.parts[thread_id].events.append({**event, "thread": thread_id})

    def at(self, thread_id: str, process: str) -> At:
        """Return what the process is doing about the thread."""
        return self.parts[thread_id].at.setdefault(process, At())

    def began(self, life: Life, session: str) -> None:
        """A process opened the first session of a life."""
        process, before = life.process, self._lives.get(life.process)
        self._lives[process] = life
        if before is not None and before is not life:
            before.is_over = True
        for part in self.parts.values():
            if before is not None:
                part.events.append({"action": "Crash", "process": process})
            part.at[process] = At()
            part.events.append({"action": "Restart", "process": process, "session": self.name(session)})

    def session_lost(self, process: str, session: str) -> None:
        """A process opened another session in the same life."""
        for thread_id, part in self.parts.items():
            at = self.at(thread_id, process)
            if at.is_driving:
                at.opened = session
            else:
                self._lose(part, process, session)

    def rested(self, thread_id: str, process: str) -> None:
        """A drive is over: a session that was opened meanwhile is the process's now."""
        at = self.at(thread_id, process)
        if at.opened:
            self._lose(self.parts[thread_id], process, at.opened)
        at.is_driving, at.has_released, at.has_failed, at.token, at.opened = False, False, False, 0, ""

    def _lose(self, part: Part, process: str, session: str) -> None:
        part.events.append({"action": "SessionLost", "process": process, "session": self.name(session)})

    def session_gone(self, session: str) -> None:
        """A session was removed from the store: declared dead, closed, or by hand."""
        if self._is_over:
            return
        for part in self.parts.values():
            unopened = [at for at in part.at.values() if at.opened == session]
            if unopened:
                unopened[0].opened = ""  # for this thread it has never been
            else:
                gone: Event = {"action": "DeclareDead", "session": self.name(session)}
                by: Event = {"action": "DeathNotice", "process": self.noticed_by} if self.noticed_by else {}
                part.events.append({**gone, **by})

    def put_back(self, thread_id: str, claim: Claim) -> None:
        """A claim that once stood was put back by hand."""
        self.tell(thread_id, {"action": "ClaimPutBack", "session": self.name(claim.session), "token": claim.token})

    def come_to_rest(self, threads: Mapping[str, ThreadStore], store: MemoryStore) -> None:
        """Close the trace with how each thread stands."""
        for thread_id, part in self.parts.items():
            row = threads[thread_id].thread if thread_id in threads else Thread(thread_id=thread_id)
            claim = store.claims.get(thread_id)
            is_claimed = claim is not None and claim.session in store.sessions
            stands: Event = {"asked": row.asked, "taken": row.taken, "token": row.token, "seq": row.last_seq}
            part.events.append({"action": "AtRest", "thread": thread_id, **stands, "claimed": is_claimed})
        self._is_over = True

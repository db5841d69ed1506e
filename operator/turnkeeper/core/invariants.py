"""The invariants of the protocol, checked over what a journal holds, one entry at a time.

Theory. A thread's log and its rows are written in one transaction and apart from each other: the log says what
happened, the rows what came of it. So each is checked against the other, and no decision of this package is asked
whether it was right. The log is read once, in order; a message's entry comes with its receipt and a run's first and
last with the run's row. All that is carried from one entry to the next is what later ones are judged by, so a log of
any length needs little memory. What the log can't show (a row whose entry is missing) is asked from the rows' side:
`run_log.check_run`, and a count of receipts.

All but AskedIsTaken hold after every transaction; AskedIsTaken at rest, once everybody has ended what they ran and
every owed thread was taken. The names are those of `spec/ThreadClaim.tla`; GapFree and RowsAgree are the journal's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from turnkeeper.core.values import Thread

KEPT_MAX = 100
"""Breaches that are told one by one. Arbitrary: a person reads no more, and memory stays bounded."""


class Invariant(StrEnum):
    """What must hold."""

    GAP_FREE = "GapFree"  # a log counts from 1 without gaps to its row's last_seq
    ONE_RUN = "OneRun"  # a thread's runs do not overlap, and write nothing before or after
    ONE_END = "OneEnd"  # each run begins once and has exactly one terminal entry, unless it is open
    TOKENS_RISE = "TokensRise"  # a later run's token is greater, or it is of the same claim
    NO_STALE_WRITE = "NoStaleWrite"  # nothing with a smaller token after the first with a greater
    CURSORS_FORWARD = "CursorsForward"  # taken <= asked <= last_seq, nothing waits below taken, and none goes back
    SENT_IS_TAKEN = "SentIsTaken"  # each message has one receipt, and the log says the same
    IN_ORDER = "InOrder"  # one sender's messages are first consumed in the order in which they were accepted
    ROWS_AGREE = "RowsAgree"  # the rows say what the log says
    ASKED_IS_TAKEN = "AskedIsTaken"  # at rest nothing is owed, and every message has its final fate


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """An invariant that does not hold: in which thread, at which entry (None: in its rows), and how."""

    invariant: Invariant
    thread_id: str
    what: str
    seq: int | None = None
    workspace: str = ""  # where more than one is checked

    def __str__(self) -> str:
        where = f"{self.workspace!a}/{self.thread_id!a}" if self.workspace else f"{self.thread_id!a}"
        return f"{self.invariant}: {where}{'' if self.seq is None else f' at {self.seq}'}: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What a journal's tables say of a thread beside its log. Counts: open questions, parked turns, receipts.

    state: the column by which a sweep finds the thread; empty where there is none.
    """

    thread: Thread
    open_questions: int
    parked: int
    receipts: int
    state: str = ""


class Breaches:
    """The breaches of one thread, until they are drained."""

    def __init__(self, thread_id: str) -> None:
        self.thread_id = thread_id
        self._found: list[Breach] = []

    def say(self, invariant: Invariant, seq: int | None, what: str) -> None:
        """Note a breach."""
        self._found.append(Breach(invariant=invariant, thread_id=self.thread_id, seq=seq, what=what))

    def drain(self, workspace: str = "") -> list[Breach]:
        """Return what was found since the last call."""
        found, self._found = self._found, []
        return [replace(breach, workspace=workspace) for breach in found]


@dataclass(slots=True)
class Findings:
    """What was checked, and what was found: every breach is counted, the first ones are kept."""

    threads: int = 0
    entries: int = 0
    messages: int = 0
    runs: int = 0
    counted: Counter[Invariant] = field(default_factory=Counter)
    kept: list[Breach] = field(default_factory=list)

    def add(self, breaches: Iterable[Breach]) -> None:
        """Take breaches."""
        for breach in breaches:
            self.counted[breach.invariant] += 1
            if len(self.kept) < KEPT_MAX:
                self.kept.append(breach)


def cursors_forward(before: Thread, after: Thread) -> Iterator[Breach]:
    """Compare two sights of a thread's row: neither cursor, nor the token, nor the log's end ever goes back."""
    for name in ("asked", "taken", "token", "last_seq"):
        old, new = getattr(before, name), getattr(after, name)
        if new < old:
            what = f"{name} went back from {old} to {new}"
            yield Breach(invariant=Invariant.CURSORS_FORWARD, thread_id=after.thread_id, what=what)


def check_row(rows: Rows, breaches: Breaches, *, at_rest: bool) -> None:
    """Check what a thread's row says of itself and of the rows that it counts."""
    row = rows.thread
    if not row.taken <= row.asked <= row.last_seq:
        what = f"not so: taken {row.taken} <= asked {row.asked} <= last_seq {row.last_seq}"
        breaches.say(Invariant.CURSORS_FORWARD, None, what)
    is_waiting = row.run is not None or row.is_owed
    disagreeing = {
        "a run is open and the row names no turn": row.run is not None and row.turn is None,
        "a run is open while questions are": row.run is not None and row.open_questions > 0,
        f"the thread is {row.state}, and owed_since_ms is {row.owed_since_ms}": is_waiting
        is (row.owed_since_ms is None),
        f"the thread is {row.state}, and kept as {rows.state}": rows.state not in {"", row.state},
        f"the row counts {row.open_questions} open questions, there are {rows.open_questions}": (
            row.open_questions != rows.open_questions
        ),
        f"the row counts {row.parked} parked turns, there are {rows.parked}": row.parked != rows.parked,
    }
    for what, is_so in disagreeing.items():
        if is_so:
            breaches.say(Invariant.ROWS_AGREE, None, what)
    if at_rest and (is_waiting or (row.asked > row.taken and not row.open_questions)):
        what = f"the thread is {row.state} at rest: asked {row.asked}, taken {row.taken}"
        breaches.say(Invariant.ASKED_IS_TAKEN, row.asked, what)

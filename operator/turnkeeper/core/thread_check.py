"""All invariants over one thread: its rows, then its log in order, then what is left at the end of it."""

from __future__ import annotations

from turnkeeper.core.invariants import Breach, Breaches, Invariant, Rows, check_row
from turnkeeper.core.receipts import Receipts
from turnkeeper.core.run_log import RunLog
from turnkeeper.core.values import Entry, Message, Run
from turnkeeper.core.words import Kind

_ASKING = frozenset({Kind.MESSAGE, Kind.PARKED_RETRIED})
_MAY_ASK = _ASKING | {Kind.ANSWER}
_COUNTED = {Kind.QUESTION: 1, Kind.ANSWER: -1}
_PARKED = {Kind.TURN_PARKED: 1, Kind.PARKED_RETRIED: -1, Kind.PARKED_DROPPED: -1}


class ThreadCheck:
    """Checks a thread as it is read. Rows, receipts, runs and log must be of one moment."""

    def __init__(self, rows: Rows, *, at_rest: bool) -> None:
        self._rows = rows
        self._breaches = Breaches(rows.thread.thread_id)
        self._runs = RunLog(rows.thread, self._breaches)
        self._receipts = Receipts(rows.thread, self._breaches, at_rest=at_rest)
        self._newest_asking = 0
        self._asked_kind: Kind | None = None
        self._open_questions = 0
        self._parked = 0
        check_row(rows, self._breaches, at_rest=at_rest)

    @property
    def messages(self) -> int:
        """Messages and notes that the log has shown."""
        return self._receipts.accepted

    def entry(self, entry: Entry, message: Message | None = None, run: Run | None = None) -> None:
        """Take the next entry; a message's or note's with its receipt, a run's first and last with its row."""
        kind = entry.kind
        self._runs.next_seq(entry.seq)
        if entry.run_id:
            self._runs.write(entry, run)
        if kind in _ASKING:
            self._newest_asking = entry.seq
        if entry.seq == self._rows.thread.asked:
            self._asked_kind = kind
        self._open_questions += _COUNTED.get(kind, 0)
        self._parked += _PARKED.get(kind, 0)
        if kind in {Kind.MESSAGE, Kind.NOTE}:
            self._receipts.accept(entry, message)
        elif kind is Kind.RUN_STARTED:
            self._receipts.consume(entry, "prompts", entry.body.get("turn_id"))
        elif kind is Kind.RUN_ENDED:
            self._receipts.consume(entry, "used", run.turn_id if run is not None else None)
        elif kind is Kind.TURN_PARKED:
            self._receipts.park(entry)

    def unreadable_entry(self, seq: int, why: str) -> None:
        """Take the next entry, where it is not what any version of this program wrote."""
        self._runs.next_seq(seq)
        self.unreadable_row(seq, why)

    def unreadable_row(self, seq: int, why: str) -> None:
        """Take the same of a row that an entry should come with."""
        self._breaches.say(Invariant.ROWS_AGREE, seq, f"can't be read: {why}")

    def stray_receipt(self, seq: int) -> None:
        """Take a receipt that no entry of the log belongs to."""
        self._breaches.say(Invariant.SENT_IS_TAKEN, seq, "there is a receipt, and no message in the log")

    def close(self) -> None:
        """Take the end of the log."""
        row = self._rows.thread
        self._runs.close()
        self._receipts.close(self._rows.receipts)
        log_only = {
            f"asked is {row.asked}, where nothing asks": row.asked > 0 and self._asked_kind not in _MAY_ASK,
            f"asked is {row.asked}, and {self._newest_asking} asks": row.asked < self._newest_asking,
            f"a message waits, and asked {row.asked} is not over taken {row.taken}": (
                self._receipts.waiting > 0 and row.asked <= row.taken
            ),
            f"the row counts {row.open_questions} open questions, the log leaves {self._open_questions}": (
                row.open_questions != self._open_questions
            ),
            f"the row counts {row.parked} parked turns, the log leaves {self._parked}": row.parked != self._parked,
        }
        for what, is_so in log_only.items():
            if is_so:
                self._breaches.say(Invariant.ROWS_AGREE, None, what)

    def drain(self, workspace: str = "") -> list[Breach]:
        """Return the breaches found since the last call."""
        return self._breaches.drain(workspace)

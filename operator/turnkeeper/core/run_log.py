"""GapFree, OneRun, OneEnd, TokensRise and NoStaleWrite, over a thread's log in its order and over runs' rows."""

from __future__ import annotations

from turnkeeper.core.invariants import Breach, Breaches, Invariant
from turnkeeper.core.values import Entry, Run, Thread
from turnkeeper.core.words import Kind

Named = tuple[Kind | str, str]
"""An entry as a row names it: its kind, and the run that wrote it."""


class RunLog:
    """What the order of a thread's entries shows."""

    def __init__(self, thread: Thread, breaches: Breaches) -> None:
        self._thread = thread
        self._say = breaches.say
        self._seq = 0
        self._open = ""
        self._greatest = 0
        self._last_run: Run | None = None

    def next_seq(self, seq: int) -> None:
        """Count an entry, also one that can't be read."""
        if seq != self._seq + 1:
            self._say(Invariant.GAP_FREE, seq, f"comes right after {self._seq}")
        self._seq = seq

    def write(self, entry: Entry, run: Run | None) -> None:
        """Judge an entry of a run; `run` is the row, which the first and the last come with."""
        if entry.token < self._greatest:
            self._say(Invariant.NO_STALE_WRITE, entry.seq, f"{entry.kind} with token {entry.token}, {self._older()}")
        self._greatest = max(self._greatest, entry.token)
        if entry.kind is Kind.RUN_STARTED:
            self._begin(entry, run)
        elif entry.run_id != self._open:
            what = f"{entry.kind} of run {entry.run_id}, while {self._open or 'none'} is open"
            self._say(Invariant.ONE_RUN, entry.seq, what)
        if entry.kind is Kind.RUN_ENDED:
            self._end(entry, run)

    def close(self) -> None:
        """Judge the end of the log."""
        thread = self._thread
        if self._seq != thread.last_seq:
            self._say(Invariant.GAP_FREE, self._seq, f"is the log's end, and the row's last_seq is {thread.last_seq}")
        held = thread.run.run_id if thread.run else ""
        if held != self._open:
            what = f"open is {self._open or 'none'} by the log and {held or 'none'} by the row"
            self._say(Invariant.ONE_RUN, None, what)
        last = self._last_run
        if last is not None and thread.token < last.token:
            self._say(Invariant.TOKENS_RISE, last.started_seq, f"has token {last.token}, the row {thread.token}")
        if last is not None and held == last.run_id and (thread.token, thread.session) != (last.token, last.session):
            self._say(Invariant.TOKENS_RISE, last.started_seq, "began the open run under another fence than the row's")

    def _older(self) -> str:
        return f"after one with {self._greatest}"

    def _begin(self, entry: Entry, run: Run | None) -> None:
        if self._open:
            self._say(Invariant.ONE_RUN, entry.seq, f"run {entry.run_id} begins while {self._open} is open")
        self._open = entry.run_id
        if run is None:
            self._say(Invariant.ONE_END, entry.seq, f"run {entry.run_id} begins, and there is no row of it")
            return
        if run.started_seq != entry.seq:
            what = f"run {run.run_id} begins, and its row says that it began at {run.started_seq}"
            self._say(Invariant.ONE_END, entry.seq, what)
        last, self._last_run = self._last_run, run
        is_same_claim = last is not None and (last.token, last.session) == (run.token, run.session)
        if last is not None and run.token <= last.token and not is_same_claim:
            what = f"run {run.run_id} has token {run.token}, and {last.run_id} had {last.token} before it"
            self._say(Invariant.TOKENS_RISE, entry.seq, what)

    def _end(self, entry: Entry, run: Run | None) -> None:
        if entry.run_id == self._open:
            self._open = ""
        if run is None:
            self._say(Invariant.ONE_END, entry.seq, f"run {entry.run_id} ends, and there is no row of it")
        elif (run.ended_seq, run.outcome) != (entry.seq, entry.body.get("outcome")):
            by_row = f"ended {run.outcome} at {run.ended_seq}" if run.outcome else "is open"
            what = f"run {run.run_id} ends {entry.body.get('outcome')}; by its row it {by_row}"
            self._say(Invariant.ONE_END, entry.seq, what)


def check_run(run: Run, thread_id: str, held_run_id: str, started: Named | None, ended: Named | None) -> list[Breach]:
    """Check a run from its row's side.

    held_run_id: the open run by the thread's row. started, ended: the entries at which it did, by its own row.
    """
    breaches = Breaches(thread_id)
    if started != (Kind.RUN_STARTED, run.run_id):
        breaches.say(Invariant.ONE_END, run.started_seq, f"no start of run {run.run_id}, whose row says so")
    elif run.outcome is None and held_run_id != run.run_id:
        breaches.say(Invariant.ONE_END, run.started_seq, f"run {run.run_id} begins; it has no end and is not held open")
    elif run.outcome is not None and ended != (Kind.RUN_ENDED, run.run_id):
        breaches.say(Invariant.ONE_END, run.ended_seq, f"no end of run {run.run_id}, whose row says {run.outcome}")
    return breaches.drain()

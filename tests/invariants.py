"""The shipped checkers (`turnkeeper.core.thread_check`) over whole dumps of threads, for the machine and the soak.

`breaches` gives each dump to the checkers as `turnkeeper verify` does a journal; each breach is a sentence that begins
with the invariant's name. `cursors_forward` compares two dumps of one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from turnkeeper.core import invariants
from turnkeeper.core.invariants import Breach, Invariant, Rows
from turnkeeper.core.run_log import check_run
from turnkeeper.core.thread_check import ThreadCheck
from turnkeeper.core.values import Entry, Message, Parked, Question, Run, Thread
from turnkeeper.core.words import Kind, Resolution
from turnkeeper.ports import Journal

PAGE = 500
"""Arbitrary: entries and threads read at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadDump:
    """All that a journal holds of one thread; of questions and parked turns at least those that nobody resolved."""

    row: Thread
    entries: Sequence[Entry] = ()
    messages: Sequence[Message] = ()
    runs: Sequence[Run] = ()
    questions: Sequence[Question] = ()
    parked: Sequence[Parked] = ()

    @property
    def name(self) -> str:
        """The thread's id as it is shown in a breach."""
        return ascii(self.row.thread_id)

    def of(self, *kinds: Kind) -> Iterator[Entry]:
        """Yield the entries of these kinds, in order."""
        return (entry for entry in self.entries if entry.kind in kinds)


async def dump_of(journal: Journal) -> list[ThreadDump]:
    """Read a whole journal, through its port alone."""
    found: list[ThreadDump] = []
    after = ""
    while page := await journal.threads(None, after, PAGE):
        found.extend([await _dump_thread(journal, row) for row in page])
        after = page[-1].thread_id
    return found


async def _dump_thread(journal: Journal, row: Thread) -> ThreadDump:
    entries: list[Entry] = []
    while page := await journal.log(row.thread_id, len(entries), PAGE):
        entries.extend(page)
    sent = [str(entry.body["message_id"]) for entry in entries if entry.kind in {Kind.MESSAGE, Kind.NOTE}]
    messages = [await journal.message(row.thread_id, message_id) for message_id in sent]
    begun = dict.fromkeys(entry.run_id for entry in entries if entry.kind is Kind.RUN_STARTED)
    runs = [await journal.run(run_id) for run_id in begun]
    return ThreadDump(
        row=row,
        entries=entries,
        messages=[message for message in messages if message is not None],
        runs=[run for thread_id, run in filter(None, runs) if thread_id == row.thread_id],
        questions=await journal.questions(row.thread_id),
        parked=await journal.parked(row.thread_id),
    )


def breaches(dumps: Iterable[ThreadDump], *, at_rest: bool) -> list[str]:
    """Return every breach in these threads; none is what is wanted."""
    return [str(breach) for dump in dumps for breach in _breaches_of(dump, at_rest=at_rest)]


def _breaches_of(dump: ThreadDump, *, at_rest: bool) -> list[Breach]:
    receipts = {message.message_id: message for message in dump.messages}
    runs = {run.run_id: run for run in dump.runs}
    rows = Rows(
        thread=dump.row,
        open_questions=sum(question.resolution is Resolution.OPEN for question in dump.questions),
        parked=sum(not parked.resolved for parked in dump.parked),
        receipts=len(dump.messages),
    )
    check = ThreadCheck(rows, at_rest=at_rest)
    for entry in dump.entries:
        check.entry(entry, receipts.get(str(entry.body.get("message_id"))), runs.get(entry.run_id))
    check.close()
    at = {entry.seq: (entry.kind, entry.run_id) for entry in dump.entries}
    found = check.drain()
    held = dump.row.run.run_id if dump.row.run else ""
    for run in dump.runs:
        found += check_run(run, dump.row.thread_id, held, at.get(run.started_seq), at.get(run.ended_seq or 0))
    return found


def cursors_forward(before: ThreadDump, after: ThreadDump) -> Iterator[str]:
    """Cursors, token and log only grow; what was written stays as it was."""
    yield from (str(breach) for breach in invariants.cursors_forward(before.row, after.row))
    if list(after.entries[: len(before.entries)]) != list(before.entries):
        yield f"{Invariant.CURSORS_FORWARD}: {after.name}: an entry was changed after it was written"
    now = {run.run_id: run for run in after.runs}
    for run in before.runs:
        if run.outcome is not None and now.get(run.run_id) != run:
            yield f"{Invariant.CURSORS_FORWARD}: {after.name}: run {run.run_id} was changed after its end"

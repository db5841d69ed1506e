"""The invariants of the protocol as checkers over what a journal holds, for the machine, the simulator and the soak.

A checker takes one thread's dump and yields its breaches, each a sentence that begins with the invariant's name. Those
in ALWAYS hold after every transaction; those in AT_REST once every holder has ended and every owed thread was taken.
`cursors_forward` compares two dumps of one thread. Nothing here asks a decision of the core whether it was right: what
is compared are the log, the rows and the receipts, which are written apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from turnkeeper.core.values import Entry, Message, Parked, Question, Run, Thread
from turnkeeper.core.words import Fate, Kind, Resolution
from turnkeeper.ports import Journal

PAGE = 500
"""Arbitrary: entries and threads read at once."""

FINAL_FATES = frozenset({Fate.NOTED, Fate.STARTED, Fate.STEERED, Fate.PARKED, Fate.DROPPED})


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


Checker = Callable[[ThreadDump], Iterator[str]]


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
    checkers = (*ALWAYS, *AT_REST) if at_rest else ALWAYS
    return [breach for dump in dumps for checker in checkers for breach in checker(dump)]


def gap_free(dump: ThreadDump) -> Iterator[str]:
    """The log counts from 1 without gaps, and the row's last_seq is its end."""
    seqs = [entry.seq for entry in dump.entries]
    if seqs != list(range(1, dump.row.last_seq + 1)):
        yield f"GapFree: {dump.name} has the seqs {seqs} and last_seq {dump.row.last_seq}"


def one_run(dump: ThreadDump) -> Iterator[str]:
    """Runs do not overlap: each begins when none is open, and writes nothing before or after."""
    open_id = ""
    for entry in dump.entries:
        if entry.kind is Kind.RUN_STARTED:
            if open_id:
                yield f"OneRun: {dump.name} begins {entry.run_id} at {entry.seq} while {open_id} is open"
            open_id = entry.run_id
        elif entry.run_id and entry.run_id != open_id:
            yield f"OneRun: {dump.name} has {entry.kind} of {entry.run_id} at {entry.seq}; open is {open_id or 'none'}"
        elif entry.kind is Kind.RUN_ENDED:
            open_id = ""
    held = dump.row.run.run_id if dump.row.run else ""
    if held != open_id:
        yield f"OneRun: {dump.name} holds {held or 'none'} open by the row, {open_id or 'none'} by the log"


def one_end(dump: ThreadDump) -> Iterator[str]:
    """Each run begins once, has exactly one terminal entry unless it is open, and its row says the same."""
    begun: dict[str, list[Entry]] = defaultdict(list)
    ended: dict[str, list[Entry]] = defaultdict(list)
    for entry in dump.of(Kind.RUN_STARTED, Kind.RUN_ENDED):
        (begun if entry.kind is Kind.RUN_STARTED else ended)[entry.run_id].append(entry)
    rows = {run.run_id: run for run in dump.runs}
    held = dump.row.run.run_id if dump.row.run else ""
    for run_id in {**begun, **ended, **rows}:
        run, ends = rows.get(run_id), ended[run_id]
        if run is None or [entry.seq for entry in begun[run_id]] != [run.started_seq]:
            yield f"OneEnd: {dump.name}: run {run_id} begins at {[e.seq for e in begun[run_id]]}, its row says {run}"
        elif len(ends) != (0 if run_id == held else 1):
            yield f"OneEnd: {dump.name}: run {run_id} ends at {[entry.seq for entry in ends]}"
        elif [(entry.seq, entry.body["outcome"]) for entry in ends] != [(run.ended_seq, run.outcome)] * len(ends):
            yield f"OneEnd: {dump.name}: run {run_id} ended {run.outcome} at {run.ended_seq} by its row, not by the log"


def tokens_rise(dump: ThreadDump) -> Iterator[str]:
    """A later run never has a smaller token, an equal one only within a session, and the row has the greatest."""
    for first, second in pairwise(sorted(dump.runs, key=lambda run: run.started_seq)):
        is_same_claim = second.token == first.token and second.session == first.session
        if second.token <= first.token and not is_same_claim:
            yield f"TokensRise: {dump.name}: {second.run_id} has {second.token} after {first.run_id} had {first.token}"
    if dump.row.token < max((run.token for run in dump.runs), default=0):
        yield f"TokensRise: {dump.name}: the row's token {dump.row.token} is below a run's"


def no_stale_write(dump: ThreadDump) -> Iterator[str]:
    """After the first entry with a greater token there is none with a smaller."""
    greatest = 0
    for entry in dump.entries:
        if entry.run_id and entry.token < greatest:
            yield f"NoStaleWrite: {dump.name} has {entry.kind} with {entry.token} at {entry.seq}, after {greatest}"
        greatest = max(greatest, entry.token)


def sent_is_taken(dump: ThreadDump) -> Iterator[str]:
    """Each message has one receipt, and it says what the log says: who consumed it, in which run, or why nobody."""
    sent = {entry.seq: entry for entry in dump.of(Kind.MESSAGE, Kind.NOTE)}
    receipts = {message.seq: message for message in dump.messages}
    if sent.keys() != receipts.keys() or len(receipts) != len(dump.messages):
        yield f"SentIsTaken: {dump.name} has messages at {sorted(sent)} and receipts for {sorted(receipts)}"
        return
    prompts, used = _listings(dump, Kind.RUN_STARTED, "prompts"), _listings(dump, Kind.RUN_ENDED, "used")
    aside = {seq for entry in dump.of(Kind.TURN_PARKED) for seq in _seqs(entry, "messages")}
    turns = {run.run_id: run.turn_id for run in dump.runs}
    for seq, message in receipts.items():
        started, steered = prompts[seq], used[seq]
        if len({turns.get(run_id) for run_id in started}) + len(steered) > 1:
            yield f"SentIsTaken: {dump.name}: message {seq} is consumed by {started} and by {steered}"
        is_kept = {
            Fate.PENDING: not started and not steered,
            Fate.NOTED: not started and not steered and sent[seq].kind is Kind.NOTE,
            Fate.STARTED: message.run_id in started[-1:] and turns.get(message.run_id) == message.turn_id,
            Fate.STEERED: message.run_id in steered and turns.get(message.run_id) == message.turn_id,
            Fate.PARKED: seq in aside and message.reason != "",
            Fate.RETRYING: seq in aside,
            Fate.DROPPED: seq in aside,
        }[message.fate]
        if not is_kept:
            yield f"SentIsTaken: {dump.name}: the receipt of {seq} is {message}; the log has {started} and {steered}"


def in_order(dump: ThreadDump) -> Iterator[str]:
    """One sender's messages are first consumed in the order in which they were accepted."""
    place: dict[int, tuple[int, int]] = {}
    for entry in dump.of(Kind.RUN_STARTED, Kind.RUN_ENDED):
        for index, seq in enumerate((*_seqs(entry, "prompts"), *_seqs(entry, "used"))):
            place.setdefault(seq, (entry.seq, index))
    by_sender: dict[str, list[int]] = defaultdict(list)
    for message in sorted(dump.messages, key=lambda message: message.seq):
        if message.fate is not Fate.NOTED:
            by_sender[message.sender].append(message.seq)
    never = (dump.row.last_seq + 1, 0)
    for sender, seqs in by_sender.items():
        for first, second in pairwise(seqs):
            if place.get(second, never) < place.get(first, never):
                yield f"InOrder: {dump.name}: {sender!a}'s message {second} was consumed before {first}"


def rows_agree(dump: ThreadDump) -> Iterator[str]:
    """The row says what the log, the questions and the parked turns say."""
    row = dump.row
    newest = max((entry.seq for entry in dump.of(Kind.MESSAGE, Kind.PARKED_RETRIED)), default=0)
    asking = {entry.seq for entry in dump.of(Kind.MESSAGE, Kind.PARKED_RETRIED, Kind.ANSWER)}
    counted = {
        "taken <= asked <= last_seq": row.taken <= row.asked <= row.last_seq,
        "asked is at an entry that asks": row.asked == 0 or row.asked in asking,
        "asked is no older than the newest message": row.asked >= newest,
        "what waits is asked for": row.asked > row.taken or not _waits(dump),
        "open_questions": row.open_questions == sum(q.resolution is Resolution.OPEN for q in dump.questions),
        "parked": row.parked == sum(not parked.resolved for parked in dump.parked),
        "a run has a turn": row.run is None or row.turn is not None,
        "no run while questions are open": row.run is None or row.open_questions == 0,
        "owed_since_ms": (row.owed_since_ms is not None) is (row.run is not None or row.is_owed),
    }
    for what, holds in counted.items():
        if not holds:
            yield f"RowsAgree: {dump.name}: not so: {what}: {row}"


def asked_is_taken(dump: ThreadDump) -> Iterator[str]:
    """At rest nothing is owed or open, and every message has its final fate."""
    row = dump.row
    if row.run is not None or row.is_owed or (row.asked > row.taken and not row.open_questions):
        yield f"AskedIsTaken: {dump.name} is {row.state} at rest: {row}"
    for message in dump.messages:
        if message.fate not in FINAL_FATES and not (row.open_questions and message.fate is Fate.RETRYING):
            yield f"AskedIsTaken: {dump.name}: message {message.seq} is {message.fate} at rest"


def cursors_forward(before: ThreadDump, after: ThreadDump) -> Iterator[str]:
    """Cursors, token and log only grow; what was written stays as it was."""
    for name in ("asked", "taken", "token", "last_seq"):
        old, new = getattr(before.row, name), getattr(after.row, name)
        if new < old:
            yield f"CursorsForward: {after.name}: {name} went back from {old} to {new}"
    if list(after.entries[: len(before.entries)]) != list(before.entries):
        yield f"CursorsForward: {after.name}: an entry was changed after it was written"
    for old_run, new_run in _matched(before.runs, after.runs):
        if old_run.outcome is not None and new_run != old_run:
            yield f"CursorsForward: {after.name}: run {old_run.run_id} was changed after its end"


ALWAYS: tuple[Checker, ...] = (
    gap_free,
    one_run,
    one_end,
    tokens_rise,
    no_stale_write,
    sent_is_taken,
    in_order,
    rows_agree,
)
AT_REST: tuple[Checker, ...] = (asked_is_taken,)


def _matched(before: Sequence[Run], after: Sequence[Run]) -> Iterator[tuple[Run, Run]]:
    now = {run.run_id: run for run in after}
    return ((run, now[run.run_id]) for run in before if run.run_id in now)


def _waits(dump: ThreadDump) -> bool:
    return any(message.fate in {Fate.PENDING, Fate.RETRYING} for message in dump.messages)


def _listings(dump: ThreadDump, kind: Kind, field: str) -> Mapping[int, list[str]]:
    found: dict[int, list[str]] = defaultdict(list)
    for entry in dump.of(kind):
        for seq in _seqs(entry, field):
            found[seq].append(entry.run_id)
    return found


def _seqs(entry: Entry, field: str) -> list[int]:
    listed = entry.body.get(field, [])
    assert isinstance(listed, Sequence)
    return [seq for seq in listed if isinstance(seq, int)]

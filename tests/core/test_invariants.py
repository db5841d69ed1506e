"""Each checker can fail: a sound history is sound to all of them, and a planted breach is seen by its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.core.journal import DictJournal
from tests.invariants import ThreadDump, breaches, cursors_forward
from turnkeeper.core.cursor import NewMessage, accept
from turnkeeper.core.ending import Ended, Ending, append, end
from turnkeeper.core.invariants import Invariant
from turnkeeper.core.turn import Start, Started, start
from turnkeeper.core.values import Entry, Fence, Parked, Question
from turnkeeper.core.words import Ask, Fate, Kind, Mode, Outcome


def sound() -> ThreadDump:
    """Return a thread at rest: a turn that was abandoned once and steered, and a turn behind it."""
    journal = DictJournal(sessions={"s1", "s2"})
    for number, mode in enumerate([Mode.QUEUE, Mode.STEER, Mode.NOTE], 1):
        new = NewMessage(message_id=f"m{number}", content=number, sender="x", mode=mode)
        journal.run(accept(new, "t", number))
    how = Start(run_id="r1", runner="r", now_ms=4, max_attempts=3)
    journal.run(start("t", Fence(1, "s1"), how, holder_gone=True))
    journal.run(append("t", "r1", Fence(1, "s1"), 0, "event", 5))
    fence = Fence(2, "s2")
    started = journal.run(start("t", fence, replace(how, run_id="r2"), holder_gone=True))
    assert isinstance(started, Started)
    for number, mode in enumerate([Mode.STEER, Mode.QUEUE], 4):
        journal.run(accept(NewMessage(message_id=f"m{number}", content=number, sender="x", mode=mode), "t", 6))
    done = Ending(outcome=Outcome.COMPLETED, answer="done", used_seq=100)
    assert isinstance(journal.run(end("t", "r2", fence, done, 7, keep_claim=True)), Ended)
    journal.run(start("t", fence, replace(how, run_id="r3"), holder_gone=False))
    journal.run(end("t", "r3", fence, done, 8, keep_claim=False))
    return journal.dumps()["t"]


def of(dump: ThreadDump, kind: Kind, nth: int = 0) -> Entry:
    """Return the nth entry of a kind."""
    return list(dump.of(kind))[nth]


def changed(dump: ThreadDump, entry: Entry, **body: object) -> ThreadDump:
    """Return the dump with another body in one entry."""
    other = replace(entry, body={**entry.body, **body})  # type: ignore[dict-item]  # a planted value
    return replace(dump, entries=[other if known.seq == entry.seq else known for known in dump.entries])


def without(dump: ThreadDump, entry: Entry) -> ThreadDump:
    """Return the dump without one entry, its seqs closed up so that no gap gives it away."""
    kept = [known for known in dump.entries if known.seq != entry.seq]
    return replace(dump, entries=[replace(known, seq=number) for number, known in enumerate(kept, 1)])


def once_more(dump: ThreadDump, entry: Entry) -> ThreadDump:
    """Return the dump with an entry written again behind all others."""
    seq = dump.row.last_seq + 1
    return row(replace(dump, entries=[*dump.entries, replace(entry, seq=seq)]), last_seq=seq)


def message(dump: ThreadDump, seq: int, **fields: object) -> ThreadDump:
    """Return the dump with another receipt for the message at a seq."""
    messages = [replace(m, **fields) if m.seq == seq else m for m in dump.messages]  # type: ignore[arg-type]  # any field may be planted
    return replace(dump, messages=messages)


def run(dump: ThreadDump, run_id: str, **fields: object) -> ThreadDump:
    """Return the dump with another row for a run."""
    runs = [replace(r, **fields) if r.run_id == run_id else r for r in dump.runs]  # type: ignore[arg-type]  # any field may be planted
    return replace(dump, runs=runs)


def row(dump: ThreadDump, **fields: object) -> ThreadDump:
    """Return the dump with another row."""
    return replace(dump, row=replace(dump.row, **fields))  # type: ignore[arg-type]  # any field may be planted


QUESTION = Question(question_id="q", turn_id="r1", ask=Ask.FREE, text="?")
PARKED = Parked(seq=1, turn_id="r1", leg=0, reason="why")

PLANTED: dict[str, tuple[str, Callable[[ThreadDump], ThreadDump]]] = {
    "an entry is missing": ("GapFree", lambda d: replace(d, entries=[*d.entries[:3], *d.entries[4:]])),
    "two entries have one seq": ("GapFree", lambda d: replace(d, entries=[*d.entries, d.entries[-1]])),
    "the row counts further than the log": ("GapFree", lambda d: row(d, last_seq=d.row.last_seq + 1)),
    "a run begins before the last has ended": ("OneRun", lambda d: without(d, of(d, Kind.RUN_ENDED))),
    "a run writes after its end": ("OneRun", lambda d: once_more(d, of(d, Kind.EVENT))),
    "the row holds a run that the log does not": (
        "OneRun",
        lambda d: replace(d, entries=[e for e in d.entries if e.seq < of(d, Kind.RUN_ENDED, 2).seq]),
    ),
    "a run has no terminal entry": ("OneEnd", lambda d: without(d, of(d, Kind.RUN_ENDED, 2))),
    "a run ends twice": ("OneEnd", lambda d: once_more(d, of(d, Kind.RUN_ENDED, 2))),
    "a run begins twice": ("OneEnd", lambda d: once_more(d, of(d, Kind.RUN_STARTED, 2))),
    "a run's row names another outcome": ("OneEnd", lambda d: run(d, "r2", outcome=Outcome.STOPPED)),
    "a run has no row": ("OneEnd", lambda d: replace(d, runs=d.runs[1:])),
    "a later run has a smaller token": ("TokensRise", lambda d: run(d, "r2", token=0)),
    "two sessions share a token": ("TokensRise", lambda d: run(d, "r1", token=2)),
    "the row's token is behind": ("TokensRise", lambda d: row(d, token=1)),
    "a stale write stands in the log": (
        "NoStaleWrite",
        lambda d: replace(d, entries=[replace(e, token=1) if e.seq == d.row.last_seq else e for e in d.entries]),
    ),
    "a receipt is missing": ("SentIsTaken", lambda d: replace(d, messages=d.messages[1:])),
    "a receipt names no run": ("SentIsTaken", lambda d: message(d, 1, run_id="r9")),
    "a receipt names a run that did not consume it": ("SentIsTaken", lambda d: message(d, 1, run_id="r3")),
    "a receipt says steered and it started": ("SentIsTaken", lambda d: message(d, 1, fate=Fate.STEERED)),
    "a receipt says pending and it was taken": ("SentIsTaken", lambda d: message(d, 1, fate=Fate.PENDING, run_id="")),
    "a receipt says parked and nothing was": ("SentIsTaken", lambda d: message(d, 1, fate=Fate.PARKED, reason="x")),
    "a message is noted": ("SentIsTaken", lambda d: message(d, 1, fate=Fate.NOTED)),
    "a message is consumed by two turns": (
        "SentIsTaken",
        lambda d: changed(d, of(d, Kind.RUN_STARTED, 2), prompts=[1, 9]),
    ),
    "a message is steered and starts a turn": ("SentIsTaken", lambda d: changed(d, of(d, Kind.RUN_ENDED, 2), used=[1])),
    "a sender's messages are swapped": (
        "InOrder",
        lambda d: changed(changed(d, of(d, Kind.RUN_STARTED), prompts=[2]), of(d, Kind.RUN_STARTED, 1), prompts=[2, 1]),
    ),
    "an earlier message is passed over": ("InOrder", lambda d: changed(d, of(d, Kind.RUN_ENDED, 1), used=[])),
    "taken is ahead of asked": ("CursorsForward", lambda d: row(d, taken=d.row.asked + 1)),
    "asked is at no message": ("RowsAgree", lambda d: row(d, asked=d.row.last_seq, taken=d.row.last_seq)),
    "asked is behind a message": ("RowsAgree", lambda d: row(d, asked=1, taken=1)),
    "a message waits unasked": ("RowsAgree", lambda d: message(d, 9, fate=Fate.PENDING)),
    "an open question is not counted": ("RowsAgree", lambda d: replace(d, questions=[QUESTION])),
    "a question is counted that is not there": ("RowsAgree", lambda d: row(d, open_questions=1)),
    "a parked turn is not counted": ("RowsAgree", lambda d: replace(d, parked=[PARKED])),
    "it is owed since when nothing is": ("RowsAgree", lambda d: row(d, owed_since_ms=1)),
    "a turn is owed": ("AskedIsTaken", lambda d: row(d, taken=1)),
    "a message has no final fate": ("AskedIsTaken", lambda d: message(d, 9, fate=Fate.RETRYING)),
}


def test_a_sound_history_is_sound_to_every_checker() -> None:
    """No checker cries wolf."""
    assert breaches([sound()], at_rest=True) == []


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_breach_is_seen(what: str) -> None:
    """The invariant that was broken is named."""
    name, plant = PLANTED[what]
    found = {breach.split(":")[0] for breach in breaches([plant(sound())], at_rest=True)}
    assert name in found


def test_every_invariant_has_a_breach_planted_against_it() -> None:
    """A checker that nothing was tried against may check nothing."""
    assert {name for name, _ in PLANTED.values()} == set(Invariant)


@pytest.mark.parametrize("field", ["asked", "taken", "token", "last_seq"])
def test_a_cursor_that_goes_back_is_seen(field: str) -> None:
    """Between two dumps of one thread nothing shrinks."""
    dump = sound()
    back = row(dump, **{field: getattr(dump.row, field) - 1})
    assert [breach.split(":")[0] for breach in cursors_forward(dump, back)] == ["CursorsForward"]
    assert list(cursors_forward(dump, dump)) == []
    assert list(cursors_forward(back, dump)) == []


def test_what_was_written_is_seen_to_change() -> None:
    """An entry or an ended run that differs from what it was."""
    dump = sound()
    assert list(cursors_forward(dump, changed(dump, dump.entries[0], content="other")))
    assert list(cursors_forward(dump, run(dump, "r1", reason="other")))

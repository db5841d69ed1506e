"""SentIsTaken and InOrder: each message's receipt against the runs that the log says have consumed it, in what order.

Theory. A receipt names what became of its message: the run that consumed it last, and whether its turn was set aside
after that. The log lists the seqs that a run consumed as it began (`prompts`) or ended (`used`), and those that a
parked turn took with it. So a message is carried from its own entry to the last listing that its receipt names, and
every listing on the way must be one that the receipt allows: an earlier attempt of the same turn, and nothing else.
Whatever is listed after that, or is left at the end of the log, is a breach.

Messages are consumed in about the order in which they were accepted, so those that nothing has consumed yet are a
queue. It holds some forty bytes of each, names as their hashes: a million of them may wait.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from turnkeeper.core.invariants import Breaches, Invariant
from turnkeeper.core.values import Entry, Message, Thread
from turnkeeper.core.words import Fate, Kind

_FATES: Final = tuple(Fate)
_ASIDE: Final = frozenset({Fate.PARKED, Fate.RETRYING, Fate.DROPPED})
_UNREAD: Final = frozenset({Fate.PENDING, Fate.RETRYING})
_COMPACTED_MIN = 4096
"""Arbitrary: the words that a queue gives back at once, so that it is not moved at each step."""


class _Sent(NamedTuple):
    """A message and what its receipt says. `fate` is None where there is no receipt; `run` 0 once it was seen."""

    seq: int
    sender: int
    turn: int
    run: int
    fate: Fate | None


class _Queue:
    """Messages that nothing has consumed yet, by rising seq."""

    def __init__(self) -> None:
        self._words = array("q")
        self._front = 0

    def __len__(self) -> int:
        return len(self._words) // 5 - self._front

    def add(self, sent: _Sent) -> None:
        fate = -1 if sent.fate is None else _FATES.index(sent.fate)
        self._words.extend((sent.seq, sent.sender, sent.turn, sent.run, fate))

    def has(self, seq: int) -> bool:
        count, front, words = len(self), self._front, self._words
        place = bisect_left(range(count), seq, key=lambda at: words[5 * (front + at)])
        return place < count and words[5 * (front + place)] == seq

    def pop(self) -> _Sent:
        at = 5 * self._front
        seq, sender, turn, run, fate = self._words[at : at + 5]
        self._front += 1
        if at >= _COMPACTED_MIN and 2 * at > len(self._words):
            del self._words[: at + 5]
            self._front = 0
        return _Sent(seq, sender, turn, run, None if fate < 0 else _FATES[fate])


class Receipts:
    """Judges a thread's messages, given in the order of the log."""

    def __init__(self, thread: Thread, breaches: Breaches, *, at_rest: bool) -> None:
        self.accepted = 0
        self.waiting = 0
        self._thread = thread
        self._say = breaches.say
        self._at_rest = at_rest
        self._queue = _Queue()
        self._underway: dict[int, _Sent] = {}  # consumed, and not yet by the run that the receipt names; or overtaken
        self._overtaken: dict[int, list[int]] = {}  # by sender: not consumed yet, though another sender's later one is

    def accept(self, entry: Entry, message: Message | None) -> None:
        """Judge a message's or note's entry with its receipt."""
        self.accepted += 1
        sender = str(entry.body.get("sender", ""))
        if message is None or message.seq != entry.seq:
            what = "there is no receipt" if message is None else f"the receipt of its id is of {message.seq}"
            self._say(Invariant.SENT_IS_TAKEN, entry.seq, what)
            if entry.kind is Kind.MESSAGE:
                self._queue.add(_Sent(entry.seq, hash(sender), 0, 0, None))
            return
        if (message.fate is Fate.NOTED) is not (entry.kind is Kind.NOTE):
            self._say(Invariant.SENT_IS_TAKEN, entry.seq, f"a {entry.kind}, and its receipt says {message.fate}")
        if (message.sender, message.mode) != (sender, entry.body.get("mode")):
            self._say(Invariant.ROWS_AGREE, entry.seq, "its receipt has another sender or mode")
        if entry.kind is Kind.MESSAGE:
            self._wait(message)
            names = (hash(sender), hash(message.turn_id), hash(message.run_id))
            self._queue.add(_Sent(entry.seq, *names, message.fate))

    def consume(self, entry: Entry, field: str, turn_id: object) -> None:
        """Judge what a run consumed: the entry's `prompts` or `used`. `turn_id` is None where it isn't known."""
        for seq in listed(entry, field):
            sent = self._find(seq, entry.seq)
            if sent is None:
                what = f"run {entry.run_id} consumes {seq}, which is no message that its receipt leaves to it"
                self._say(Invariant.SENT_IS_TAKEN, entry.seq, what)
            elif sent.fate is not None:
                self._judge(sent, entry, is_steering=field == "used", turn_id=turn_id)

    def park(self, entry: Entry) -> None:
        """Judge what a turn that was set aside took with it."""
        for seq in listed(entry, "messages"):
            sent = self._underway.get(seq)
            if sent is None:
                what = f"message {seq} is set aside with its turn, and its receipt does not say so"
                self._say(Invariant.SENT_IS_TAKEN, entry.seq, what)
            elif sent.fate in _ASIDE and not sent.run:
                del self._underway[seq]

    def close(self, receipts: int) -> None:
        """Judge what the end of the log leaves; `receipts` is how many there are."""
        while self._queue:
            self._leave(self._queue.pop())
        for sent in self._underway.values():
            self._leave(sent)
        if receipts != self.accepted:
            what = f"{self.accepted} messages are in the log, and there are {receipts} receipts"
            self._say(Invariant.SENT_IS_TAKEN, None, what)

    def _wait(self, message: Message) -> None:
        self.waiting += message.fate in _UNREAD
        if message.fate is Fate.PENDING and message.seq <= self._thread.taken:
            self._say(Invariant.CURSORS_FORWARD, message.seq, f"waits, and taken is past it: {self._thread.taken}")
        if message.fate is Fate.PARKED and not message.reason:
            self._say(Invariant.SENT_IS_TAKEN, message.seq, "its receipt says parked, and not why")
        is_paused = self._thread.open_questions > 0 and message.fate is Fate.RETRYING
        if self._at_rest and message.fate in _UNREAD and not is_paused:
            self._say(Invariant.ASKED_IS_TAKEN, message.seq, f"the message is {message.fate} at rest")

    def _find(self, seq: int, at: int) -> _Sent | None:
        """Take a message from the queue, or look it up among those that were; judge the order on the way."""
        while self._queue.has(seq):
            first = self._queue.pop()
            self._underway[first.seq] = first
            if first.seq != seq:
                self._overtaken.setdefault(first.sender, []).append(first.seq)
        sent = self._underway.get(seq)
        if sent is not None and self._overtaken:
            rest = self._overtaken.pop(sent.sender, [])
            for each in rest:
                if each < seq:
                    self._say(Invariant.IN_ORDER, at, f"{seq} is consumed before {each}, of the same sender")
            if later := [each for each in rest if each > seq]:
                self._overtaken[sent.sender] = later
        return sent

    def _judge(self, sent: _Sent, entry: Entry, *, is_steering: bool, turn_id: object) -> None:
        how = f"run {entry.run_id} {'used' if is_steering else 'took'} {sent.seq}, whose receipt"
        if sent.fate is Fate.PENDING or is_steering is not (sent.fate is Fate.STEERED):
            self._say(Invariant.SENT_IS_TAKEN, entry.seq, f"{how} says {sent.fate}")
        elif turn_id is not None and hash(turn_id) != sent.turn:
            self._say(Invariant.SENT_IS_TAKEN, entry.seq, f"{how} names another turn")
        elif not sent.run:
            self._say(Invariant.SENT_IS_TAKEN, entry.seq, f"{how} names an earlier run")
        elif hash(entry.run_id) == sent.run and sent.fate in _ASIDE:
            self._underway[sent.seq] = sent._replace(run=0)
        elif hash(entry.run_id) == sent.run:
            del self._underway[sent.seq]

    def _leave(self, sent: _Sent) -> None:
        if sent.fate not in (None, Fate.PENDING):
            what = f"its receipt says {sent.fate}, and no {'parked turn' if not sent.run else 'run that it names'} does"
            self._say(Invariant.SENT_IS_TAKEN, sent.seq, what)


def listed(entry: Entry, field: str) -> Iterable[int]:
    """Return the seqs that an entry lists."""
    found = entry.body.get(field, ())
    return [seq for seq in found if isinstance(seq, int)] if isinstance(found, Sequence) else ()

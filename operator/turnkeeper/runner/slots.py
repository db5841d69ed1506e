"""Room for turns: how many run at once, and the rare turn that must run alone.

A turn that was there at two deaths of a crowd runs apart: it begins where nothing runs, and nothing begins beside it.
Several runners may know of it, and the first that is idle takes it. Only if none is for a while does one hold back
other turns for it, so that it is not passed over for ever.

Whoever finds no room leaves the thread owed: that is noted here, and whoever makes room takes the oldest.
"""

from __future__ import annotations

APART_TRIES = 10
"""How often an apart turn is tried on an idle runner before this one holds others back for it. Arbitrary: seconds."""


class Slots:
    """Counts, and never waits."""

    def __init__(self, max_turns: int) -> None:
        self._max_turns = max_turns
        self._running = 0
        self._is_apart = False
        self._suspects: dict[str, int] = {}  # thread id -> tries
        self.left_behind = False

    @property
    def room(self) -> int:
        """How many turns may begin now."""
        holds_back = any(tries >= APART_TRIES for tries in self._suspects.values())
        return 0 if self._is_apart or holds_back else max(self._max_turns - self._running, 0)

    def enter(self, *, apart: bool) -> bool:
        """Take a slot if there is one; an apart turn needs all of them free."""
        if apart:
            if self._running:
                return False
            self._is_apart = True
        elif not self.room:
            self.left_behind = True
            return False
        self._running += 1
        return True

    def leave(self) -> None:
        """Give a slot back."""
        self._running -= 1
        self._is_apart = False

    def suspect(self, thread_id: str) -> None:
        """Note that a thread's turn must run apart, or was tried to once more."""
        self._suspects[thread_id] = self._suspects.get(thread_id, -1) + 1

    def clear(self, thread_id: str) -> None:
        """Forget that a thread's turn must run apart: it is being taken."""
        self._suspects.pop(thread_id, None)

    def is_suspect(self, thread_id: str) -> bool:
        """Whether the thread's turn waits here to run apart."""
        return thread_id in self._suspects

    def next_apart(self) -> str | None:
        """Return a thread whose turn may run apart now."""
        return next(iter(self._suspects), None) if not self._running else None

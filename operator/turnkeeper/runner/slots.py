"""Room for turns: how many run at once, and the rare turn that should run alone.

A turn that was there at two deaths of a crowd runs apart: it begins where nothing runs, and nothing begins beside it
for a while. Several runners may know of it, and the first that is idle takes it. If none is, each holds back other
turns for a moment, so that it is not passed over; and if there still is none it runs beside others, for what runs may
take hours, and neither it nor those who come meanwhile may wait for that.

Whoever finds no room leaves the thread owed: that is noted here, and whoever makes room takes the oldest.
"""

from __future__ import annotations

IDLE_TRIES = 10
"""How often an apart turn is tried on an idle runner before this one holds others back for it. Arbitrary: seconds."""

APART_TRIES = 20
"""How often it is tried before it runs beside others. Arbitrary: as many seconds again are what newcomers lose."""


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
        holds_back = any(IDLE_TRIES <= tries < APART_TRIES for tries in self._suspects.values())
        return 0 if self._is_apart or holds_back else max(self._max_turns - self._running, 0)

    def enter(self, *, apart: bool = False, beside: bool = False) -> bool:
        """Take a slot if there is one. An apart turn needs all of them free; one beside others has waited enough."""
        if apart:
            if self._running:
                return False
            self._is_apart = True
        elif not (beside or self.room):
            self.left_behind = True
            return False
        self._running += 1
        return True

    def leave(self, *, apart: bool = False) -> None:
        """Give a slot back; `apart` as it was taken."""
        self._running -= 1
        if apart:
            self._is_apart = False

    def share(self) -> None:
        """Let others begin beside an apart turn: it has been alone for long enough."""
        self._is_apart = False

    def suspect(self, thread_id: str) -> None:
        """Note that a thread's turn should run apart, or was tried to once more."""
        self._suspects[thread_id] = self._suspects.get(thread_id, -1) + 1

    def clear(self, thread_id: str) -> None:
        """Forget that a thread's turn should run apart: it is being taken."""
        self._suspects.pop(thread_id, None)

    def is_suspect(self, thread_id: str) -> bool:
        """Whether the thread's turn waits here to run apart."""
        return thread_id in self._suspects

    def is_overdue(self, thread_id: str) -> bool:
        """Whether it has waited for that long enough, and others run here of which none needs to be alone."""
        return bool(self._running) and not self._is_apart and self._suspects.get(thread_id, 0) >= APART_TRIES

    def next_apart(self) -> str | None:
        """Return a thread whose turn may run apart now."""
        return next(iter(self._suspects), None) if not self._running else None

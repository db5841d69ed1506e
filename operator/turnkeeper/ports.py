"""Every door between the runner and the world, with what each promises and what it does not.

    Journal   the log and the rows of one workspace          adapters: SQL (SQLite, PostgreSQL), memory
    Claims    sessions and thread claims                     adapters: SQL, memory, Kubernetes Leases
    Taking    claim and start, end and release               one transaction where both share a database, else two steps
    Hints     "this thread may have news"                    adapters: polling
    Peers     "that runner's process is gone"                adapters: sockets
    Clock     time                                           adapters: the machine's, virtual
    Handler   what a turn does                               adapters: python, exec, http, chat, echo
    Observer  what is counted and traced                     adapters: Prometheus

For every call here: a cancellation leaves the outcome *unknown*, like a lost answer. Whoever asks again under the same
ids gets the same result, so asking again is always right; concluding that nothing happened never is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from turnkeeper.core.claim import Busy, Claimed, SessionGone, SessionRecord
from turnkeeper.core.cursor import AcceptVerdict
from turnkeeper.core.draft import Act
from turnkeeper.core.ending import Ending, EndVerdict
from turnkeeper.core.taking import OpenVerdict, TakeVerdict
from turnkeeper.core.trace import Decision
from turnkeeper.core.turn import Start, Started, StartVerdict
from turnkeeper.core.values import Claim, Entry, Json, Message, Parked, Question, Run, Stats, Thread
from turnkeeper.core.words import Ask, ThreadState

T = TypeVar("T")


class Journal(Protocol):
    """The log and rows of one workspace; the judge of every race.

    Promises: an act runs in one transaction under its thread's row lock, and is durable when `transact` returns. Reads
    see what was committed before they began. Acts on one thread by one process keep their order.
    Does not promise: that a read is still true when it returns; that acts on different threads keep any order.
    Raises UnavailableError where nothing was recorded and the part can't be reached, UnknownOutcomeError where the
    answer was lost; both within the journal's own deadline. After either, and after a cancellation, the same act may be
    run again: acts know their repetition.
    """

    async def transact(self, act: Act[T]) -> T:
        """Run an act. Where its thread does not exist and the act does not create, `seen.thread` is None."""

    async def thread(self, thread_id: str) -> Thread | None:
        """Return a thread's row."""

    async def threads(self, state: ThreadState | None, after: str, limit: int) -> Sequence[Thread]:
        """Return threads by id (by code point), those after `after`, at most `limit`."""

    async def owed(self, state: ThreadState, after: tuple[int, str] | None, limit: int) -> Sequence[Thread]:
        """Return OWED or RUNNING threads, oldest first by (owed_since_ms, thread_id). Costs no scan of the others."""

    async def ran_by(self, session: str) -> Sequence[str]:
        """Return the ids of threads whose open run that session holds by the row."""

    async def log(self, thread_id: str, after: int, limit: int) -> Sequence[Entry]:
        """Return a thread's entries with seq > `after`, in order, at most `limit`."""

    async def history(self, thread_id: str, before: int, limit: int) -> Sequence[Entry]:
        """Return the last `limit` entries with seq < `before` that are messages or ends of runs, in order."""

    async def waiting(self, thread_id: str, after: int, limit: int) -> Sequence[Message]:
        """Return a thread's waiting messages with seq > `after`, oldest first."""

    async def message(self, thread_id: str, message_id: str) -> Message | None:
        """Return a message with its fate, without its content."""

    async def question(self, thread_id: str, question_id: str) -> Question | None:
        """Return a question of the thread, however it stands."""

    async def questions(self, thread_id: str) -> Sequence[Question]:
        """Return a thread's open questions."""

    async def parked(self, thread_id: str) -> Sequence[Parked]:
        """Return a thread's parked turns that nobody has resolved."""

    async def run(self, run_id: str) -> tuple[str, Run] | None:
        """Return a run and its thread's id."""

    async def heads(self, thread_ids: Sequence[str]) -> Mapping[str, int]:
        """Return the newest seq of each of these threads that exists."""

    async def overdue(self, now_ms: int, limit: int) -> Sequence[tuple[str, str]]:
        """Return (thread id, question id) of open questions whose time is over."""

    async def stats(self) -> Stats:
        """Return the workspace's counts."""

    async def aclose(self) -> None:
        """Finish what is in flight within the journal's deadline, and close."""


class Claims(Protocol):
    """Sessions and thread claims of one workspace.

    Promises: at most one live claim of a thread at any time *in this store*; a session that is gone never comes back.
    Does not promise that the holder is alone: it may have been declared dead and not know it. The journal's fence does.
    Raises as Journal does, each within its own deadline, well under a third of the session's duration. What is one's
    own (same session, same nonce) is adopted, so repeating is right.
    """

    async def open_session(
        self, session: str, runner: str, duration_seconds: float, address: str = ""
    ) -> SessionRecord:
        """Make a session's record; a repeated call adopts it."""

    async def renew(self, session: str) -> SessionRecord | SessionGone:
        """Give the session's record a new version. Never makes one that is gone."""

    async def close_session(self, session: str) -> None:
        """Remove one's own session; no error if it is gone."""

    async def sessions(self) -> Sequence[SessionRecord]:
        """Return every session that exists, by a fresh read."""

    async def session(self, session: str) -> SessionRecord | None:
        """Return one session by a fresh read; None if it does not exist."""

    async def declare_dead(self, record: SessionRecord) -> bool:
        """Remove a session at the very version that was observed; False if it was renewed meanwhile or is gone."""

    async def claim(self, thread_id: str, session: str, nonce: str, journal_token: int) -> Claimed | Busy | SessionGone:
        """Claim a thread with a token greater than `journal_token` and than any its claim object shows."""

    async def release(self, thread_id: str, claim: Claim) -> None:
        """Remove the claim of this session and token; another's, or none, is left alone."""


class Taking(Protocol):
    """Claims a thread and starts its turn; ends a run and gives the claim back.

    Promises: after any return or raise of `take` but Started, and after `end` with `released`, no claim of this session
    on the thread stands for longer than it takes to release it; the adapter owns that release.
    """

    async def take(self, thread_id: str, session: str, how: Start) -> TakeVerdict:
        """Claim and start, under a nonce derived from `how.run_id`: repeating the call adopts."""

    async def accept(self, accepting: Act[AcceptVerdict], session: str, how: Start) -> OpenVerdict:
        """Record a message, and take its thread as `take` does if that costs no transaction more."""

    async def take_again(self, started: Started, how: Start) -> StartVerdict:
        """Start the thread's next turn under the claim that ended its last one; anything but Started releases it."""

    async def end(self, started: Started, ending: Ending, now_ms: int, *, keep_claim: bool) -> EndVerdict:
        """End a run. The claim is released unless `keep_claim` and the thread is still owed (`released` False)."""

    async def let_go(self, started: Started) -> None:
        """Release a claim whose run can't be ended now; the thread's next taker ends it."""


class Watch(Protocol):
    """One listener to one thread."""

    async def news(self, timeout_seconds: float) -> bool:
        """Return when there may have been news since the last return; False if there was no hint in that time."""

    def close(self) -> None:
        """Stop listening."""


OWED: Final[str] = ""
"""The name under which hints tell that some thread is left to whoever has room; no thread has it."""


class Hints(Protocol):
    """Says that a thread may have news. May miss any and say too many: a hint is never the only way to know."""

    def watch(self, thread_id: str) -> Watch:
        """Return a watch on a thread from now on."""

    def tell(self, thread_id: str) -> None:
        """Say that this process has written to the thread."""

    async def run(self) -> None:
        """Carry hints between processes until cancelled; the owner's task."""


class Peers(Protocol):
    """Notices (spec action DeathNotice) that another runner's process is gone, well before its silence would tell.

    May miss any: the timer is behind it. Does not promise to be right: a wrong notice costs a run its claim, no more.
    """

    address: str  # where this process answers its peers; empty where it does not

    def present(self, session: str) -> None:
        """Answer peers with this session from now on: to be said before the session exists."""

    async def until_gone(self, record: SessionRecord) -> None:
        """Return once the session's process is known to be gone; cancelled by whoever sees the session's end."""


class Clock(Protocol):
    """Time. `monotonic` for every deadline; `wall_ms` only to show people, and to order work by age."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch."""

    async def sleep(self, seconds: float) -> None:
        """Wait on the monotonic clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """A question that a handler ends its run with. The id is unique in its thread; made up where it is empty."""

    text: str
    ask: Ask = Ask.FREE
    detail: Json = None
    question_id: str = ""
    timeout_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """What a handler returns to ask: the turn goes on, in a new run, once every question is resolved."""

    questions: tuple[Asking, ...]


class Turn(Protocol):
    """What a handler is given: one run of one turn.

    The run is cancelled (asyncio.CancelledError) when it is stopped, out of time or not its runner's any more; a write
    raises LostRunError once the journal has refused it. `token` may guard side effects elsewhere: it only rises.
    """

    workspace: str
    thread_id: str
    run_id: str
    turn_id: str
    attempt: int
    token: int
    prompts: tuple[Message, ...]
    questions: tuple[Question, ...]

    async def emit(self, event: Json) -> None:
        """Write an event to the log; durable on return, and safe to call from several tasks.

        Raises InvalidInputError for what can't be kept; that event alone is refused.
        """

    async def step(self, name: str, effect: Callable[[], Awaitable[Json]]) -> Json:
        """Do a side effect once for the turn: its recorded result is returned to later attempts instead."""

    async def next_steer(self) -> Message:
        """Wait for the next message that reached this run; a cancelled wait has taken none.

        It counts as used if the run completes or pauses, or by `use`.
        """

    def steering(self) -> tuple[Message, ...]:
        """Hand out the messages that have reached this run, without waiting; they count as `next_steer`'s do."""

    def use(self, message: Message) -> None:
        """Say that a message, and all that was handed out before it, is used whatever way the run ends."""

    async def history(self, limit: int = 200) -> Sequence[Entry]:
        """Return the last `limit` messages (those unread too) and ends of runs before this run, oldest first."""


class Handler(Protocol):
    """What a turn does. One instance serves all of a runner's turns, at once."""

    async def turn(self, turn: Turn) -> Json | Pause:
        """Run a turn; return its answer, or Pause. An exception ends the run `failed` with its text."""

    async def aclose(self) -> None:
        """Release what the handler holds."""


class Observer(Protocol):
    """Is told what happened, for metrics and traces. Never raises, never blocks."""

    def acted(self, action: str, thread_id: str, verdict: str, seconds: float) -> None:
        """An action of the spec was carried out, with the name of its verdict."""

    def decided(self, decision: Decision, thread_id: str, seq: int = 0) -> None:
        """The runner decided what no store sees. seq: the newest message offered, of a STEER."""

    def turn_ended(self, outcome: str, seconds: float) -> None:
        """A run ended."""

    def looked(self, result: str) -> None:
        """A look was taken."""

    def renewed(self, result: str, seconds: float) -> None:
        """A renewal was tried."""

    def noticed(self, result: str) -> None:
        """A peer's process was noticed to be gone."""

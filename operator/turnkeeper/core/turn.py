"""A turn's run: begun in one transaction, written under its fence, ended in one transaction.

Theory. `start` opens the claim in the journal and begins the run at once: the fence is checked, a run left open by an
earlier claim is ended, the attempt is counted *before* it is made, the prompts are consumed and `run_started` is
written. A crash is before or after that transaction, never in it. From then on each write must carry the very fence
that stands in the row, and finds the run open. `end` writes the one terminal entry and moves `taken` over the steering
that was used, under the same lock that a stop or a late message must take: each comes before or after.

Repeating an act whose answer was lost is harmless: a run is known by its id, a run's events are numbered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from turnkeeper.core.cursor import prompts_among, settle_taken, steerable_among
from turnkeeper.core.draft import Act, Change, Draft, Needs, Seen
from turnkeeper.core.recovery import abandon, charged_deaths, is_suspect, park
from turnkeeper.core.values import Fence, Json, Message, OpenRun, Question, Run, Thread, TurnState
from turnkeeper.core.words import Fate, Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How a claimant would start. `ripe`: the gap after earlier deaths is over. `apart`: nothing else runs here.

    beside: others do, and a turn that should run apart has waited long enough for them.
    """

    run_id: str
    runner: str
    now_ms: int
    max_attempts: int
    ripe: bool = False
    apart: bool = False
    beside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The run is open under `fence`.

    questions: those of the turn, as they were resolved. parked: turns set aside now. taken_over: an earlier claim's run
    was found open and ended.
    """

    run: Run
    thread: Thread
    fence: Fence
    turn: TurnState
    prompts: tuple[Message, ...]
    questions: tuple[Question, ...] = ()
    parked: int = 0
    taken_over: bool = False


@dataclass(frozen=True, slots=True)
class NothingOwed:
    """The thread has no turn coming; the claim is of no use."""

    parked: int = 0


@dataclass(frozen=True, slots=True)
class Later:
    """The turn's runner died of it before: it is tried again after the gap for this many charged deaths."""

    charged: int
    parked: int = 0


@dataclass(frozen=True, slots=True)
class NeedsApart:
    """The turn was there at two deaths of a crowd: it is run where nothing else runs, if that can be had soon."""

    parked: int = 0


@dataclass(frozen=True, slots=True)
class Superseded:
    """The journal has seen a greater token, or this one from another session: the writer is not the holder."""

    token: int


StartVerdict = Started | NothingOwed | Later | NeedsApart | Superseded


def start(thread_id: str, fence: Fence, how: Start, *, holder_gone: bool) -> Act[StartVerdict]:
    """Return the act that opens a claim in the journal and begins the turn that is owed (spec action Start).

    holder_gone: whether the session that the row names does not exist, seen after the claim was made.
    """

    def decide(seen: Seen) -> tuple[StartVerdict, Change | None]:
        if seen.thread is None:
            return NothingOwed(), None
        return begin(seen, seen.thread, fence, how, holder_gone=holder_gone)

    return Act("start", thread_id, decide, START_NEEDS)


START_NEEDS = Needs(pending=True, turn=True, questions=True)


def begin(
    seen: Seen, thread: Thread, fence: Fence, how: Start, *, holder_gone: bool
) -> tuple[StartVerdict, Change | None]:
    """Decide a start under a claim that stands."""
    if fence.token <= thread.token and fence != thread.fence:
        return Superseded(thread.token), None
    if thread.run is not None and thread.run.run_id == how.run_id and thread.turn is not None and seen.run is not None:
        return _started(seen.run, thread, thread.turn, seen.prompts, seen), None
    if thread.run is None and not thread.is_owed:
        # The claim was made on an older view: the holder before may have ended the turn, or paused it, in between.
        return NothingOwed(), None
    draft = Draft(replace(thread, token=fence.token, session=fence.session), how.now_ms)
    abandon(draft, seen, holder_gone=holder_gone)
    turn, parked = draft.thread.turn, 0
    if turn is not None and charged_deaths(turn) >= how.max_attempts:
        park(draft, turn, seen.prompts)
        turn, parked = None, 1
    if turn is not None and is_suspect(turn) and not (how.apart or how.beside):
        return NeedsApart(parked), draft.change()
    if turn is not None and turn.charged > 1 and not how.ripe:
        return Later(turn.charged, parked), draft.change()
    chosen = _choose(seen, turn, how.run_id)
    if chosen is None:
        draft.thread = replace(draft.thread, taken=draft.thread.asked)
        return NothingOwed(parked), draft.change()
    turn, prompts = chosen
    return _open(draft, seen, turn, prompts, how, parked)


def _choose(seen: Seen, turn: TurnState | None, run_id: str) -> tuple[TurnState, tuple[Message, ...]] | None:
    """Return the turn that is next and its prompts: the one in progress, a parked one to retry, or a new one."""
    if turn is not None and turn.attempts:
        return turn, seen.prompts
    if turn is not None:
        return turn, going_on_among(seen.pending, turn)
    retrying = seen.retrying
    if retrying is not None and not (seen.pending and seen.pending[0].seq < retrying.ask_seq):
        return TurnState(turn_id=retrying.turn_id, leg=retrying.leg), seen.retry_prompts
    prompts = prompts_among(seen.pending)
    return (TurnState(turn_id=run_id), prompts) if prompts else None


def going_on_among(pending: tuple[Message, ...], turn: TurnState) -> tuple[Message, ...]:
    """Return what a turn consumes as it goes on after a pause: the reply, if one came, and what may be steered."""
    if pending and pending[0].turn_id == turn.turn_id:
        return prompts_among(pending)
    return steerable_among(pending)


def _open(
    draft: Draft, seen: Seen, turn: TurnState, prompts: tuple[Message, ...], how: Start, parked: int
) -> tuple[Started, Change]:
    turn = replace(turn, attempts=turn.attempts + 1)
    body: dict[str, Json] = {
        "turn_id": turn.turn_id,
        "attempt": turn.attempts,
        "prompts": [message.seq for message in prompts],
        "runner": how.runner,
        "apart": how.apart,
    }
    seq = draft.write(Kind.RUN_STARTED, body, how.run_id)
    run = Run(
        run_id=how.run_id,
        turn_id=turn.turn_id,
        attempt=turn.attempts,
        token=draft.thread.token,
        session=draft.thread.session,
        started_seq=seq,
        started_ms=how.now_ms,
    )
    draft.put_run(run)
    consumed = tuple(
        replace(message, fate=Fate.STARTED, turn_id=turn.turn_id, leg=turn.leg, run_id=how.run_id)
        for message in prompts
    )
    for message in consumed:
        draft.put_message(message)
    opened = OpenRun(run_id=how.run_id, attempt=turn.attempts, apart=how.apart)
    draft.thread = replace(draft.thread, run=opened, turn=turn)
    is_retry = seen.retrying is not None and seen.retrying.turn_id == turn.turn_id
    if is_retry and seen.retrying is not None:
        draft.put_parked(replace(seen.retrying, ask_seq=0))
    settle_taken(draft, seen, consumed, retry_taken=is_retry)
    change = draft.change()
    started = _started(run, change.thread, turn, consumed, seen, parked)
    return replace(started, taken_over=seen.thread is not None and seen.thread.run is not None), change


def _started(
    run: Run, thread: Thread, turn: TurnState, prompts: tuple[Message, ...], seen: Seen, parked: int = 0
) -> Started:
    # What was seen may be another turn's questions: those of one that was ended on the way to this one.
    questions = tuple(question for question in seen.questions if question.turn_id == turn.turn_id)
    fence = thread.fence
    return Started(run=run, thread=thread, fence=fence, turn=turn, prompts=prompts, questions=questions, parked=parked)

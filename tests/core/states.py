"""Threads, messages and runs in the states that the tables of decisions begin from, and starts over them."""

from __future__ import annotations

from dataclasses import replace

from turnkeeper.core.draft import Change, Seen
from turnkeeper.core.turn import Start, Started, StartVerdict, start
from turnkeeper.core.values import Fence, Message, OpenRun, Parked, Question, Run, Thread, TurnState
from turnkeeper.core.words import Ask, Fate, Mode

NOW = 1000
FENCE = Fence(3, "mine")
HOW = Start(run_id="new", runner="runner", now_ms=NOW, max_attempts=2)
WILLING = replace(HOW, ripe=True, apart=True)

TURN = TurnState(turn_id="old", attempts=1)
RUN = Run(run_id="old", turn_id="old", attempt=1, token=2, session="theirs", started_seq=2, started_ms=5)


def message(seq: int, mode: Mode = Mode.STEER, *, turn_id: str = "", fate: Fate = Fate.PENDING) -> Message:
    """Return a message at a seq."""
    run_id = "old" if fate is not Fate.PENDING else ""
    return Message(
        message_id=f"m{seq}",
        seq=seq,
        sender="x",
        mode=mode,
        digest=f"d{seq}",
        created_ms=seq,
        content=f"c{seq}",
        fate=fate,
        turn_id=turn_id,
        run_id=run_id,
    )


PROMPT = message(1, turn_id="old", fate=Fate.STARTED)
QUESTION = Question(question_id="q1", turn_id="old", ask=Ask.FREE, text="which?")
APPROVAL = Question(question_id="q2", turn_id="old", ask=Ask.APPROVAL, text="may I?")
PARKED = Parked(seq=4, turn_id="old", leg=0, reason="it died")

OWED = Thread(thread_id="t", last_seq=1, asked=1, token=2, session="theirs", owed_since_ms=1)
RUNNING = Thread(
    thread_id="t",
    last_seq=2,
    asked=1,
    taken=1,
    token=2,
    session="theirs",
    run=OpenRun(run_id="old", attempt=1),
    turn=TURN,
    owed_since_ms=1,
)
PAUSED = Thread(
    thread_id="t",
    last_seq=5,
    asked=1,
    taken=1,
    token=2,
    session="theirs",
    turn=TurnState(turn_id="old", leg=1),
    open_questions=2,
)
IDLE = Thread(thread_id="t", last_seq=3, asked=1, taken=1, token=2, session="theirs")

SEEN_OWED = Seen(thread=OWED, pending=(message(1),))
SEEN_RUNNING = Seen(thread=RUNNING, prompts=(PROMPT,), run=RUN, died_with=1)
SEEN_PAUSED = Seen(thread=PAUSED, run=RUN, questions=(QUESTION, APPROVAL))


def try_start(
    seen: Seen, how: Start = HOW, fence: Fence = FENCE, *, gone: bool = True
) -> tuple[StartVerdict, Change | None]:
    """Decide a start over what was seen."""
    return start("t", fence, how, holder_gone=gone).decide(seen)


def begun(seen: Seen, how: Start = HOW, *, gone: bool = True) -> tuple[Started, Change]:
    """Decide a start that begins a run."""
    verdict, change = try_start(seen, how, gone=gone)
    assert isinstance(verdict, Started)
    assert change is not None
    return verdict, change

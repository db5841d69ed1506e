"""What happens to a run whose holder is gone, whom the death is charged to, and when a turn is set aside.

Theory. A death is charged to the turn that caused it, not to its neighbours. A session that died with one run charges
that turn. One that died with several tells nothing: each of them gets a free next attempt at full speed, and only a
turn that was there at two such deaths is run apart: it begins where nothing runs, and nothing begins beside it for a
while. A death alone is its own, and proves the earlier ones its own too. How many runs a session died with is counted
in the journal, from the runs it left open and those of its that were abandoned already, so every observer counts the
same, in whatever order they come.

Where every runner is busy with long turns, none is ever idle, and a suspect runs beside others after all: waiting for
them would strand it. Then a death tells nothing again, until there have been so many that they can't be chance.

A turn that was charged `max_attempts` deaths is parked: what was sent after it runs, and a person may retry or drop it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from turnkeeper.core.draft import Draft, Seen
from turnkeeper.core.values import Json, Message, Parked, TurnState
from turnkeeper.core.words import Fate, Kind, Outcome

CROWD_DEATHS_MAX = 1
"""A turn may be there at one death of a crowd; at the second it is a suspect and runs apart."""

CHANCE_DEATHS_MAX = 5
"""Deaths of crowds that may be chance. Arbitrary: twice the default max_attempts is no more bad luck of a neighbour."""

FREE_DEATHS = 1
"""Deaths after which the next attempt still starts at once: takeover after a first crash must not wait."""

BACKOFF_FIRST_SECONDS = 1.0
BACKOFF_LAST_SECONDS = 30.0
"""Gaps before the further attempts: they double from the first to the last. Arbitrary: long against a crash loop's
cost of a second, short against a person's patience."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What one sweep did. `remaining` counts the owed threads that it left, and `complete` says that there are none.

    started: run ids. held: threads whose live holder stands; each has a look armed. refused: lost a race for the claim,
    or no room here; a look or the backlog takes them. failed: storage errors. parked: turns set aside by this sweep.
    """

    started: tuple[str, ...] = ()
    held: int = 0
    refused: int = 0
    failed: int = 0
    parked: int = 0
    remaining: int = 0
    complete: bool = True
    seconds: float = 0.0


def abandon(draft: Draft, seen: Seen, *, holder_gone: bool) -> None:
    """End the run that an earlier claim left open (part of the spec action Start).

    It ends `stopped` if somebody had asked for that, `abandoned` if its session is gone, else `interrupted`: a holder
    that lives and let go of its claim did not die of this turn.
    """
    run, turn = draft.thread.run, draft.thread.turn
    if run is None or turn is None:
        return
    if run.stop_asked:
        close_run(draft, seen, Outcome.STOPPED, "stopped; its runner was gone before it could end it")
        return
    if not holder_gone:
        close_run(draft, seen, Outcome.INTERRUPTED, "its runner let go of the thread")
        return
    close_run(draft, seen, Outcome.ABANDONED, "its runner's session is gone")
    is_alone = seen.died_with <= 1
    charged = replace(turn, charged=turn.charged + 1) if is_alone else replace(turn, crowd_deaths=turn.crowd_deaths + 1)
    draft.thread = replace(draft.thread, turn=charged)


def close_run(draft: Draft, seen: Seen, outcome: Outcome, reason: str, body: dict[str, Json] | None = None) -> None:
    """Write the open run's one terminal entry, and end its turn if the outcome does. `seen.run` must be that run."""
    run = draft.thread.run
    if run is None or seen.run is None or seen.run.run_id != run.run_id:
        msg = f"thread {draft.thread.thread_id!a}: the row's open run was not loaded with the row"
        raise AssertionError(msg)
    seq = draft.write(Kind.RUN_ENDED, {"outcome": outcome, "reason": reason, **(body or {})}, run.run_id)
    draft.put_run(replace(seen.run, outcome=outcome, reason=reason, ended_seq=seq, ended_ms=draft.now_ms))
    turn = None if outcome.ends_turn else draft.thread.turn
    draft.thread = replace(draft.thread, run=None, turn=turn)


def park(draft: Draft, turn: TurnState, prompts: tuple[Message, ...]) -> None:
    """Set a turn aside with a plain reason (spec action Park); what was sent after it is next."""
    reason = f"its runner died of it: {charged_deaths(turn)} times while this turn was running"
    body: dict[str, Json] = {
        "turn_id": turn.turn_id,
        "reason": reason,
        "messages": [message.seq for message in prompts],
    }
    seq = draft.write(Kind.TURN_PARKED, body)
    draft.put_parked(Parked(seq=seq, turn_id=turn.turn_id, leg=turn.leg, reason=reason))
    for message in prompts:
        draft.put_message(replace(message, fate=Fate.PARKED, reason=reason))
    draft.thread = replace(draft.thread, turn=None, parked=draft.thread.parked + 1)


def charged_deaths(turn: TurnState) -> int:
    """Return the deaths put down to a turn: those of crowds too, once it has died alone or they can't be chance."""
    is_proven = turn.charged > 0 or turn.crowd_deaths > CHANCE_DEATHS_MAX
    return turn.charged + (turn.crowd_deaths if is_proven else 0)


def is_suspect(turn: TurnState) -> bool:
    """Whether the turn's next run should be apart."""
    return turn.crowd_deaths > CROWD_DEATHS_MAX


def backoff_seconds(charged: int) -> float:
    """Return the gap before the next attempt of a turn with this many charged deaths; zero for the first ones."""
    if charged <= FREE_DEATHS:
        return 0.0
    doubled = BACKOFF_FIRST_SECONDS * 2.0 ** min(charged - FREE_DEATHS - 1, 10)
    return min(doubled, BACKOFF_LAST_SECONDS)

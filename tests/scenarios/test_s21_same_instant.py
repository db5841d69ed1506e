"""S21: two approvals, a cancel and a timeout in the same instant."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence

import pytest

from tests.invariants import ThreadDump
from tests.scenarios.harness import Life, World, send
from turnkeeper.core.values import Json
from turnkeeper.core.words import Ask, Kind, Outcome, Resolution
from turnkeeper.errors import StandsOtherwiseError
from turnkeeper.ports import Asking, Pause, Turn

RACES = 300
TOGETHER = 50

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

Move = Callable[[Life, str, str], Awaitable[str]]
"""What one person does, given a runner, a thread and its paused run; returns what stands by it."""


class Gated:
    """Does something only once it was approved: what was proposed, and counts how often."""

    def __init__(self, *, expires: bool = False) -> None:
        self.done: Counter[str] = Counter()
        self._timeout_seconds = 0.001 if expires else None

    async def turn(self, turn: Turn) -> Json | Pause:
        """Take a turn."""
        if not turn.questions:
            if turn.prompts[0].content == "behind":
                return "behind"
            detail = {"delete": turn.thread_id}
            timeout = self._timeout_seconds
            asking = Asking(text="may I?", ask=Ask.APPROVAL, detail=detail, question_id="q", timeout_seconds=timeout)
            return Pause((asking,))
        (question,) = turn.questions
        if question.resolution is Resolution.APPROVED:
            assert question.detail == {"delete": turn.thread_id}
            self.done[turn.thread_id] += 1
        return question.resolution.value


async def approve(life: Life, thread_id: str, run_id: str) -> str:
    """Say yes."""
    del run_id
    return (await life.runner.answer(thread_id, "q", Resolution.APPROVED)).resolution


async def deny(life: Life, thread_id: str, run_id: str) -> str:
    """Say no."""
    del run_id
    return (await life.runner.answer(thread_id, "q", Resolution.DENIED)).resolution


async def cancel(life: Life, thread_id: str, run_id: str) -> str:
    """Stop the turn."""
    del thread_id
    await life.runner.stop(run_id)
    return Resolution.CANCELLED


async def sweep(life: Life, thread_id: str, run_id: str) -> str:
    """Find the question's time over, as every runner does on its schedule."""
    del thread_id, run_id
    await life.runner.recover()
    return ""


async def _race(world: World, gated: Gated, moves: Sequence[Move]) -> list[tuple[ThreadDump, list[str | Exception]]]:
    """Pause threads, let the moves meet on each, by way of two runners, and return what each was told."""
    lives = [await world.start(gated.turn, sweep_interval_seconds=None) for _ in range(2)]
    told: dict[str, list[str | Exception]] = {}
    ended: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def note(point: str, thread_id: str) -> None:
        if point == "after:end":
            ended[thread_id].set()

    for life in lives:
        life.hooks.append(note)

    async def race(thread_id: str) -> None:
        await send(lives[0], thread_id, "begin")
        await ended[thread_id].wait()
        (asked,) = await world.entries(thread_id, Kind.RUN_ENDED)
        barrier = asyncio.Barrier(len(moves))

        async def move(number: int) -> str:
            await barrier.wait()
            return await moves[number](lives[number % 2], thread_id, asked.run_id)

        told[thread_id] = await asyncio.gather(  # type: ignore[assignment]  # the moves raise nothing graver
            *(move(number) for number in range(len(moves))), return_exceptions=True
        )
        await send(lives[1], thread_id, "behind")

    for first in range(0, RACES, TOGETHER):
        await asyncio.gather(*(race(f"thread-{number:03}") for number in range(first, first + TOGETHER)))
    await world.settled()
    dumps = await world.check()
    assert len(dumps) == RACES
    return [(dump, told[dump.row.thread_id]) for dump in dumps]


def _stands(dump: ThreadDump) -> str:
    """How the one question was resolved, by the log; it is resolved once."""
    (answer,) = dump.of(Kind.ANSWER)
    return str(answer.body["resolution"])


def _check_told(dump: ThreadDump, told: Sequence[str | Exception]) -> None:
    """Who won is told so; who lost is told what stands."""
    for verdict in told:
        if isinstance(verdict, StandsOtherwiseError):
            assert verdict.stands
        elif verdict:
            assert verdict == _stands(dump)


def _check_behind(dump: ThreadDump) -> None:
    """What was sent behind it ran, after it."""
    last = list(dump.of(Kind.RUN_ENDED))[-1]
    assert last.body["outcome"] == Outcome.COMPLETED


@pytest.mark.parametrize("moves", [(approve, approve), (approve, deny)], ids=["approve-approve", "approve-deny"])
async def test_one_of_two_answers_wins_and_the_other_is_told(world: World, moves: Sequence[Move]) -> None:
    """Exactly one stands, and what was gated is done at most once, and only if it was approved."""
    gated = Gated()
    for dump, told in await _race(world, gated, moves):
        assert sum(isinstance(verdict, StandsOtherwiseError) for verdict in told) == 1
        _check_told(dump, told)
        _check_behind(dump)
        assert gated.done[dump.row.thread_id] == (_stands(dump) == Resolution.APPROVED)


async def test_a_cancel_and_an_approval_never_both_take_effect(world: World) -> None:
    """Never does what was gated run after a recorded cancel, and a cancelled turn never ends as completed."""
    gated = Gated()
    for dump, told in await _race(world, gated, (approve, cancel)):
        _check_behind(dump)
        approved, stopped = told
        stopped_runs = [entry for entry in dump.of(Kind.RUN_ENDED) if entry.body["outcome"] == Outcome.STOPPED]
        turn_ended = [*dump.of(Kind.TURN_STOPPED), *stopped_runs]
        if _stands(dump) == Resolution.CANCELLED:
            assert isinstance(approved, StandsOtherwiseError)
            assert gated.done[dump.row.thread_id] == 0
        if not isinstance(stopped, Exception):
            assert len(turn_ended) == 1
        else:
            assert isinstance(stopped, StandsOtherwiseError)
            # The turn was over: told is how the named run ended, which had paused.
            assert (stopped.stands, turn_ended) == (Outcome.PAUSED, [])
        assert gated.done[dump.row.thread_id] <= 1


async def test_an_answer_and_the_clock_resolve_a_question_once(world: World) -> None:
    """The question is approved or has expired, and the turn goes on with just that."""
    gated = Gated(expires=True)
    found = Counter[str]()
    for dump, told in await _race(world, gated, (approve, sweep)):
        _check_told(dump, told)
        _check_behind(dump)
        found[_stands(dump)] += 1
        assert gated.done[dump.row.thread_id] == (_stands(dump) == Resolution.APPROVED)
    assert set(found) <= {Resolution.APPROVED, Resolution.EXPIRED}


async def test_a_cancel_and_a_turns_end_stand_in_one_order(world: World) -> None:
    """Stop first: stopped, whatever the handler returned. End first: the asker is told what stands."""
    ending: dict[str, asyncio.Event] = {}

    async def until_told(turn: Turn) -> Json:
        if turn.prompts[0].content == "begin":
            await ending[turn.thread_id].wait()
        return "done"

    holder, other = [await world.start(until_told, max_turns=TOGETHER) for _ in range(2)]

    async def race(thread_id: str) -> tuple[str, str]:
        ending[thread_id] = asyncio.Event()
        run_id = (await send(holder, thread_id, "begin")).run_id
        if not run_id:  # it was not begun within a moment
            run_id = (await world.until_kind(thread_id, Kind.RUN_STARTED))[0].run_id
        ending[thread_id].set()
        try:
            await other.runner.stop(run_id)
        except StandsOtherwiseError as error:
            return thread_id, error.stands
        return thread_id, Outcome.STOPPED

    found = Counter[str]()
    for first in range(0, RACES, TOGETHER):
        for thread_id, stands in await asyncio.gather(
            *(race(f"thread-{number:03}") for number in range(first, first + TOGETHER))
        ):
            await world.until_kind(thread_id, Kind.RUN_ENDED)
            assert await world.outcomes(thread_id) == [stands]
            found[stands] += 1
    await world.settled()
    await world.check()
    assert set(found) <= {Outcome.STOPPED, Outcome.COMPLETED}

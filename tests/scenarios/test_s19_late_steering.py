"""S19: the message that lands as the turn ends."""

import asyncio
from collections import defaultdict

import pytest

from tests.scenarios.harness import Life, World, send
from tests.soak.waiting import until_true
from turnkeeper.core.values import Json
from turnkeeper.core.words import Fate, Kind, Outcome
from turnkeeper.ports import Turn

POINTS = ("before_drain", "after_drain", "before:end", "after:end", "hand_over")
TRIALS = 200
TOGETHER = 20
SENDERS = ("ann", "ben", "cem")


class Landing:
    """Sends to a thread at a point of its turn, once, from three people by way of two runners."""

    def __init__(self, count: int) -> None:
        self.lives: list[Life] = []
        self.point_of: dict[str, str] = {}
        self.ended: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.count = count

    async def at(self, point: str, thread_id: str) -> None:
        """Send, if this is the point of the thread."""
        if point == "after:end":
            self.ended[thread_id].set()
        if self.point_of.get(thread_id) == point:
            await self._say_all(thread_id)

    async def _say_all(self, thread_id: str) -> None:
        self.point_of[thread_id] = ""
        await asyncio.gather(*(self._say(thread_id, number) for number in range(len(SENDERS))))
        del self.point_of[thread_id]

    async def _say(self, thread_id: str, who: int) -> None:
        for number in range(who, self.count, len(SENDERS)):
            life = self.lives[number % 2]
            await send(life, thread_id, number, f"late-{number}", sender=SENDERS[who])

    async def turn(self, turn: Turn) -> Json:
        """Do one step, look for steering once, and answer with all that was heard."""
        heard = [message.seq for message in turn.prompts]
        await turn.emit("step")
        await self.at("before_drain", turn.thread_id)
        heard += [message.seq for message in turn.steering()]
        await self.at("after_drain", turn.thread_id)
        return heard

    async def land(self, thread_id: str, point: str) -> None:
        """Begin a turn into which the messages land."""
        self.point_of[thread_id] = point
        await send(self.lives[0], thread_id, "begin", sender="ann")
        if point == "hand_over":  # beside the hooks: no one knows whether before or after the release
            await self.ended[thread_id].wait()
            await self._say_all(thread_id)

    async def landed(self) -> None:
        """Wait until everything has been sent; a point that is never reached would be waited for in vain."""
        await until_true(lambda: not self.point_of, "everything is sent", seconds=60)


async def _lives(world: World, landing: Landing) -> None:
    landing.lives = [await world.start(landing.turn) for _ in range(2)]
    for life in landing.lives:
        life.hooks.append(landing.at)


async def _check(world: World, count: int) -> None:
    for dump in await world.check():
        assert len(dump.messages) == count + 1
        assert {message.fate for message in dump.messages} <= {Fate.STARTED, Fate.STEERED}
        assert all(entry.body["prompts"] for entry in dump.of(Kind.RUN_STARTED)), "a turn about nothing"
        ends = list(dump.of(Kind.RUN_ENDED))
        assert {entry.body["outcome"] for entry in ends} == {Outcome.COMPLETED}
        heard: list[Json] = []
        for entry in ends:
            answer = entry.body["answer"]
            assert isinstance(answer, list)
            heard += answer
        assert heard == sorted(message.seq for message in dump.messages), "heard twice, never or out of order"


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_what_lands_as_a_turn_ends_is_in_it_or_begins_the_next(world: World) -> None:
    """Each of three people's messages is heard once, in order, wherever in the end of a turn they land."""
    landing = Landing(count=3)
    await _lives(world, landing)
    for first in range(0, TRIALS, TOGETHER):
        trials = range(first, first + TOGETHER)
        await asyncio.gather(*(landing.land(f"thread-{n}", POINTS[n % len(POINTS)]) for n in trials))
    await landing.landed()
    await world.settled()
    await _check(world, 3)


@pytest.mark.timeout(180)
async def test_a_burst_as_a_turn_ends_is_heard_whole(world: World) -> None:
    """Fifty messages back to back from three people, at each point."""
    landing = Landing(count=50)
    await _lives(world, landing)
    await asyncio.gather(*(landing.land(f"thread-{point}", point) for point in POINTS))
    await landing.landed()
    await world.settled()
    await _check(world, 50)


@pytest.mark.timeout(120)
async def test_steering_that_was_handed_out_and_not_used_is_given_again(world: World) -> None:
    """The holder dies between taking the message out and using it: the next attempt gets it, or the next turn."""
    held = asyncio.Event()

    async def hold(turn: Turn) -> Json:
        first = await turn.next_steer()
        if turn.attempt == 1:
            held.set()
            await asyncio.Event().wait()
        return [message.content for message in turn.prompts] + [first.content]

    holder = await world.start(hold)
    await send(holder, "thread", "begin")
    await send(holder, "thread", "left")
    async with asyncio.timeout(60):
        await held.wait()
    assert (await world.fate("thread", "left")).fate is Fate.PENDING
    await holder.kill()
    await world.start(hold)
    await world.settled()
    await world.check()
    assert (await world.fate("thread", "left")).fate is Fate.STEERED
    ends = await world.entries("thread", Kind.RUN_ENDED)
    assert [entry.body.get("answer") for entry in ends] == [None, ["begin", "left"]]

"""What follows a run: the release and the read after it, a lost session, an observer that was away."""

from __future__ import annotations

import asyncio

import pytest

from tests.runner.world import TTL, LoopClock, World, echo
from turnkeeper.adapters.memory import MemoryClaims
from turnkeeper.core.claim import SessionRecord
from turnkeeper.core.words import Kind, Mode
from turnkeeper.errors import UnavailableError, UnknownOutcomeError
from turnkeeper.ports import Turn
from turnkeeper.runner.presence import Presence

pytestmark = pytest.mark.looptime


async def test_a_message_accepted_elsewhere_between_end_and_release_is_taken_by_the_holder_at_once(
    world: World,
) -> None:
    """The sender is refused busy; the holder reads the cursors after its release and takes the thread again."""
    holder = await world.start(echo)
    other = await world.start(echo, max_turns=1)
    release, releasing = holder.claims.release, asyncio.Event()

    async def slowly(thread_id: str, claim: object) -> None:
        releasing.set()
        await asyncio.sleep(0.4)
        await release(thread_id, claim)  # type: ignore[arg-type] # handed through

    holder.claims.release = slowly  # type: ignore[method-assign] # a release that takes its time
    await world.send(holder, "t", "a")
    await releasing.wait()
    await world.send(other, "t", "b")
    elapsed = await world.until(lambda: len(world.entries("t", Kind.RUN_STARTED)) == 2)
    assert elapsed <= 0.5
    assert world.entries("t", Kind.RUN_STARTED)[1].body["runner"] == "runner-0"


async def test_a_message_accepted_here_as_a_drive_ends_is_taken_at_once(world: World) -> None:
    """It finds the drive still there, which will not read again: the nudge makes it."""
    process = await world.start(echo, sweep_interval_seconds=None)
    read_after, reading = process.taking._read_after, asyncio.Event()

    async def late(verdict: object) -> object:
        answer = await read_after(verdict)  # type: ignore[arg-type] # handed through
        reading.set()
        await asyncio.sleep(0.1)
        return answer

    process.taking._read_after = late  # type: ignore[assignment, method-assign] # time for the message to come
    await world.send(process, "t", "a")
    await reading.wait()
    await world.send(process, "t", "b")
    elapsed = await world.until(lambda: len(world.entries("t", Kind.RUN_STARTED)) == 2)
    assert elapsed <= 0.2


async def test_a_runner_that_lost_its_session_cuts_its_runs_and_takes_their_threads_again(world: World) -> None:
    """Counted from the start of its last good renewal; nobody else is there, and no sweep comes."""
    attempts: list[int] = []

    async def script(turn: Turn) -> str:
        attempts.append(turn.attempt)
        if turn.attempt == 1:
            await asyncio.Event().wait()
        return "done"

    process = await world.start(script, sweep_interval_seconds=None)
    renew, end = process.claims.renew, process.taking.end

    async def fail(*_: object, **__: object) -> object:
        raise UnavailableError("away")

    process.claims.renew = fail  # type: ignore[assignment, method-assign] # an outage of the claim store
    process.taking.end = fail  # type: ignore[assignment, method-assign] # and of the journal, until the run is lost
    old = process.runner._keeper.session
    await world.send(process, "t", "go")
    await world.until(lambda: process.runner._keeper.session not in {"", old})
    process.claims.renew, process.taking.end = renew, end  # type: ignore[method-assign] # as they were
    elapsed = await world.idle("t")
    assert attempts == [1, 2]
    assert elapsed <= TTL + 2.0
    assert world.answers("t") == ["done"]


async def test_an_observer_that_was_away_starts_its_count_again(world: World) -> None:
    """A record that looks old only because nobody looked is not declared dead before it was watched for its ttl."""
    claims = MemoryClaims("w", world.store)
    record = await claims.open_session("s", "somebody", TTL)
    gone: list[str] = []

    async def note(session: str) -> None:
        gone.append(session)

    presence = Presence(claims, LoopClock(), TTL, note)
    await presence.poll()
    await asyncio.sleep(10 * TTL)
    await presence.poll()
    assert gone == []
    watching = asyncio.create_task(presence.run())
    elapsed = await world.until(lambda: gone == ["s"])
    watching.cancel()
    assert TTL - 0.1 <= elapsed <= TTL + 2.0
    assert record.session not in world.store.sessions


async def test_a_session_renewed_between_look_and_death_lives(world: World) -> None:
    """Dead is declared at the version that was seen: a newer one makes it do nothing."""
    claims = MemoryClaims("w", world.store)
    await claims.open_session("s", "somebody", TTL)
    sessions = claims.sessions
    gone: list[str] = []

    async def renewed_after() -> list[SessionRecord]:
        seen = list(await sessions())
        await claims.renew("s")
        return seen

    async def note(session: str) -> None:
        gone.append(session)

    claims.sessions = renewed_after  # type: ignore[method-assign] # every read is old as it arrives
    presence = Presence(claims, LoopClock(), TTL, note)
    watching = asyncio.create_task(presence.run())
    await asyncio.sleep(5 * TTL)
    watching.cancel()
    assert gone == []
    assert "s" in world.store.sessions


async def test_a_busy_thread_gives_its_slot_to_those_that_wait(world: World) -> None:
    """With one slot, a thread that is asked again and again does not keep it from another that has waited longer."""
    order: list[str] = []

    async def script(turn: Turn) -> None:
        await asyncio.sleep(1)
        order.append(turn.thread_id)

    process = await world.start(script, max_turns=1)
    await world.send(process, "greedy", 0, Mode.QUEUE)
    await world.send(process, "patient", 0)
    for number in range(3):
        await asyncio.sleep(0.01)
        await world.send(process, "greedy", number, Mode.QUEUE)
    await world.idle("greedy")
    await world.idle("patient")
    assert order == ["greedy", "patient", "greedy", "greedy", "greedy"]


async def test_a_claim_whose_answer_was_lost_is_settled_and_the_thread_is_taken(world: World) -> None:
    """No claim without a task: it is found out whether it was made, released, and the thread is taken after that."""
    process = await world.start(echo)
    claim, lost = process.claims.claim, 2

    async def unheard(thread_id: str, session: str, nonce: str, journal_token: int) -> object:
        nonlocal lost
        answer = await claim(thread_id, session, nonce, journal_token)
        lost -= 1
        if lost >= 0:
            raise UnknownOutcomeError("the answer was lost")
        return answer

    process.claims.claim = unheard  # type: ignore[assignment, method-assign] # made, but not heard of
    await world.send(process, "t", "hello")
    await world.until(lambda: world.answers("t") == [["hello"]])
    assert len(world.entries("t", Kind.RUN_STARTED)) == 1
    await world.until(lambda: world.store.claims == {})

"""Several runners on one store: whoever dies, stalls or is stopped, what was asked is taken."""

from __future__ import annotations

import asyncio

import pytest

from tests.runner.world import TTL, World, echo
from turnkeeper.core.claim import Claimed
from turnkeeper.core.words import Kind, Outcome
from turnkeeper.errors import UnavailableError
from turnkeeper.ports import Turn

pytestmark = pytest.mark.looptime


async def forever(turn: Turn) -> None:
    """Never end by itself."""
    del turn
    await asyncio.Event().wait()


async def test_a_dead_holders_turn_is_taken_by_another_after_its_ttl(world: World) -> None:
    """The session lapses, whoever saw it declares it dead, and the turn gets its second attempt at once."""
    holder = await world.start(forever)
    other = await world.start(echo)
    await world.send(holder, "t", "hello")
    await holder.kill()
    elapsed = await world.idle("t")
    assert elapsed <= TTL + 2.0
    assert world.outcomes("t") == ["abandoned", "completed"]
    assert [entry.body["attempt"] for entry in world.entries("t", Kind.RUN_STARTED)] == [1, 2]
    assert other.observer.acts["start", "TakenOver"] == 1


async def test_a_message_refused_busy_is_taken_by_the_look_alone(world: World) -> None:
    """Without any further sweep the claimant that was refused looks again when the holder's session is gone."""
    holder = await world.start(forever)
    other = await world.start(echo, sweep_interval_seconds=None)
    other.runner._presence._on_gone = lambda session: _only_looks(other.runner, session)
    await world.send(holder, "t", "first")
    await holder.kill()
    sent = await world.send(other, "t", "second")
    assert len(other.runner._looks) == 1
    await world.idle("t")
    assert sent.outcome == "steered"
    assert world.answers("t") == [["first"], ["second"]]
    assert other.observer.looks["taken"] == 1


async def _only_looks(runner: object, session: str) -> None:
    runner._looks.session_gone(session)  # type: ignore[attr-defined] # a part of the runner under test


async def test_a_process_that_dies_alone_is_swept_by_its_successor(world: World) -> None:
    """Nobody waits for the thread: the next life's sweep at its start finds it, arms a look, and takes it."""
    first = await world.start(forever)
    await world.send(first, "t", "hello")
    await first.kill()
    await world.start(echo, sweep_interval_seconds=None)
    elapsed = await world.idle("t")
    assert elapsed <= TTL + 2.0
    assert world.outcomes("t") == ["abandoned", "completed"]


async def test_a_holder_whose_session_was_deleted_stops_and_its_threads_go_on_elsewhere(world: World) -> None:
    """A session removed under a live holder: its writes count no more once another has the thread."""
    late: list[str] = []

    async def stubborn(turn: Turn) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            try:
                await turn.emit("after the loss")
            except Exception as error:  # noqa: BLE001 - whatever refuses it is the test's point
                late.append(type(error).__name__)
            raise
        return "never"

    holder = await world.start(stubborn)
    await world.start(echo)
    await world.send(holder, "t", "hello")
    world.store.sessions.pop(holder.runner._keeper.session)
    await world.until(lambda: bool(late))
    await world.idle("t")
    assert late == ["LostRunError"]
    assert world.outcomes("t")[-1] == "completed"
    assert len(world.answers("t")) == 1
    await world.until(lambda: bool(holder.runner._keeper.session))
    assert holder.runner.readiness().is_ready


async def test_a_claim_deleted_by_hand_leads_to_a_takeover_that_the_fence_keeps_right(world: World) -> None:
    """Two processes may believe to hold the thread; the journal takes the writes of the later one alone."""
    first, second = asyncio.Event(), asyncio.Event()

    async def from_first(turn: Turn) -> str:
        del turn
        await first.wait()
        return "from the first"

    async def from_second(turn: Turn) -> str:
        del turn
        await second.wait()
        return "from the second"

    holder = await world.start(from_first)
    other = await world.start(from_second)
    await world.send(holder, "t", "hello")
    del world.store.claims["t"]
    other.runner._taker.take("t")
    await world.until(lambda: len(world.entries("t", Kind.RUN_STARTED)) == 2)
    first.set()
    await world.until(lambda: not holder.runner._taker.drives)
    second.set()
    await world.idle("t")
    runs = list(world.store.threads["t"].runs.values())
    assert [(run.token, run.outcome) for run in runs] == [(1, Outcome.INTERRUPTED), (2, Outcome.COMPLETED)]
    assert world.answers("t") == ["from the second"]


async def test_a_claim_put_back_by_hand_lets_no_old_token_live_again(world: World) -> None:
    """A claim object restored from long ago is replaced above what the journal has seen."""
    process = await world.start(echo)
    for content in ("a", "b"):
        await world.send(process, "t", content)
        await world.idle("t")
    old = next(iter(world.store.threads["t"].runs.values()))
    await world.send(process, "t", "c")
    await world.idle("t")
    from turnkeeper.core.values import Claim  # noqa: PLC0415 - the one test that forges one

    world.store.claims["t"] = Claim(session=old.session + "-gone", token=old.token, nonce="x")
    await world.send(process, "t", "d")
    await world.idle("t")
    tokens = [run.token for run in world.store.threads["t"].runs.values()]
    assert tokens == sorted(set(tokens))
    assert world.answers("t")[-1] == ["d"]


async def test_a_drained_runner_lets_turns_end_and_hands_the_rest_over_at_once(world: World) -> None:
    """Short turns end, long ones are recorded as interrupted and go on elsewhere without any ttl, uncharged."""

    async def by_length(turn: Turn) -> str:
        await asyncio.sleep(float(str(turn.prompts[0].content)))
        return "done"

    leaving = await world.start(by_length)
    await world.start(by_length)
    await world.send(leaving, "short", 5)
    await world.send(leaving, "long", 1000)
    await leaving.runner.drain(20.0)
    assert world.outcomes("short") == ["completed"]
    assert world.outcomes("long") == ["interrupted"]
    elapsed = await world.until(lambda: len(world.entries("long", Kind.RUN_STARTED)) == 2)
    assert elapsed <= 1.5
    turn = world.store.threads["long"].thread.turn
    assert turn is not None
    assert (turn.charged, turn.crowd_deaths) == (0, 0)
    assert not leaving.runner.readiness().is_ready


async def test_a_draining_runner_takes_nothing_not_even_by_recover(world: World) -> None:
    """Neither what is owed, nor a dead holder's thread by a look or a sweep: it is left, and told as left."""

    async def slow(turn: Turn) -> str:
        await asyncio.sleep(TTL)
        return turn.thread_id

    leaving, dying = await world.start(slow), await world.start(forever)
    await world.send(leaving, "running", "x")
    await world.send(dying, "left", "x")
    await world.send(leaving, "left", "waits for a look")
    draining = asyncio.create_task(leaving.runner.drain(2 * TTL, leave_seconds=TTL))
    await asyncio.sleep(1.0)
    await world.send(leaving, "owed", "x")
    await dying.kill()
    del world.store.sessions[next(iter(world.store.sessions.keys() - {leaving.runner._keeper.session}))]
    await asyncio.sleep(TTL / 10)
    recovered = await leaving.runner.recover()
    assert (recovered.started, recovered.remaining, recovered.complete) == ((), 2, False)
    await draining
    assert [turn.thread_id for turn in leaving.handler.turns] == ["running"]
    assert world.store.claims.keys() == {"left"}
    await world.start(echo)
    await world.idle("left")
    await world.idle("owed")


async def test_a_full_runner_leaves_threads_owed_and_whoever_has_room_takes_the_oldest(world: World) -> None:
    """Capacity is a bound, not a queue in memory: the journal is the queue."""
    full = await world.start(forever, max_turns=1)
    await world.send(full, "busy", "x")
    for number in range(3):
        await world.send(full, f"waiting-{number}", number)
        await asyncio.sleep(1)
    assert [world.store.threads[f"waiting-{n}"].thread.state for n in range(3)] == ["owed"] * 3
    started: list[str] = []

    async def noting(turn: Turn) -> None:
        started.append(turn.thread_id)

    await world.start(noting, max_turns=1)
    await world.until(lambda: len(started) == 3)
    assert started == ["waiting-0", "waiting-1", "waiting-2"]


async def test_an_idle_runner_with_armed_looks_does_not_read_the_journal_for_them(world: World) -> None:
    """A look costs no claim attempt while its holder's session is seen to exist."""
    holder = await world.start(forever)
    other = await world.start(echo, sweep_interval_seconds=None)
    await world.send(holder, "t", "a")
    await world.send(other, "t", "b")
    await asyncio.sleep(10 * TTL)
    assert len(other.runner._looks) == 1
    assert other.observer.acts["start", "Started"] == 0
    assert holder.observer.acts["start", "Started"] == 1
    assert other.observer.looks["refused"] >= 8


async def test_a_process_frozen_past_its_ttl_wakes_to_a_new_session(world: World) -> None:
    """A runner that did not renew in time has lost everything, and never renews the old session."""
    frozen = await world.start(forever)
    await world.start(echo)
    await world.send(frozen, "t", "hello")
    old = frozen.runner._keeper.session
    renew = frozen.claims.renew

    async def hang(session: str) -> object:
        await asyncio.sleep(3 * TTL)
        return await renew(session)

    frozen.claims.renew = hang  # type: ignore[assignment, method-assign] # the call that never comes back in time
    await world.idle("t")
    frozen.claims.renew = renew  # type: ignore[method-assign] # put back as it was
    await world.until(lambda: frozen.runner._keeper.session not in ("", old))
    assert old not in world.store.sessions
    assert world.outcomes("t")[-1] == Outcome.COMPLETED


async def test_a_run_whose_end_cannot_be_recorded_is_tried_again_and_not_run_again(world: World) -> None:
    """Only the write is repeated: an outage of the journal shorter than the ttl costs no attempt."""
    from turnkeeper.errors import UnavailableError  # noqa: PLC0415 - the one test that raises it

    process = await world.start(echo)
    end, failures = process.taking.end, 3

    async def failing(*args: object, **options: object) -> object:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise UnavailableError("the journal is away")
        return await end(*args, **options)  # type: ignore[arg-type] # handed through

    process.taking.end = failing  # type: ignore[assignment, method-assign] # an outage of the journal
    await world.send(process, "t", "hello")
    await world.idle("t")
    assert world.outcomes("t") == ["completed"]
    assert len(process.handler.turns) == 1


async def test_a_claim_store_that_asks_to_wait_is_asked_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that it turned away is armed anew for then: of a thousand that come due at once, most would be."""
    process = await world.start()

    async def busy(*_: object) -> Claimed:
        msg = "too many requests"
        raise UnavailableError(msg, retry_after_seconds=1.0)

    monkeypatch.setattr(process.claims, "claim", busy)
    await world.send(process, "t", "x")
    await world.until(lambda: len(process.runner._looks) == 1, seconds=0.5)
    monkeypatch.undo()
    await world.idle("t")
    assert world.outcomes("t") == ["completed"]

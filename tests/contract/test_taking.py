"""The promises of `ports.Taking`, of both ways and on every store that each is for."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from tests.contract.conftest import MakeTaking
from tests.contract.play import asking, emit, expect, how, send, try_start
from tests.contract.stores import Store
from tests.invariants import breaches, dump_of
from turnkeeper.core.claim import Busy, SessionGone
from turnkeeper.core.cursor import Accepted, AcceptVerdict, Known, NewMessage, accept
from turnkeeper.core.draft import Act
from turnkeeper.core.ending import AlreadyEnded, Ended, Ending
from turnkeeper.core.stopping import stop
from turnkeeper.core.turn import NothingOwed, Started, Superseded
from turnkeeper.core.values import Claim, Fence
from turnkeeper.core.words import Mode, Outcome
from turnkeeper.ports import Claims, Journal, Taking

DONE = Ending(outcome=Outcome.COMPLETED, answer="done")


@dataclass
class Runner:
    """A process with a session of its own."""

    session: str
    journal: Journal
    claims: Claims
    taking: Taking

    async def take(self, run_id: str, thread_id: str = "t") -> object:
        """Take a thread."""
        return await self.taking.take(thread_id, self.session, how(run_id))


@dataclass
class Cluster:
    """Two runners of one workspace, and the hand that reaches past them."""

    store: Store
    make: MakeTaking
    runners: list[Runner] = field(default_factory=list)

    async def runner(self, session: str) -> Runner:
        """Begin a runner."""
        journal, claims = await self.store.journal(), await self.store.claims()
        await claims.open_session(session, f"runner-{session}", 30.0)
        self.runners.append(Runner(session, journal, claims, self.make(journal, claims)))
        return self.runners[-1]


@pytest.fixture
async def cluster(taken: tuple[Store, MakeTaking]) -> Cluster:
    """A store with one way of taking, and the runners one and two."""
    made = Cluster(*taken)
    await made.runner("one")
    await made.runner("two")
    await send(made.runners[0].journal)
    return made


async def test_a_turn_is_taken_and_ended_and_the_claim_given_back(cluster: Cluster) -> None:
    """A claim stands while its run does, with the token that the run carries; then the thread is free."""
    one, two = cluster.runners
    started = expect(await one.take("r1"), Started)
    standing = await cluster.store.claim_of("t")
    assert standing is not None
    assert (standing.session, standing.token) == (started.fence.session, started.fence.token) == ("one", 1)
    assert await two.take("r2") == Busy("one")
    ended = expect(await one.taking.end(started, DONE, 5, keep_claim=False), Ended)
    assert (ended.outcome, ended.released) == (Outcome.COMPLETED, True)
    assert await cluster.store.claim_of("t") is None
    assert await two.take("r2") == NothingOwed()
    assert breaches(await dump_of(two.journal), at_rest=True) == []


async def test_a_take_that_is_repeated_is_the_same_take(cluster: Cluster) -> None:
    """The answer was lost: under the same run id the run and its claim are adopted."""
    one, _ = cluster.runners
    first = expect(await one.take("r1"), Started)
    again = expect(await one.take("r1"), Started)
    assert (again.run, again.fence, again.prompts) == (first.run, first.fence, first.prompts)
    await one.taking.end(again, DONE, 5, keep_claim=False)
    assert await cluster.store.claim_of("t") is None


def accepting(message_id: str, thread_id: str = "t", mode: Mode = Mode.STEER) -> Act[AcceptVerdict]:
    """Return the act that records a message."""
    return accept(NewMessage(message_id=message_id, content="hello", mode=mode), thread_id, 1)


async def test_a_message_is_recorded_and_taken_at_once_or_left_to_take(cluster: Cluster) -> None:
    """Which of both depends on the stores; whether the message stands does not, and repeating it does nothing twice."""
    one, two = cluster.runners
    accepted, taken = await one.taking.accept(accepting("m1", "new"), "one", how("r1"))
    started = expect(taken if taken is not None else await one.take("r1", "new"), Started)
    assert [message.seq for message in started.prompts] == [expect(accepted, Accepted).message.seq]
    assert isinstance((await one.taking.accept(accepting("m1", "new"), "one", how("r9")))[0], Known)
    later, not_taken = await two.taking.accept(accepting("m2", "new"), "two", how("r2"))
    assert (expect(later, Accepted).message.seq, not_taken) == (accepted.message.seq + 2, None)
    ended = expect(await one.taking.end(started, DONE, 5, keep_claim=False), Ended)
    assert ended.thread.is_owed
    following = expect(await two.take("r2", "new"), Started)
    await two.taking.end(following, DONE, 5, keep_claim=False)
    dumps = [dump for dump in await dump_of(two.journal) if dump.row.thread_id == "new"]
    assert breaches(dumps, at_rest=True) == []


@pytest.mark.parametrize("thread_id", ["nowhere", "done", "paused", "noted"])
async def test_where_nothing_is_owed_no_claim_is_left(cluster: Cluster, thread_id: str) -> None:
    """A thread that is not there, at rest, waiting for a person or only told something is not taken."""
    one, two = cluster.runners
    for other in ("done", "paused"):
        await send(one.journal, other)
        started = expect(await one.take(f"r-{other}", other), Started)
        await one.taking.end(started, asking(started, "q") if other == "paused" else DONE, 5, keep_claim=True)
    await send(one.journal, "noted", mode=Mode.NOTE)
    assert await two.take("r2", thread_id) == NothingOwed()
    assert await cluster.store.claim_of(thread_id) is None


async def test_a_kept_claim_carries_the_next_turn(cluster: Cluster) -> None:
    """What waits behind a turn is started under the same claim, before anybody else can."""
    one, two = cluster.runners
    await send(one.journal, message_id="m2", mode=Mode.QUEUE)
    started = expect(await one.take("r1"), Started)
    ended = expect(await one.taking.end(started, DONE, 5, keep_claim=True), Ended)
    assert (ended.released, ended.thread.is_owed) == (False, True)
    assert await two.take("r9") == Busy("one")
    following = expect(await one.taking.take_again(started, how("r2")), Started)
    assert (following.fence, [m.message_id for m in following.prompts]) == (started.fence, ["m2"])
    last = expect(await one.taking.end(following, DONE, 5, keep_claim=True), Ended)
    assert last.released
    assert await cluster.store.claim_of("t") is None


async def test_a_kept_claim_is_given_back_when_the_next_turn_is_gone(cluster: Cluster) -> None:
    """Between two turns the waiting one was stopped: nothing is left to start, and no claim stands."""
    one, _ = cluster.runners
    started = expect(await one.take("r1"), Started)
    await one.taking.end(started, Ending(outcome=Outcome.INTERRUPTED), 5, keep_claim=True)
    await one.journal.transact(stop("t", "r1", 6))
    assert await one.taking.take_again(started, how("r2")) == NothingOwed()
    assert await cluster.store.claim_of("t") is None


async def test_an_end_that_is_repeated_gives_the_claim_back_too(cluster: Cluster) -> None:
    """The answer to an end was lost: asked again it is answered as the first time, and leaves no claim."""
    one, two = cluster.runners
    await send(one.journal, message_id="m2", mode=Mode.QUEUE)
    started = expect(await one.take("r1"), Started)
    await one.taking.end(started, DONE, 5, keep_claim=True)
    assert not expect(await one.taking.end(started, DONE, 5, keep_claim=True), Ended).released
    assert expect(await one.taking.end(started, DONE, 5, keep_claim=False), Ended).released
    assert await cluster.store.claim_of("t") is None
    assert isinstance(await two.take("r2"), Started)


async def test_whoever_has_no_session_takes_nothing(cluster: Cluster) -> None:
    """A runner that was declared dead learns so, and leaves nothing behind."""
    one, two = cluster.runners
    (record,) = [record for record in await two.claims.sessions() if record.session == "one"]
    assert await two.claims.declare_dead(record)
    assert await one.take("r1") == SessionGone()
    assert await cluster.store.claim_of("t") is None


async def test_a_dead_holders_run_is_abandoned_and_its_turn_runs_again(cluster: Cluster) -> None:
    """The successor's token is greater; what the dead one still writes is refused and harms nobody's claim."""
    one, two = cluster.runners
    stale = expect(await one.take("r1"), Started)
    await one.claims.close_session("one")
    started = expect(await two.take("r2"), Started)
    assert started.fence.token > stale.fence.token
    assert (started.turn.turn_id, started.run.attempt, started.turn.charged) == ("r1", 2, 1)
    assert isinstance(await emit(one.journal, stale, 0), Superseded)
    assert isinstance(await one.taking.end(stale, DONE, 5, keep_claim=True), AlreadyEnded | Superseded)
    await one.taking.let_go(stale)
    standing = await cluster.store.claim_of("t")
    assert standing is not None
    assert standing.session == "two"
    assert isinstance(await two.taking.end(started, DONE, 5, keep_claim=False), Ended)
    assert breaches(await dump_of(two.journal), at_rest=True) == []


async def test_a_run_whose_holder_let_go_is_interrupted_and_not_charged(cluster: Cluster) -> None:
    """A holder that lives and gave its claim back did not die of the turn."""
    one, two = cluster.runners
    held = expect(await one.take("r1"), Started)
    await one.taking.let_go(held)
    assert await cluster.store.claim_of("t") is None
    started = expect(await two.take("r2"), Started)
    assert (started.turn.charged, started.turn.crowd_deaths, started.run.attempt) == (0, 0, 2)
    _, run = expect(await two.journal.run("r1"), tuple)
    assert run.outcome is Outcome.INTERRUPTED


async def test_a_claim_that_a_hand_deleted_is_taken_over_cleanly(cluster: Cluster) -> None:
    """S11: the rival's token is above the journal's, and the holder in mid-turn is refused, not doubled."""
    one, two = cluster.runners
    stale = expect(await one.take("r1"), Started)
    await cluster.store.edit_claim("t", None)
    started = expect(await two.take("r2"), Started)
    assert started.fence.token > stale.fence.token
    assert isinstance(await one.taking.end(stale, DONE, 5, keep_claim=False), AlreadyEnded | Superseded)
    assert isinstance(await two.taking.end(started, DONE, 5, keep_claim=False), Ended)
    assert await cluster.store.claim_of("t") is None
    assert breaches(await dump_of(two.journal), at_rest=True) == []


@pytest.mark.parametrize("token", [0, 1, 5, 10**12])
async def test_a_claim_that_a_hand_put_back_lets_no_old_token_live(cluster: Cluster, token: int) -> None:
    """S11: a claim of a dead session with any token, far above the journal's or below, is replaced above both."""
    one, two = cluster.runners
    for number in range(3):
        await send(one.journal, message_id=f"again{number}")
        await one.taking.end(expect(await one.take(f"r{number}"), Started), DONE, 5, keep_claim=False)
    await send(one.journal, message_id="last")
    await cluster.store.edit_claim("t", Claim(session="dead", token=token, nonce="old"))
    started = expect(await two.take("r9"), Started)
    assert started.fence.token > max(token, 1)
    await two.taking.end(started, DONE, 5, keep_claim=False)
    assert breaches(await dump_of(two.journal), at_rest=True) == []


async def test_a_claim_of_a_live_session_without_a_run_is_replaced_by_itself(cluster: Cluster) -> None:
    """S11: a hand named the rival as the holder. The rival, asked to take the thread, does not wait for itself."""
    one, two = cluster.runners
    await cluster.store.edit_claim("t", Claim(session="two", token=3, nonce="by hand"))
    assert await one.take("r1") == Busy("two")
    started = expect(await two.take("r2"), Started)
    await two.taking.end(started, DONE, 5, keep_claim=False)
    assert await cluster.store.claim_of("t") is None


async def test_a_token_that_the_journal_has_seen_is_raised(cluster: Cluster) -> None:
    """The journal is ahead of every claim object: the claimant stands above it all the same."""
    one, _ = cluster.runners
    assert isinstance(await try_start(one.journal, "t", "r0", Fence(50, "gone")), Started)
    started = expect(await one.take("r1"), Started)
    assert started.fence.token > 50
    assert (await cluster.store.claim_of("t")) is not None


async def test_of_many_who_take_at_once_one_runs(cluster: Cluster) -> None:
    """In a crowd of runners each turn has one run at a time, and each message its one turn."""
    one, two = cluster.runners
    runners = [one, two, await cluster.runner("three")]
    for number in range(6):
        await send(one.journal, message_id=f"crowd{number}", mode=Mode.QUEUE)

    async def work(runner: Runner, number: int) -> None:
        for attempt in range(12):
            started = await runner.take(f"r{number}-{attempt}")
            if isinstance(started, Started):
                await emit(runner.journal, started, 0)
                await runner.taking.end(started, DONE, 5, keep_claim=False)

    await asyncio.gather(*(work(runner, number) for number, runner in enumerate(runners)))
    await work(one, 9)
    assert breaches(await dump_of(one.journal), at_rest=True) == []
    assert await cluster.store.claim_of("t") is None


@pytest.mark.parametrize("steps", range(6))
async def test_a_cancelled_take_leaves_nobody_stuck(cluster: Cluster, steps: int) -> None:
    """Cancelled at any moment and asked again under the same run id, the thread is taken, once."""
    one, two = cluster.runners
    attempt = asyncio.ensure_future(one.take("r1"))
    for _ in range(steps):
        await asyncio.sleep(0)
    attempt.cancel()
    await asyncio.gather(attempt, return_exceptions=True)
    started = expect(await one.take("r1"), Started)
    assert isinstance(await one.taking.end(started, DONE, 5, keep_claim=False), Ended)
    assert isinstance(await two.take("r2"), NothingOwed)
    assert breaches(await dump_of(two.journal), at_rest=True) == []

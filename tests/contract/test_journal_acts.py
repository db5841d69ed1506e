"""The promises of `ports.Journal` about acts: one transaction each, in order, once, and fenced. On every store."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.contract.play import asking, begin, emit, expect, finish, send, try_start
from tests.contract.stores import Store
from tests.invariants import breaches, dump_of
from turnkeeper.core.cursor import Accepted, Clash, Known
from turnkeeper.core.draft import Act, Change, Seen
from turnkeeper.core.ending import (
    AlreadyEnded,
    Ended,
    Ending,
    NotRecorded,
    Recorded,
    Written,
    append,
    find_step,
    record_step,
)
from turnkeeper.core.parking import AlreadyUnparked, NoSuchParked, ParkedAction, Unparked, resolve_parked
from turnkeeper.core.questions import AlreadyResolved, Answered, NoSuchQuestion, answer
from turnkeeper.core.stopping import NoSuchRun, StopRecorded, stop
from turnkeeper.core.turn import NothingOwed, Started, Superseded
from turnkeeper.core.values import Fence, Message
from turnkeeper.core.words import Fate, Kind, Mode, Outcome, Resolution
from turnkeeper.ports import Journal


async def checked(journal: Journal, *, at_rest: bool = False) -> None:
    """Check every invariant over all that the journal holds."""
    assert breaches(await dump_of(journal), at_rest=at_rest) == []


async def test_fifty_equal_messages_at_once_make_one(store: Store) -> None:
    """S14: whoever sends the same message again, through whatever process, gets the one receipt."""
    journals = [await store.journal() for _ in range(3)]
    verdicts = await asyncio.gather(*(send(journals[number % 3]) for number in range(50)))
    assert [type(verdict) for verdict in verdicts].count(Accepted) == 1
    assert [type(verdict) for verdict in verdicts].count(Known) == 49
    assert {verdict.message.seq for verdict in verdicts} == {1}
    assert len(await journals[0].log("t", 0, 100)) == 1


async def test_the_same_id_with_another_body_is_refused(journal: Journal) -> None:
    """Another content, sender or mode under a known id is another message, and nothing of it is kept."""
    await send(journal, content={"a": 1, "b": [1, 2]}, sender="x")
    assert isinstance(await send(journal, content={"b": [1, 2], "a": 1}, sender="x"), Known)
    assert isinstance(await send(journal, content={"a": 1, "b": [2, 1]}, sender="x"), Clash)
    assert isinstance(await send(journal, content={"a": 1, "b": [1, 2]}, sender="y"), Clash)
    assert isinstance(await send(journal, content={"a": 1, "b": [1, 2]}, sender="x", mode=Mode.QUEUE), Clash)
    assert isinstance(await send(journal, "other", content="other"), Accepted)
    assert len(await journal.log("t", 0, 100)) == 1


async def test_seqs_have_no_gaps_whoever_writes_at_once(store: Store) -> None:
    """Many senders through several processes, to a few threads that nobody made before: 1, 2, 3 …, each once."""
    journals = [await store.journal() for _ in range(3)]
    sends = [
        send(journals[number % 3], f"t{number % 4}", f"m{number}", number, sender=f"s{number % 5}")
        for number in range(120)
    ]
    Random(7).shuffle(sends)
    await asyncio.gather(*sends)
    for number in range(4):
        log = await journals[0].log(f"t{number}", 0, 1000)
        assert [entry.seq for entry in log] == list(range(1, 31))
    await checked(journals[1])


async def test_acts_on_one_thread_by_one_process_keep_their_order(journal: Journal) -> None:
    """What was sent first is first in the log, though nobody waited for it."""
    await asyncio.gather(*(send(journal, "t", f"m{number}", number) for number in range(40)))
    assert [entry.body["content"] for entry in await journal.log("t", 0, 100)] == list(range(40))


async def test_of_two_who_start_at_once_one_does(store: Store) -> None:
    """With one token from two sessions, in two processes, the journal lets one in."""
    first, second = await store.journal(), await store.journal()
    for number in range(10):
        await send(first, f"t{number}")
        verdicts = await asyncio.gather(
            try_start(first, f"t{number}", f"r{number}", Fence(1, "s1")),
            try_start(second, f"t{number}", f"q{number}", Fence(1, "s2")),
        )
        assert sorted(type(verdict).__name__ for verdict in verdicts) == ["Started", "Superseded"]
    await checked(first)


async def test_an_act_on_a_thread_that_is_not_there_makes_none(journal: Journal) -> None:
    """Only a message makes a thread."""
    assert await try_start(journal, "t", "r1", Fence(1, "s1")) == NothingOwed()
    assert await journal.transact(stop("t", "r1", 1)) == NoSuchRun()
    assert await journal.transact(answer("t", "q1", Resolution.APPROVED, None, 1)) == NoSuchQuestion()
    assert await journal.transact(resolve_parked("t", 1, ParkedAction.DROP, 1)) == NoSuchParked()
    assert await journal.transact(append("t", "r1", Fence(1, "s1"), 0, "x", 1)) == Superseded(0)
    assert await journal.thread("t") is None
    assert list(await journal.threads(None, "", 10)) == []


async def test_a_start_that_is_repeated_is_the_same_start(journal: Journal) -> None:
    """The answer was lost: asked again, the run is the one that was begun, with the same prompts."""
    await send(journal, content={"text": "hello"})
    first = await begin(journal)
    assert (await begin(journal)).run == first.run
    again = await begin(journal)
    assert (again.prompts, again.fence, again.turn, again.thread) == (
        first.prompts,
        first.fence,
        first.turn,
        first.thread,
    )
    assert [message.content for message in again.prompts] == [{"text": "hello"}]
    assert [entry.kind for entry in await journal.log("t", 0, 10)] == [Kind.MESSAGE, Kind.RUN_STARTED]


async def test_an_event_that_is_repeated_is_written_once(journal: Journal) -> None:
    """A run's events are numbered, so a repeated one is known."""
    await send(journal)
    started = await begin(journal)
    assert await emit(journal, started, 0) == Written(3)
    assert await emit(journal, started, 0) == Written(None)
    assert await emit(journal, started, 1) == Written(4)
    await checked(journal)


async def test_an_end_that_is_repeated_is_the_same_end(journal: Journal) -> None:
    """As long as nobody has opened the thread since, the answer is the one that was lost."""
    await send(journal)
    await send(journal, message_id="m2", mode=Mode.QUEUE)
    started = await begin(journal)
    first = expect(await finish(journal, started, keep_claim=True), Ended)
    again = expect(await finish(journal, started, keep_claim=True), Ended)
    assert (again.outcome, again.released, again.thread) == (Outcome.COMPLETED, False, first.thread)
    assert expect(await finish(journal, started), Ended).released
    successor = await begin(journal, run_id="r2", token=2, session="s2")
    assert isinstance(await finish(journal, started), AlreadyEnded)
    assert isinstance(await finish(journal, successor), Ended)
    await checked(journal, at_rest=True)


async def test_a_stop_an_answer_and_a_retry_are_recorded_once(journal: Journal) -> None:
    """Each of them, asked twice, is one entry, and the second is told what stands."""
    await send(journal)
    started = await begin(journal)
    assert expect(await journal.transact(stop("t", "r1", 1)), StopRecorded).is_running
    assert expect(await journal.transact(stop("t", "r1", 1)), StopRecorded).is_running
    assert expect(await finish(journal, started), Ended).outcome is Outcome.STOPPED
    over = expect(await journal.transact(stop("t", "r1", 1)), AlreadyEnded)
    assert over.run.outcome is Outcome.STOPPED
    await send(journal, message_id="m2")
    started = await begin(journal, run_id="r2", token=2)
    await finish(journal, started, asking(started, "q1"))
    assert isinstance(await journal.transact(answer("t", "q1", Resolution.ANSWERED, [1], 1)), Answered)
    stands = expect(await journal.transact(answer("t", "q1", Resolution.ANSWERED, [2], 1)), AlreadyResolved)
    assert stands.question.answer == [1]
    kinds = [entry.kind for entry in await journal.log("t", 0, 100)]
    assert (kinds.count(Kind.STOP_REQUESTED), kinds.count(Kind.ANSWER)) == (1, 1)


async def test_a_parked_turn_is_retried_or_dropped_once(journal: Journal) -> None:
    """Two who resolve a parked turn at once do it once; its messages go with it."""
    await send(journal)
    await begin(journal)
    parked = await try_start(journal, "t", "r2", Fence(2, "s2"), max_attempts=1)
    assert parked == NothingOwed(parked=1)
    (turn,) = await journal.parked("t")
    assert expect(await journal.message("t", "m1"), Message).fate is Fate.PARKED
    verdicts = await asyncio.gather(
        *(journal.transact(resolve_parked("t", turn.seq, ParkedAction.RETRY, 1)) for _ in range(3))
    )
    assert [type(verdict) for verdict in verdicts].count(Unparked) == 1
    assert [type(verdict) for verdict in verdicts].count(AlreadyUnparked) == 2
    started = await begin(journal, run_id="r3", token=3)
    assert (started.turn.turn_id, [m.message_id for m in started.prompts]) == ("r1", ["m1"])
    await finish(journal, started)
    await checked(journal, at_rest=True)


async def test_two_retries_are_both_taken(journal: Journal) -> None:
    """Whoever asks for two parked turns at once gets both, one after the other."""
    for number in (1, 2):
        await send(journal, message_id=f"m{number}")
        await begin(journal, run_id=f"r{number}", token=2 * number - 1, session=f"dies{number}")
        await try_start(journal, "t", f"p{number}", Fence(2 * number, "s2"), max_attempts=1)
    for parked in await journal.parked("t"):
        await journal.transact(resolve_parked("t", parked.seq, ParkedAction.RETRY, 1))
    turns = []
    for number in (1, 2):
        started = await begin(journal, run_id=f"again{number}", token=4 + number)
        turns.append(started.turn.turn_id)
        await finish(journal, started)
    assert turns == ["r1", "r2"]
    await checked(journal, at_rest=True)


async def test_a_turn_gets_its_own_questions_and_no_others(journal: Journal) -> None:
    """A turn that is retried has what was answered to it; the one behind it has nothing of that."""
    await send(journal)
    started = await begin(journal)
    await finish(journal, started, asking(started, "q1"))
    await journal.transact(answer("t", "q1", Resolution.ANSWERED, "yes", 1))
    await begin(journal, run_id="r2", token=2)
    await send(journal, message_id="m2", mode=Mode.QUEUE)
    after = expect(await try_start(journal, "t", "r3", Fence(3, "s3"), max_attempts=1), Started)
    assert (after.parked, after.questions, [m.message_id for m in after.prompts]) == (1, (), ["m2"])
    await finish(journal, after)
    (parked,) = await journal.parked("t")
    await journal.transact(resolve_parked("t", parked.seq, ParkedAction.RETRY, 1))
    again = await begin(journal, run_id="r4", token=4)
    assert [(q.question_id, q.answer) for q in again.questions] == [("q1", "yes")]


async def test_a_step_is_recorded_once_for_the_turn(journal: Journal) -> None:
    """The next attempt finds what the first has done, and whoever does it again is given the first result."""
    await send(journal)
    started = await begin(journal)
    of_first = ("t", "r1", started.fence, "charge")
    assert await journal.transact(find_step(*of_first)) == NotRecorded()
    assert await journal.transact(record_step(*of_first, {"id": 7}, 1)) == Recorded({"id": 7}, is_new=True)
    assert await journal.transact(record_step(*of_first, {"id": 8}, 1)) == Recorded({"id": 7}, is_new=False)
    successor = await begin(journal, run_id="r2", token=2, session="s2")
    of_second = ("t", "r2", successor.fence, "charge")
    assert await journal.transact(find_step(*of_second)) == Recorded({"id": 7}, is_new=False)
    assert await journal.transact(find_step("t", "r2", successor.fence, "other")) == NotRecorded()
    assert isinstance(await journal.transact(find_step(*of_first)), Superseded)
    await finish(journal, successor)
    await send(journal, message_id="m2")
    following = await begin(journal, run_id="r3", token=3)
    assert await journal.transact(find_step("t", "r3", following.fence, "charge")) == NotRecorded()


@pytest.mark.parametrize("seed", range(5))
async def test_a_cancelled_act_that_is_repeated_is_done_once(store: Store, seed: int) -> None:
    """A cancellation leaves the outcome unknown; asking again under the same ids is right."""
    rng = Random(seed)
    journal, other = await store.journal(), await store.journal()
    for number in range(8):
        attempt = asyncio.ensure_future(send(journal, "t", f"m{number}", number))
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)
        attempt.cancel()
        await asyncio.gather(attempt, return_exceptions=True)
        await send(rng.choice([journal, other]), "t", f"m{number}", number)
    assert sorted(int(str(entry.body["content"])) for entry in await other.log("t", 0, 100)) == list(range(8))
    started = await begin(other)
    await finish(other, started)
    await checked(other, at_rest=True)


async def test_an_act_whose_decision_fails_leaves_nothing_and_others_unharmed(journal: Journal) -> None:
    """A defect in one act costs that act alone: those that shared its transaction are done, its thread goes on."""
    await send(journal, "bad")

    def fail(_: Seen) -> tuple[object, Change | None]:
        raise ZeroDivisionError

    broken: Act[object] = Act("start", "bad", fail)
    acts = [journal.transact(broken), *(send(journal, f"t{number}") for number in range(5))]
    verdicts = await asyncio.gather(*acts, return_exceptions=True)
    assert isinstance(verdicts[0], ZeroDivisionError)
    assert [type(verdict) for verdict in verdicts[1:]] == [Accepted] * 5
    assert isinstance(await send(journal, "bad", "m2"), Accepted)


async def test_used_steering_is_consumed_and_the_rest_starts_the_next_turn(journal: Journal) -> None:
    """A message is steered into this run or begins the next: never both, never neither."""
    await send(journal)
    started = await begin(journal)
    for number in range(2, 6):
        await send(journal, message_id=f"m{number}", mode=Mode.QUEUE if number == 5 else Mode.STEER)
    used = (await journal.waiting("t", 0, 10))[1].seq
    ended = await finish(journal, started, Ending(outcome=Outcome.COMPLETED, used_seq=used), keep_claim=True)
    assert expect(ended, Ended).thread.is_owed
    following = expect(await try_start(journal, "t", "r2", started.fence), Started)
    assert [message.message_id for message in following.prompts] == ["m4"]
    receipts = [expect(await journal.message("t", f"m{number}"), Message) for number in range(1, 6)]
    fates = [(receipt.fate, receipt.run_id) for receipt in receipts]
    steered, taken = (Fate.STEERED, "r1"), (Fate.STARTED, "r2")
    assert fates == [(Fate.STARTED, "r1"), steered, steered, taken, (Fate.PENDING, "")]


async def test_a_dump_reads_all_that_a_journal_holds(journal: Journal) -> None:
    """Through the port alone; and what is left to do shows as soon as rest is claimed."""
    for number in range(3):
        await send(journal, f"t{number % 2}", f"m{number}")
    await begin(journal, "t0")
    first, second = await dump_of(journal)
    sizes = [(len(dump.entries), len(dump.messages), len(dump.runs)) for dump in (first, second)]
    assert sizes == [(3, 2, 1), (1, 1, 0)]
    assert breaches([first, second], at_rest=False) == []
    assert {breach.split(":")[0] for breach in breaches([first, second], at_rest=True)} == {"AskedIsTaken"}

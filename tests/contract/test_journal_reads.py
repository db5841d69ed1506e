"""The promises of `ports.Journal` about reads: what is where, in which order, in pages. On every store."""

from __future__ import annotations

import asyncio

from tests.contract.play import asking, begin, emit, expect, finish, send, try_start
from tests.contract.stores import Store
from turnkeeper.core.ending import Ending
from turnkeeper.core.parking import ParkedAction, resolve_parked
from turnkeeper.core.questions import answer
from turnkeeper.core.values import Entry, Fence, Json, Message, Stats, Thread
from turnkeeper.core.words import Ask, Fate, Kind, Mode, Outcome, Resolution, ThreadState
from turnkeeper.ports import Journal

BY_CODE_POINT = [
    " ",
    "%2F",
    "/",
    "A",
    "Z",
    "a",
    "aa",
    "e\u0301",  # é of two code points
    "z",
    "\u00a0",
    "é",
    "ß",
    "\u2028",
    "\ufb01",
    "\uffff",
    "😀",  # above the code points that UTF-16 sorts it below
    "\U0010ffff",
]
"""Thread ids in the order in which every store lists them: neither a locale's nor UTF-16's."""


async def pages(journal: Journal, state: ThreadState | None, limit: int) -> list[str]:
    """Read the list of threads to its end."""
    found: list[str] = []
    while page := await journal.threads(state, found[-1] if found else "", limit):
        assert len(page) <= limit
        found.extend(thread.thread_id for thread in page)
    return found


async def test_threads_are_listed_by_code_point_in_pages(journal: Journal) -> None:
    """Every id comes back byte for byte, each its own thread, in one order on every store."""
    await asyncio.gather(*(send(journal, thread_id) for thread_id in reversed(BY_CODE_POINT)))
    assert sorted(BY_CODE_POINT) == sorted(BY_CODE_POINT, key=lambda text: [ord(char) for char in text])
    for limit in (1, 3, 100):
        assert await pages(journal, None, limit) == sorted(BY_CODE_POINT)
        assert await pages(journal, ThreadState.OWED, limit) == sorted(BY_CODE_POINT)
    for thread_id in BY_CODE_POINT:
        assert expect(await journal.thread(thread_id), Thread).thread_id == thread_id


async def one_in_each_state(journal: Journal) -> None:
    """Make the threads idle, owed, running, paused and parked; the last is idle too."""
    for thread_id in ("idle", "owed", "running", "paused", "parked"):
        await send(journal, thread_id)
    await finish(journal, await begin(journal, "idle", "r1"))
    await begin(journal, "running", "r2")
    started = await begin(journal, "paused", "r3")
    await finish(journal, started, asking(started, "q1", "q2", expires_ms=1000))
    await begin(journal, "parked", "r4", session="dead")
    await try_start(journal, "parked", "r5", Fence(2, "s2"), max_attempts=1)


async def test_threads_are_listed_by_state(journal: Journal) -> None:
    """A thread is listed where it stands, and nowhere else."""
    await one_in_each_state(journal)
    listed = {state: await pages(journal, state, 10) for state in ThreadState}
    assert listed == {
        ThreadState.IDLE: ["idle", "parked"],
        ThreadState.OWED: ["owed"],
        ThreadState.RUNNING: ["running"],
        ThreadState.PAUSED: ["paused"],
    }


async def test_the_counts_are_those_of_the_threads(journal: Journal) -> None:
    """An empty workspace counts nothing; a full one each thread once."""
    assert await journal.stats() == Stats(owed=0, running=0, paused=0, parked=0, oldest_owed_ms=None)
    await one_in_each_state(journal)
    assert await journal.stats() == Stats(owed=1, running=1, paused=1, parked=1, oldest_owed_ms=1)


async def test_what_is_owed_comes_oldest_first_in_pages(journal: Journal) -> None:
    """By since when, then by id; each page begins behind the last one's end."""
    for number, since in enumerate([5, 3, 3, 9, 1, 3]):
        await send(journal, f"t{number}", now_ms=since)
    await begin(journal, "t3", "r1")
    found: list[tuple[int, str]] = []
    while page := await journal.owed(ThreadState.OWED, found[-1] if found else None, 2):
        found.extend((thread.owed_since_ms or 0, thread.thread_id) for thread in page)
    assert found == [(1, "t4"), (3, "t1"), (3, "t2"), (3, "t5"), (5, "t0")]
    assert [thread.thread_id for thread in await journal.owed(ThreadState.RUNNING, None, 10)] == ["t3"]


async def test_the_threads_that_a_session_runs_are_known(journal: Journal) -> None:
    """Only open runs count, and only by the session that the row names."""
    for number in range(4):
        await send(journal, f"t{number}")
        started = await begin(journal, f"t{number}", f"r{number}", session="s1")
        if number == 3:
            await finish(journal, started)
    await begin(journal, "t0", "r9", token=2, session="s2")
    assert sorted(await journal.ran_by("s1")) == ["t1", "t2"]
    assert list(await journal.ran_by("s2")) == ["t0"]
    assert list(await journal.ran_by("")) == []


async def test_a_log_is_read_in_pages_from_anywhere(journal: Journal) -> None:
    """From before the beginning to behind the end, no page repeats or skips an entry."""
    for number in range(7):
        await send(journal, message_id=f"m{number}")
    assert [entry.seq for entry in await journal.log("t", 0, 3)] == [1, 2, 3]
    assert [entry.seq for entry in await journal.log("t", 3, 100)] == [4, 5, 6, 7]
    assert [entry.seq for entry in await journal.log("t", -5, 2)] == [1, 2]
    assert list(await journal.log("t", 7, 100)) == []
    assert list(await journal.log("t", 10**15, 100)) == []
    assert list(await journal.log("nowhere", 0, 100)) == []


async def test_an_entry_is_read_as_it_was_written(journal: Journal) -> None:
    """Kind, time, run, token and body are the same for whoever reads them."""
    await send(journal, content={"a": [1, 2.5, None, True]}, sender="x", now_ms=77)
    started = await begin(journal, token=4)
    await emit(journal, started, 0, {"part": "one"})
    first, _, event = await journal.log("t", 0, 10)
    body: dict[str, Json] = {"message_id": "m1", "sender": "x", "mode": "steer", "content": {"a": [1, 2.5, None, True]}}
    assert first == Entry(seq=1, kind=Kind.MESSAGE, created_ms=77, body=body)
    assert event == Entry(seq=3, kind=Kind.EVENT, created_ms=3, run_id="r1", token=4, body={"event": {"part": "one"}})


async def test_a_history_is_the_last_messages_and_ends_before_a_seq(journal: Journal) -> None:
    """Events, starts and steps are no history; what is returned is in order, and ends just before."""
    for number in range(3):
        await send(journal, message_id=f"m{number}", mode=Mode.NOTE if number == 1 else Mode.STEER)
    started = await begin(journal)
    await emit(journal, started, 0)
    await finish(journal, started)
    found = [(entry.seq, entry.kind) for entry in await journal.history("t", 100, 100)]
    notes_and_ends = [(1, Kind.MESSAGE), (2, Kind.NOTE), (3, Kind.MESSAGE), (6, Kind.RUN_ENDED)]
    assert found == notes_and_ends
    assert [entry.seq for entry in await journal.history("t", 100, 2)] == [3, 6]
    assert [entry.seq for entry in await journal.history("t", 3, 100)] == [1, 2]
    assert list(await journal.history("t", 1, 100)) == []
    assert list(await journal.history("t", 0, 100)) == []
    assert list(await journal.history("nowhere", 100, 100)) == []


async def test_what_waits_is_what_no_run_has_consumed(journal: Journal) -> None:
    """Notes, prompts and messages of a turn that is to be retried don't wait; the rest does, oldest first."""
    await send(journal, message_id="parked")
    await begin(journal)
    await try_start(journal, "t", "r2", Fence(2, "s2"), max_attempts=1)
    (parked,) = await journal.parked("t")
    await send(journal, message_id="prompt")
    await begin(journal, run_id="r3", token=3)
    await journal.transact(resolve_parked("t", parked.seq, ParkedAction.RETRY, 1))
    for message_id, mode in [("s1", Mode.STEER), ("note", Mode.NOTE), ("q1", Mode.QUEUE), ("s2", Mode.STEER)]:
        await send(journal, message_id=message_id, content=[message_id], mode=mode)
    waiting = await journal.waiting("t", 0, 10)
    assert [(message.message_id, message.content) for message in waiting] == [
        ("s1", ["s1"]),
        ("q1", ["q1"]),
        ("s2", ["s2"]),
    ]
    assert [message.message_id for message in await journal.waiting("t", waiting[0].seq, 1)] == ["q1"]
    assert list(await journal.waiting("nowhere", 0, 10)) == []
    assert expect(await journal.message("t", "parked"), Message).fate is Fate.RETRYING


async def test_a_receipt_names_the_run_that_consumed_the_message(journal: Journal) -> None:
    """Pending, then started; a note is noted; an id that nobody sent is not there."""
    await send(journal)
    assert expect(await journal.message("t", "m1"), Message).fate is Fate.PENDING
    await begin(journal)
    receipt = expect(await journal.message("t", "m1"), Message)
    assert (receipt.fate, receipt.run_id, receipt.turn_id, receipt.seq) == (Fate.STARTED, "r1", "r1", 1)
    await send(journal, message_id="n", mode=Mode.NOTE)
    assert expect(await journal.message("t", "n"), Message).fate is Fate.NOTED
    assert await journal.message("t", "m2") is None
    assert await journal.message("u", "m1") is None


async def test_open_questions_are_listed_and_found_when_overdue(journal: Journal) -> None:
    """A question is listed while it is open, and overdue from its very millisecond on."""
    for thread_id, expires_ms in [("a", 100), ("b", 50), ("c", None)]:
        await send(journal, thread_id)
        started = await begin(journal, thread_id, f"r-{thread_id}")
        ending = asking(started, f"q-{thread_id}", ask=Ask.APPROVAL, detail={"do": [thread_id]}, expires_ms=expires_ms)
        await finish(journal, started, ending)
    (question,) = await journal.questions("a")
    assert (question.question_id, question.ask, question.detail) == ("q-a", Ask.APPROVAL, {"do": ["a"]})
    assert (question.expires_ms, question.resolution, question.text) == (100, Resolution.OPEN, "about q-a?")
    assert list(await journal.overdue(49, 10)) == []
    assert list(await journal.overdue(50, 10)) == [("b", "q-b")]
    assert sorted(await journal.overdue(10**12, 10)) == [("a", "q-a"), ("b", "q-b")]
    assert len(await journal.overdue(10**12, 1)) == 1
    await journal.transact(answer("a", "q-a", Resolution.APPROVED, None, 1))
    assert list(await journal.questions("a")) == []
    assert list(await journal.overdue(10**12, 10)) == [("b", "q-b")]


async def test_a_parked_turn_is_listed_until_a_person_resolves_it(journal: Journal) -> None:
    """With its reason, and where it was parked."""
    await one_in_each_state(journal)
    (parked,) = await journal.parked("parked")
    assert (parked.turn_id, parked.resolved, parked.ask_seq, parked.reason != "") == ("r4", "", 0, True)
    await journal.transact(resolve_parked("parked", parked.seq, ParkedAction.DROP, 1))
    assert list(await journal.parked("parked")) == []
    assert list(await journal.parked("nowhere")) == []
    assert expect(await journal.message("parked", "m1"), Message).fate is Fate.DROPPED


async def test_a_run_is_found_with_its_thread_and_its_end(journal: Journal) -> None:
    """Open it has no outcome; ended it says when, where and why."""
    await send(journal)
    started = await begin(journal, token=6)
    assert await journal.run("r1") == ("t", started.run)
    await finish(journal, started, Ending(outcome=Outcome.FAILED, reason="no luck"))
    _, run = expect(await journal.run("r1"), tuple)
    assert (run.outcome, run.reason, run.ended_seq, run.ended_ms) == (Outcome.FAILED, "no luck", 3, 4)
    assert (run.token, run.session, run.attempt, run.started_seq) == (6, "s1", 1, 2)
    assert await journal.run("nowhere") is None


async def test_heads_are_those_of_the_threads_that_exist(journal: Journal) -> None:
    """Many threads are asked about at once; what does not exist is left out."""
    for number in range(3):
        await send(journal, "a", f"m{number}")
    await send(journal, "😀")
    absent = [f"nowhere{number}" for number in range(1500)]
    assert await journal.heads(["a", *absent, "😀"]) == {"a": 3, "😀": 1}
    assert await journal.heads([]) == {}


async def test_a_read_sees_what_was_committed_before_it_began(store: Store) -> None:
    """Through any process: what was answered is read by whoever asks afterwards."""
    writer, reader = await store.journal(), await store.journal()
    for number in range(20):
        accepted = await send(writer, message_id=f"m{number}")
        assert await reader.heads(["t"]) == {"t": accepted.message.seq}

"""The journal's fence and its walls: who lost a thread writes nothing, and threads and workspaces stay apart."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.contract.play import asking, begin, emit, expect, finish, send, try_start
from tests.contract.stores import Store
from tests.invariants import breaches, dump_of
from turnkeeper.core.ending import (
    AlreadyEnded,
    Ended,
    append,
    record_step,
)
from turnkeeper.core.stopping import NoSuchRun, stop
from turnkeeper.core.turn import NothingOwed, Started, Superseded
from turnkeeper.core.values import Fence, Thread
from turnkeeper.core.words import Outcome
from turnkeeper.ports import Journal


async def checked(journal: Journal) -> None:
    """Check every invariant over all that the journal holds."""
    assert breaches(await dump_of(journal), at_rest=False) == []


StaleWrite = Callable[[Journal, Started], Awaitable[object]]

STALE_WRITES: dict[str, StaleWrite] = {
    "an event": lambda journal, started: emit(journal, started, 0),
    "a step": lambda journal, started: journal.transact(record_step("t", "r1", started.fence, "s", 1, 1)),
    "the start again": lambda journal, started: try_start(journal, "t", "r1", started.fence),
    "another start": lambda journal, started: try_start(journal, "t", "r9", started.fence),
    "the end": finish,
    "a pause": lambda journal, started: finish(journal, started, asking(started, "q")),
}


@pytest.mark.parametrize("what", STALE_WRITES)
async def test_nothing_is_written_by_who_lost_the_thread(journal: Journal, what: str) -> None:
    """After the first write with a greater token there is none with a smaller; not an event, not an end."""
    await send(journal)
    stale = await begin(journal)
    await begin(journal, run_id="r2", token=2, session="s2")
    before = await dump_of(journal)
    assert isinstance(await STALE_WRITES[what](journal, stale), Superseded | AlreadyEnded)
    assert await dump_of(journal) == before


async def test_the_same_token_from_another_session_is_refused(journal: Journal) -> None:
    """A claim object that was deleted by hand and made again may repeat a token; the session tells them apart."""
    await send(journal)
    await begin(journal, token=5)
    assert await try_start(journal, "t", "r2", Fence(5, "s2")) == Superseded(5)
    assert await journal.transact(append("t", "r1", Fence(5, "s2"), 0, "x", 1)) == Superseded(5)
    await checked(journal)


async def test_a_claim_on_an_older_view_does_not_start_a_paused_thread(store: Store) -> None:
    """Two steps: the thread was owed as the second process looked; it was paused when its claim was made."""
    first, second = await store.journal(), await store.journal()
    await send(first)
    assert expect(await second.thread("t"), Thread).is_owed
    started = await begin(first)
    await finish(first, started, asking(started, "q1"))
    assert await try_start(second, "t", "r2", Fence(2, "s2")) == NothingOwed()
    assert len(await second.questions("t")) == 1
    await checked(second)


async def test_a_stop_that_names_a_run_of_another_thread_is_refused(journal: Journal) -> None:
    """A run belongs to its thread; a stop that comes with its end at the same time does not disturb it."""
    for thread_id in ("a", "b"):
        await send(journal, thread_id)
    started = await begin(journal, "b", "r1")
    stopped, ended = await asyncio.gather(journal.transact(stop("a", "r1", 1)), finish(journal, started))
    assert stopped == NoSuchRun()
    assert expect(ended, Ended).outcome is Outcome.COMPLETED


async def test_workspaces_share_no_thread(store: Store) -> None:
    """The same thread id in two workspaces of one database is two threads."""
    mine, other = await store.journal("w"), await store.journal("other")
    await send(mine, "t", content="mine")
    assert await other.thread("t") is None
    await send(other, "t", content="other")
    assert [entry.body["content"] for entry in await mine.log("t", 0, 10)] == ["mine"]
    assert [entry.body["content"] for entry in await other.log("t", 0, 10)] == ["other"]
    assert expect(await finish(mine, await begin(mine)), Ended).outcome is Outcome.COMPLETED
    assert (await other.stats()).owed == 1
    assert await other.run("r1") is None

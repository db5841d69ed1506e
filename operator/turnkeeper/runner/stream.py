"""A thread's log as a stream: pages from the journal at the reader's pace, and hints to know when to read again."""

from __future__ import annotations

from collections.abc import AsyncIterator

from turnkeeper.core.values import Entry
from turnkeeper.core.words import ThreadState
from turnkeeper.ports import Hints, Journal

PAGE = 200
"""Entries read at once, and so the most that one stream holds in memory."""

HEARTBEAT_SECONDS = 10.0
"""Longest silence: below the 15 s that a client may expect, and what proxies cut idle connections at."""


async def follow_log(
    journal: Journal, hints: Hints, thread_id: str, after: int, *, follow: bool
) -> AsyncIterator[Entry | None]:
    """Yield entries with seq > after, in order and each once; None after each silence. See `Runner.watch`."""
    watch = hints.watch(thread_id)
    try:
        while True:
            page = await journal.log(thread_id, after, PAGE)
            for entry in page:
                yield entry
                after = entry.seq
            if page:
                continue
            if not follow and await _is_over(journal, thread_id, after):
                return
            if not await watch.news(HEARTBEAT_SECONDS):
                yield None
    finally:
        watch.close()


async def _is_over(journal: Journal, thread_id: str, after: int) -> bool:
    """Whether the thread is idle and the reader has all of it."""
    thread = await journal.thread(thread_id)
    return thread is None or (thread.state is ThreadState.IDLE and thread.last_seq <= after)

"""The soak in small, on both databases. `make soak` is the real one."""

import asyncio
import random
from pathlib import Path

import pytest

from tests.soak.conversations import conversations
from tests.soak.soak import Plan, database, soak


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_what_was_asked_is_taken_while_runners_are_killed_and_frozen(kind: str, tmp_path: Path) -> None:
    """Nothing is owed, and nothing breached, at the end of a small soak."""
    plan = Plan(messages=60, threads=10, seconds=15.0, seed=20, forks=True)
    with database(kind, tmp_path) as url:
        outcome = asyncio.run(soak(plan, url, tmp_path))
    assert outcome.breaches == []
    assert outcome.figures["kills"] != 0


def test_conversations_are_real_and_between_two() -> None:
    """A thousand messages on a hundred threads, the same for the same seed."""
    chosen = conversations(1000, 100, 60.0, random.Random(1))
    assert len({conversation.thread_id for conversation in chosen}) == 100
    assert sum(len(conversation.lines) for conversation in chosen) >= 1000
    assert all(len({line.sender for line in conversation.lines}) == 2 for conversation in chosen)
    assert chosen == conversations(1000, 100, 60.0, random.Random(1))

"""Real conversations between two people, from the `chitchat-dataset` package, as threads of messages."""

from __future__ import annotations

import importlib.resources
import json
import random
from dataclasses import dataclass

SPEAKERS = 2


@dataclass(frozen=True, slots=True)
class Line:
    """One message of a conversation: who, what, and how long after the one before it."""

    sender: str
    text: str
    gap_seconds: float


@dataclass(frozen=True, slots=True)
class Conversation:
    """A thread to be replayed."""

    thread_id: str
    begins_seconds: float
    lines: tuple[Line, ...]


GAPS_SECONDS = (0.0, 0.0, 0.02, 0.1, 0.3, 0.6, 1.2)
"""Between two messages: within a commit, within a turn, and past one. People's real gaps are minutes."""


def conversations(messages: int, threads: int, seconds: float, rng: random.Random) -> list[Conversation]:
    """Return as many conversations of two people, with at least so many messages, begun within the seconds."""
    raw = json.loads((importlib.resources.files("chitchat_dataset") / "dataset.json").read_text("utf-8"))
    least = -(-messages // threads)
    found = []
    for thread_id, conversation in raw.items():
        said = [(line["sender"], line["text"]) for group in conversation["messages"] for line in group][:least]
        if len(said) == least and len({sender for sender, _ in said}) == SPEAKERS:
            found.append((thread_id, said))
    chosen = rng.sample(found, threads)
    return [_paced(thread_id, said, seconds, rng) for thread_id, said in chosen]


def _paced(thread_id: str, said: list[tuple[str, str]], seconds: float, rng: random.Random) -> Conversation:
    lines = tuple(Line(sender, text, rng.choice(GAPS_SECONDS)) for sender, text in said)
    lasts = sum(line.gap_seconds for line in lines)
    return Conversation(thread_id, rng.uniform(0.0, max(seconds - lasts, 0.0)), lines)

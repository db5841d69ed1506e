"""Who watches whom: a death should be noticed at once, and not by everybody.

Up to a few dozen sessions each watches each: a closed connection costs nothing until it closes. Beyond that each is
watched by three, chosen alike by everybody from the ids alone (rendezvous hashing), so that nobody has to agree, and a
session that comes or goes moves few watches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

ALL_MAX = 24
"""Sessions up to which each watches each. Arbitrary: some hundred idle connections in all."""

WATCHERS = 3
"""How many watch one session beyond that: two may die with it."""


def watchers(session: str, sessions: Collection[str]) -> list[str]:
    """Return who watches a session, the one that acts first at its end in front."""
    others = sorted((other for other in sessions if other != session), key=lambda other: _weight(other, session))
    return others if len(sessions) <= ALL_MAX else others[:WATCHERS]


def _weight(watcher: str, watched: str) -> bytes:
    return hashlib.blake2b(f"{watcher} {watched}".encode(), digest_size=8).digest()

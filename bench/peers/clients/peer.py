"""What a peer's file offers to the program that runs it. Nothing but the standard library is imported here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from bench.peers.load import Send

Turn = Callable[[str, str], Awaitable[None]]
"""What a turn does with a message: key and text."""

HOLD = "hold"
"""A message whose first turn ends by the kill alone; whoever takes it over returns at once."""

READY = "ready"
"""What a program that goes on says once it works."""


@dataclass(frozen=True)
class Told:
    """What a program is told. `fast`: with the fastest settings that the peer's documentation allows."""

    url: str
    identity: str
    fast: bool


class Peer(Protocol):
    """One peer, set up as its documentation advises."""

    async def prepare(self) -> None:
        """Make what the database must hold; done once, before anything else."""

    def working(self, turn: Turn) -> AbstractAsyncContextManager[None]:
        """Work in this process while the context is open: one turn of a key at a time, in order."""

    def sending(self) -> AbstractAsyncContextManager[Send]:
        """Give a function that sends."""

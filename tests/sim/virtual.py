"""A loop whose time is virtual and whose order is its seed's: nothing in it waits, and nothing depends on addresses.

Time jumps to the next timer whenever nothing is ready. Tasks hash by number, since sets of tasks are walked in the code
under test.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
import selectors
import threading
import uuid
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeAlias

from turnkeeper.errors import TurnkeeperError

_Work: TypeAlias = Coroutine[Any, Any, Any] | Generator[Any, None, Any]

KEPT_MAX = 4_000
"""Tasks held before the finished ones are let go. Arbitrary: bounds memory, and a walk of them is rare."""


class StuckError(Exception):
    """Nothing is ready and no timer is set: the simulation itself is broken."""


class OrderedTask(asyncio.Task[Any]):
    """A task with a number for its hash."""

    def __init__(
        self, number: int, coro: _Work, loop: asyncio.AbstractEventLoop, context: contextvars.Context | None
    ) -> None:
        self.number = number  # before the loop's own sets hash it
        super().__init__(coro, loop=loop, context=context)

    def __hash__(self) -> int:
        return self.number


class _Jump(selectors.SelectSelector):
    """A selector that moves the loop's time instead of waiting."""

    def __init__(self, move: Callable[[float | None], None]) -> None:
        super().__init__()
        self._move = move

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._move(timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self._now = 0.0
        self._numbers = count(1)
        self._kept: list[asyncio.Task[Any]] = []
        self.errors: list[str] = []  # what ended a task and nobody foresaw
        super().__init__(_Jump(self._move))
        self.set_task_factory(self._make)

    def time(self) -> float:
        """Return the virtual seconds since the loop was made."""
        return self._now

    def _move(self, timeout: float | None) -> None:
        if timeout is None:
            msg = "nothing is ready and no timer is set"
            raise StuckError(msg)
        self._now += max(timeout, 0.0)

    def _write_to_self(self) -> None:
        """There is one thread, so nobody has to be woken."""

    def _make(
        self, loop: asyncio.AbstractEventLoop, coro: _Work, context: contextvars.Context | None = None
    ) -> asyncio.Future[Any]:
        task = OrderedTask(next(self._numbers), coro, loop, context)
        self._kept.append(task)  # a task that waits for ever is held by nobody else, and must not be collected
        if len(self._kept) > KEPT_MAX:
            self._let_go()
        return task

    def _let_go(self) -> None:
        for task in self._kept:
            error = task.exception() if task.done() and not task.cancelled() else None
            if error is not None and not isinstance(error, TurnkeeperError):
                self.errors.append(f"{type(error).__name__}: {error}")
        self._kept = [task for task in self._kept if not task.done()]

    def end(self) -> None:
        """Cancel what is left, and what that leaves, and close."""
        while left := [task for task in self._kept if not task.done()]:
            for task in left:
                task.cancel()
            self.run_until_complete(asyncio.wait(left))
        self._let_go()
        self.close()


def now() -> float:
    """Return the running loop's virtual time."""
    return asyncio.get_running_loop().time()


async def pause(seconds: float) -> None:
    """Let virtual time pass."""
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()
    timer = loop.call_later(seconds, _wake, waiter)
    try:
        await waiter
    finally:
        timer.cancel()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


@contextmanager
def seeded(seed: int) -> Generator[None]:
    """Let chance and ids of the code under test come from the seed, and put both back.

    Only this thread's: another one, which some earlier test left to end by itself, must not draw from the seed.
    """
    simulation, jitter, ids = threading.get_ident(), random.Random(f"jitter {seed}"), random.Random(f"ids {seed}")
    before = random.random, random.uniform, uuid.uuid4

    def is_simulation() -> bool:
        return threading.get_ident() == simulation

    def draw() -> float:
        return jitter.random() if is_simulation() else before[0]()

    def uniform(a: float, b: float) -> float:
        return jitter.uniform(a, b) if is_simulation() else before[1](a, b)

    def uuid4() -> uuid.UUID:
        return uuid.UUID(int=ids.getrandbits(128), version=4) if is_simulation() else before[2]()

    random.random, random.uniform, uuid.uuid4 = draw, uniform, uuid4
    try:
        yield
    finally:
        random.random, random.uniform, uuid.uuid4 = before

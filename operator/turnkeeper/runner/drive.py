"""One thread being driven in this process: take it, run its turns one after the other, release it.

A drive exists exactly as long as this process holds or is trying for the thread's claim: a claim without a task behind
it must not exist. Whatever way it ends, its owner is told with the last verdict, and sees to what follows.
"""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from turnkeeper.core.claim import SessionGone
from turnkeeper.core.cursor import AcceptVerdict
from turnkeeper.core.draft import Act
from turnkeeper.core.ending import AlreadyEnded, Ended, Ending, EndVerdict
from turnkeeper.core.taking import TakeVerdict, sets_off
from turnkeeper.core.turn import NothingOwed, Start, Started, StartVerdict
from turnkeeper.errors import TurnkeeperError, UnavailableError, UnknownOutcomeError
from turnkeeper.ports import Clock, Handler, Hints, Journal, Observer, Peers, Taking
from turnkeeper.runner.execution import Cause, Execution
from turnkeeper.runner.options import RunnerOptions
from turnkeeper.runner.turns import LiveTurn

SETTLE_SECONDS = (0.1, 2.0)
"""First and longest pause between tries to record a run's end. Arbitrary: a commit's time, and a person's patience."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What all drives of a runner share."""

    workspace: str
    journal: Journal
    taking: Taking
    hints: Hints
    clock: Clock
    handler: Handler
    observer: Observer
    options: RunnerOptions
    peers: Peers | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The thread could not be taken, or its run's end not recorded (`was_running`): a part can't be reached.

    retry_after_seconds: when that part asked to be called again, if it did.
    """

    reason: str
    was_running: bool = False
    retry_after_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """Under what conditions a thread is taken: see `Start`."""

    ripe: bool = False
    apart: bool = False
    beside: bool = False


class Opening:
    """A message that is recorded as its thread is taken. `accepted` resolves with its verdict, for the sender.

    Where the message is not what a turn begins with, it resolves only once the drive is over, and `sets_off` is False:
    what follows the message is then for the sender to see to.
    """

    def __init__(self, accepting: Act[AcceptVerdict]) -> None:
        self.accepting = accepting
        self.accepted: asyncio.Future[AcceptVerdict] = asyncio.get_running_loop().create_future()
        self.sets_off = False
        self._outcome: AcceptVerdict | Exception = UnknownOutcomeError(f"thread {accepting.thread_id!a}: stopping")

    async def record(self, taking: Taking, session: str, how: Start) -> TakeVerdict:
        """Record the message, and take the thread if it sets off a turn."""
        try:
            verdict, taken = await taking.accept(self.accepting, session, how)
        except Exception as error:
            self._outcome = error
            raise
        self._outcome = verdict
        if not sets_off(verdict, how.run_id):
            return NothingOwed()
        self.sets_off = True
        self.close()
        return taken if taken is not None else await taking.take(self.accepting.thread_id, session, how)

    def close(self) -> None:
        """Tell the sender, if that was not done yet."""
        if self.accepted.done():
            return
        if isinstance(self._outcome, Exception):
            self.accepted.set_exception(self._outcome)
            self.accepted.exception()  # a sender that went away does not ask for it
        else:
            self.accepted.set_result(self._outcome)


DriveVerdict = TakeVerdict | Ended | AlreadyEnded | Failed


class Drive:
    """See the module. `first` resolves with the first verdict, for whoever waits to hear whether a run started.

    keeps_claim: asked after each run whether the next turn may follow under the same claim. opening: the message that
    it begins with, not yet recorded.
    """

    def __init__(
        self,
        thread_id: str,
        session: str,
        tools: Tools,
        how: How,
        keeps_claim: Callable[[], bool],
        opening: Opening | None = None,
    ) -> None:
        self.thread_id = thread_id
        self.session = session
        self.how = how
        self.opening = opening
        self.nudged = False
        self.execution: Execution | None = None
        self.first: asyncio.Future[DriveVerdict] = asyncio.get_running_loop().create_future()
        self._tools = tools
        self._keeps_claim = keeps_claim
        self._is_lost = False

    def cut(self, cause: Cause) -> None:
        """Cut short what runs, and begin no further turn."""
        if cause is Cause.LOST:
            self._is_lost = True
        if self.execution is not None:
            self.execution.cut(cause)

    async def run(self) -> DriveVerdict:
        """Drive the thread until it is released, and return the last verdict. Raises nothing but a cancellation."""
        try:
            verdict: DriveVerdict = await self._drive()
        except UnavailableError as error:
            verdict = Failed(str(error), retry_after_seconds=error.retry_after_seconds)
        except TurnkeeperError as error:
            verdict = Failed(f"{type(error).__name__}: {error}")
        if not self.first.done():
            self.first.set_result(verdict)
        return verdict

    async def _drive(self) -> DriveVerdict:
        started: StartVerdict | SessionGone | DriveVerdict = await self._begin()
        while True:
            if not self.first.done():
                self.first.set_result(started)
            if not isinstance(started, Started):
                return started
            ended = await self._run_turn(started)
            if not isinstance(ended, Ended) or ended.released:
                return ended
            started = await self._tools.taking.take_again(started, self._start())

    async def _begin(self) -> TakeVerdict:
        taking = self._tools.taking
        if self.opening is not None:
            return await self.opening.record(taking, self.session, self._start())
        return await taking.take(self.thread_id, self.session, self._start())

    def _start(self) -> Start:
        options = self._tools.options
        return Start(
            run_id=uuid.uuid4().hex,
            runner=options.runner,
            now_ms=self._tools.clock.wall_ms(),
            max_attempts=options.max_attempts,
            ripe=self.how.ripe,
            apart=self.how.apart,
            beside=self.how.beside,
        )

    async def _run_turn(self, started: Started) -> EndVerdict | Failed:
        tools = self._tools
        tools.hints.tell(self.thread_id)
        live = LiveTurn(tools.workspace, started, tools.journal, tools.hints, tools.clock, tools.observer)
        self.execution = Execution(started, live, tools.handler, tools.journal, tools.hints, tools.clock, tools.options)
        if self._is_lost:
            self.execution.cut(Cause.LOST)
        began = tools.clock.monotonic()
        try:
            ending = await self.execution.run()
            ended = await self._settle(started, ending)
        finally:
            self.execution = None
        if isinstance(ended, Ended):
            tools.observer.turn_ended(ended.outcome, tools.clock.monotonic() - began)
        tools.hints.tell(self.thread_id)
        return ended

    async def _settle(self, started: Started, ending: Ending) -> EndVerdict | Failed:
        """Record the run's end: only the write is tried again, never the turn, and no longer than a claim lasts."""
        tools = self._tools
        give_up = tools.clock.monotonic() + tools.options.claim_ttl_seconds
        pause, longest = SETTLE_SECONDS
        while True:
            keep_claim = not self._is_lost and self._keeps_claim()
            self.nudged = False  # what was accepted before the end's transaction is seen by it
            try:
                return await tools.taking.end(started, ending, tools.clock.wall_ms(), keep_claim=keep_claim)
            except UnavailableError as error:
                _log.warning(
                    "thread %a: the end of run %s is not recorded yet: %s", self.thread_id, started.run.run_id, error
                )
                if self._is_lost or tools.clock.monotonic() + pause > give_up:
                    return await self._let_go(started, str(error))
            await tools.clock.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
            pause = min(2 * pause, longest)

    async def _let_go(self, started: Started, reason: str) -> Failed:
        """Give the claim back without an end; whoever takes the thread next ends the run as interrupted."""
        try:
            await self._tools.taking.let_go(started)
        except UnavailableError as error:
            _log.warning("thread %a: its claim ends with this session: %s", self.thread_id, error)
        return Failed(f"the end of run {started.run.run_id} could not be recorded: {reason}", was_running=True)

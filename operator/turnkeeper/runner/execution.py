"""Running a handler for one run: its deadlines, its steering, what cuts it short, and how it would end.

The handler runs in a task of its own. What cuts it short is decided here, once, and the first cause stands: somebody
stopped the turn, its time is over, the runner drains, or the run is not this runner's any more.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from enum import StrEnum

from turnkeeper.core.cursor import steerable_among
from turnkeeper.core.ending import Ending
from turnkeeper.core.names import check_id, check_json
from turnkeeper.core.turn import Started
from turnkeeper.core.values import Json, Question, Thread
from turnkeeper.core.words import Outcome
from turnkeeper.errors import HandlerError, InvalidInputError, LostRunError, TurnkeeperError, UnavailableError
from turnkeeper.ports import Asking, Clock, Handler, Hints, Journal, Pause
from turnkeeper.runner.options import RunnerOptions
from turnkeeper.runner.turns import LiveTurn
from turnkeeper.runner.waiting import first_of

NEWS_SECONDS = 5.0
"""How often a run looks at its row without any hint. Arbitrary: what a lost hint may cost."""

STEERING_PAGE = 100
"""Waiting messages read at once. Arbitrary: bounds what one read brings into memory."""

_log = logging.getLogger(__name__)


class Cause(StrEnum):
    """What cut a run short."""

    STOPPED = "stopped"
    TIMED_OUT = "timed_out"
    NO_PROGRESS = "no_progress"
    DRAINING = "draining"
    LOST = "lost"


_CUT_ENDINGS = {
    Cause.STOPPED: (Outcome.STOPPED, "stopped"),
    Cause.TIMED_OUT: (Outcome.TIMED_OUT, "it ran longer than its deadline"),
    Cause.NO_PROGRESS: (Outcome.TIMED_OUT, "it showed no progress for longer than its progress deadline"),
    Cause.DRAINING: (Outcome.INTERRUPTED, "its runner is stopping"),
    Cause.LOST: (Outcome.INTERRUPTED, "its runner lost the claim"),
}


class Execution:
    """One run in this process. `cut` may be called from anywhere on the loop, at any time, any number of times."""

    def __init__(
        self,
        started: Started,
        live: LiveTurn,
        handler: Handler,
        journal: Journal,
        hints: Hints,
        clock: Clock,
        options: RunnerOptions,
    ) -> None:
        self.started = started
        self.cause: Cause | None = None
        self._live = live
        self._handler = handler
        self._journal = journal
        self._hints = hints
        self._clock = clock
        self._options = options
        self._is_cut = asyncio.Event()

    def cut(self, cause: Cause) -> None:
        """Cut the run short, unless it was already."""
        if self.cause is None:
            self.cause = cause
            if cause is Cause.LOST:
                self._live.lose()
            self._is_cut.set()

    async def run(self) -> Ending:
        """Run the handler to its end and return how the run would end; the journal decides."""
        work = asyncio.ensure_future(self._handler.turn(self._live))
        beside = [asyncio.ensure_future(wait) for wait in (self._follow(), self._watch_time(), self._is_cut.wait())]
        try:
            await asyncio.wait((work, beside[-1]), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return await self._ending(work)
            await self._cancel(work)
            return self._cut_ending(work)
        finally:
            work.cancel()
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def _cancel(self, work: asyncio.Future[Json | Pause]) -> None:
        """Cancel the handler and wait for it within the grace; one that ignores it is left behind, cut off the log."""
        work.cancel()
        await first_of((work,), self._clock, self._options.cancel_grace_seconds)
        if not work.done():
            self._live.lose()
            work.add_done_callback(_consume)
            _log.error("run %s: its handler did not end when it was cancelled; it is left behind", self._live.run_id)

    async def _ending(self, work: asyncio.Future[Json | Pause]) -> Ending:
        """Return the ending of a handler that came to its own end, whatever was on its way to cut it short."""
        if work.cancelled():
            return self._failed("its handler cancelled itself")
        error = work.exception()
        if isinstance(error, LostRunError):
            self.cut(Cause.LOST)
            return self._cut_ending(work)
        if isinstance(error, HandlerError | InvalidInputError):
            return self._failed(str(error))
        if isinstance(error, TurnkeeperError):
            return Ending(outcome=Outcome.INTERRUPTED, reason=f"the journal refused its writes: {error}")
        if error is not None:
            return self._failed(f"{type(error).__name__}: {error}")
        return await self._returned(work.result())

    def _cut_ending(self, work: asyncio.Future[Json | Pause]) -> Ending:
        _consume(work)
        outcome, reason = _CUT_ENDINGS[self.cause or Cause.LOST]
        return Ending(outcome=outcome, reason=reason, used_seq=self._live.used_seq(completed=False))

    async def _returned(self, value: Json | Pause) -> Ending:
        used_seq = self._live.used_seq(completed=True)
        try:
            if isinstance(value, Pause):
                questions = await self._questions(value)
                return Ending(outcome=Outcome.PAUSED, questions=questions, used_seq=used_seq)
            check_json(value, "the answer")
        except InvalidInputError as error:
            return self._failed(str(error))
        except UnavailableError as error:
            return Ending(outcome=Outcome.INTERRUPTED, reason=f"its questions could not be checked: {error}")
        return Ending(outcome=Outcome.COMPLETED, answer=value, used_seq=used_seq)

    async def _questions(self, pause: Pause) -> tuple[Question, ...]:
        if not pause.questions:
            raise InvalidInputError("a pause without questions would wait for ever: ask at least one")
        questions = tuple(self._question(asking) for asking in pause.questions)
        if len({question.question_id for question in questions}) != len(questions):
            raise InvalidInputError("two questions of one pause have the same id")
        # Only the holder of a thread adds questions to it, so what is read now is still true at the run's end.
        for asking in pause.questions:
            if asking.question_id and await self._journal.question(self._live.thread_id, asking.question_id):
                raise InvalidInputError(f"the question id {asking.question_id!a} was asked before in this thread")
        return questions

    def _question(self, asking: Asking) -> Question:
        timeout = asking.timeout_seconds
        expires_ms = None if timeout is None else self._clock.wall_ms() + int(timeout * 1000)
        check_json([asking.text, asking.detail], "a question")
        return Question(
            question_id=check_id(asking.question_id or f"q-{uuid.uuid4().hex[:12]}", "question id"),
            turn_id=self.started.turn.turn_id,
            ask=asking.ask,
            text=asking.text,
            detail=asking.detail,
            expires_ms=expires_ms,
        )

    def _failed(self, reason: str) -> Ending:
        used_seq = self._live.used_seq(completed=False)
        return Ending(outcome=Outcome.FAILED, reason=reason, used_seq=used_seq)

    async def _follow(self) -> None:
        """Carry to the run what others wrote to its thread: steering, a stop, a successor."""
        watch = self._hints.watch(self._live.thread_id)
        try:
            while True:
                await watch.news(NEWS_SECONDS)
                try:
                    await self._read_news()
                except TurnkeeperError as error:
                    _log.warning("thread %a: its news can't be read: %s", self._live.thread_id, error)
        finally:
            watch.close()

    async def _read_news(self) -> None:
        thread = await self._journal.thread(self._live.thread_id)
        if thread is None or not self._is_ours(thread):
            self.cut(Cause.LOST)
        elif thread.run is not None and thread.run.stop_asked:
            self.cut(Cause.STOPPED)
        elif thread.asked > max(thread.taken, self._live.offered_seq):
            # All that waits was accepted after what was offered, and the first that wants a turn of its own ends it.
            waiting = await self._journal.waiting(self._live.thread_id, self._live.offered_seq, STEERING_PAGE)
            self._live.offer(steerable_among(waiting))

    def _is_ours(self, thread: Thread) -> bool:
        return thread.run is not None and thread.run.run_id == self._live.run_id and thread.fence == self.started.fence

    async def _watch_time(self) -> None:
        deadline = self._clock.monotonic() + self._options.turn_timeout_seconds
        progress = self._options.turn_progress_seconds
        while True:
            now = self._clock.monotonic()
            due = deadline if progress is None else min(deadline, self._live.moved_seconds + progress)
            if now >= due:
                self.cut(Cause.TIMED_OUT if now >= deadline else Cause.NO_PROGRESS)
                return
            await self._clock.sleep(due - now)


def _consume(work: asyncio.Future[Json | Pause]) -> None:
    """Look at a cut handler's own error, so that it is not reported as never seen."""
    if work.done() and not work.cancelled():
        work.exception()

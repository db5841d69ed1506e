"""What people ask of a runner: send, answer, stop, retry or drop.

Every call records first and acts after: what is answered with success is in the journal, and everything that this
process then does about it (steer, take, look) could be lost with the process and would be found again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from turnkeeper.core import cursor, parking, questions, stopping
from turnkeeper.core.cursor import Accepted, AcceptVerdict, Clash, Known, NewMessage
from turnkeeper.core.draft import Act
from turnkeeper.core.ending import AlreadyEnded
from turnkeeper.core.parking import AlreadyUnparked, NoSuchParked, ParkedAction
from turnkeeper.core.questions import AlreadyResolved, NoSuchQuestion, WrongAnswer
from turnkeeper.core.stopping import NoSuchRun
from turnkeeper.core.turn import Started
from turnkeeper.core.values import Json, Message, Question, Thread
from turnkeeper.core.words import Ask, Mode, Resolution
from turnkeeper.errors import ClosedError, InvalidInputError, NotFoundError, StandsOtherwiseError
from turnkeeper.ports import Journal
from turnkeeper.runner.drive import Drive, Tools
from turnkeeper.runner.looks import Looks
from turnkeeper.runner.presence import Presence
from turnkeeper.runner.session import SessionKeeper
from turnkeeper.runner.taker import Taker

START_SECONDS = 0.25
"""How long `send` waits to hear whether a run started. Arbitrary: some commits; the message is safe without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What became of a message at once. outcome: started, steered, queued, reply, noted; for a repeat, its fate."""

    message: Message
    thread: Thread
    outcome: str
    run_id: str
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The stop is recorded. is_running: a runner has still to end the run."""

    thread_id: str
    run_id: str
    is_running: bool


class Requests:
    """The asking half of `Runner`."""

    def __init__(self, tools: Tools, keeper: SessionKeeper, presence: Presence, looks: Looks, taker: Taker) -> None:
        self.workspace = tools.workspace
        self.journal: Journal = tools.journal
        self._tools = tools
        self._keeper = keeper
        self._presence = presence
        self._looks = looks
        self._taker = taker
        self._accepts_until = 0.0  # on the monotonic clock, once this runner takes nothing more

    async def send(self, thread_id: str, new: NewMessage) -> Sent:
        """Record a message and set off what it asks for.

        Raises StandsOtherwiseError where another message has the id, ClosedError while stopping, UnavailableError or
        UnknownOutcomeError where the journal can't be reached: then send it again under the same id.
        """
        self._check_open()
        verdict, drive = await self._accept(cursor.accept(new, thread_id, self._tools.clock.wall_ms()), new.mode)
        if isinstance(verdict, Clash):
            raise StandsOtherwiseError(
                f"thread {thread_id!a}: another message has the id {new.message_id!a}; send this one under its own",
                stands=verdict.message.fate,
            )
        if isinstance(verdict, Known):
            message = verdict.message
            return Sent(
                message=message, thread=verdict.thread, outcome=message.fate, run_id=message.run_id, is_new=False
            )
        self._tools.hints.tell(thread_id)
        outcome, run_id = await self._set_off(verdict, drive)
        return Sent(message=verdict.message, thread=verdict.thread, outcome=outcome, run_id=run_id, is_new=True)

    async def _accept(self, accepting: Act[AcceptVerdict], mode: Mode) -> tuple[AcceptVerdict, Drive | None]:
        """Record a message, and where nobody drives its thread here, with the take that it sets off: then its drive."""
        opening = self._taker.open(accepting) if mode is not Mode.NOTE else None
        if opening is None:
            return await self.journal.transact(accepting), None
        drive = self._taker.drives[accepting.thread_id]
        verdict = await asyncio.shield(opening.accepted)
        return verdict, drive if opening.sets_off else None

    async def _set_off(self, accepted: Accepted, taken: Drive | None) -> tuple[str, str]:
        """Steer, take or look, in the order of their cost, and say which it was."""
        message, thread = accepted.message, accepted.thread
        if message.mode is Mode.NOTE:
            return "noted", ""
        drive = taken or self._take_unless_held(thread)
        if accepted.answered:
            return "reply", await self._run_started(drive, message)
        if thread.run is not None:
            return ("steered" if message.mode is Mode.STEER else "queued"), thread.run.run_id
        run_id = await self._run_started(drive, message)
        return ("started" if run_id else "queued"), run_id

    def _take_unless_held(self, thread: Thread) -> Drive | None:
        """Take a thread, unless its row names a holder whose session exists: then arm a look on that one."""
        is_elsewhere = thread.thread_id not in self._taker.drives and thread.session != self._keeper.session
        if thread.run is not None and is_elsewhere and self._presence.exists(thread.session):
            self._looks.arm(thread.thread_id, thread.session, self._tools.options.claim_ttl_seconds)
            self._tools.observer.acted("refused", thread.thread_id, "Busy", 0.0)
            return None
        return self._taker.take(thread.thread_id)

    async def _run_started(self, drive: Drive | None, message: Message) -> str:
        """Return the id of the run that the drive started with this message, if it did within a moment."""
        if drive is None:
            return ""
        await asyncio.wait((drive.first,), timeout=START_SECONDS)
        verdict = drive.first.result() if drive.first.done() else None
        if isinstance(verdict, Started) and any(prompt.seq == message.seq for prompt in verdict.prompts):
            return verdict.run.run_id
        return ""

    async def answer(self, thread_id: str, question_id: str, verdict: Resolution, value: Json = None) -> Question:
        """Resolve a question: ANSWERED with a value, APPROVED or DENIED.

        Raises NotFoundError, InvalidInputError for the wrong form, StandsOtherwiseError if it was resolved before.
        """
        self._check_open()
        act = questions.answer(thread_id, question_id, verdict, value, self._tools.clock.wall_ms())
        result = await self.journal.transact(act)
        if isinstance(result, NoSuchQuestion):
            raise NotFoundError(f"thread {thread_id!a} has no question {question_id!a}")
        if isinstance(result, AlreadyResolved):
            stands = result.question.resolution
            raise StandsOtherwiseError(f"question {question_id!a} is resolved already: {stands}", stands=stands)
        if isinstance(result, WrongAnswer):
            form = "`answer`" if result.question.ask is Ask.FREE else "`approved`, true or false"
            raise InvalidInputError(f"question {question_id!a} wants {form}")
        self._tools.hints.tell(thread_id)
        if result.thread.is_owed:
            self._taker.take(thread_id)
        return result.question

    async def stop(self, run_id: str) -> Stopped:
        """Stop the turn of a run, wherever it runs.

        Raises NotFoundError, or StandsOtherwiseError with the outcome that stands if the turn is over.
        """
        found = await self.journal.run(run_id)
        if found is None:
            raise NotFoundError(f"there is no run {run_id!a} in this workspace")
        thread_id, _ = found
        verdict = await self.journal.transact(stopping.stop(thread_id, run_id, self._tools.clock.wall_ms()))
        if isinstance(verdict, NoSuchRun):
            raise NotFoundError(f"thread {thread_id!a} has no run {run_id!a}")
        if isinstance(verdict, AlreadyEnded):
            stands = verdict.run.outcome or "superseded"
            raise StandsOtherwiseError(f"run {run_id} of thread {thread_id!a} is over: {stands}", stands=stands)
        self._tools.hints.tell(thread_id)
        if verdict.is_running or verdict.thread.is_owed:
            self._take_unless_held(verdict.thread)
        return Stopped(thread_id=thread_id, run_id=run_id, is_running=verdict.is_running)

    async def resolve_parked(self, thread_id: str, seq: int, action: ParkedAction) -> Thread:
        """Retry or drop a parked turn. Raises NotFoundError, or StandsOtherwiseError if that was decided before."""
        self._check_open()
        act = parking.resolve_parked(thread_id, seq, action, self._tools.clock.wall_ms())
        verdict = await self.journal.transact(act)
        if isinstance(verdict, NoSuchParked):
            raise NotFoundError(f"thread {thread_id!a} has no turn parked at {seq}")
        if isinstance(verdict, AlreadyUnparked):
            stands = verdict.parked.resolved
            raise StandsOtherwiseError(f"the turn parked at {seq} was resolved before: {stands}", stands=stands)
        self._tools.hints.tell(thread_id)
        if verdict.thread.is_owed:
            self._taker.take(thread_id)
        return verdict.thread

    def _check_open(self) -> None:
        if not self._taker.is_taking and self._tools.clock.monotonic() >= self._accepts_until:
            raise ClosedError(
                "this runner is stopping and accepts nothing more: send it to another, or again in a moment"
            )

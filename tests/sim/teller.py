"""Who tells a trace what took effect: the journal and claims of one life as they are at the store, and its runner."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from tests.sim.trace import At, Event, Trace
from tests.sim.wires import Line
from turnkeeper.adapters.memory import MemoryClaims, MemoryJournal, ThreadStore
from turnkeeper.core.claim import Busy, Claimed, SessionGone, SessionRecord
from turnkeeper.core.cursor import Accepted
from turnkeeper.core.draft import Act
from turnkeeper.core.ending import AlreadyEnded, Ended
from turnkeeper.core.pairing import Pair
from turnkeeper.core.trace import Decision
from turnkeeper.core.turn import NothingOwed, Started, Superseded
from turnkeeper.core.values import Claim, Entry, Thread
from turnkeeper.core.words import Kind, Outcome

T = TypeVar("T")


class Told:
    """Tells of one life of a process."""

    def __init__(self, trace: Trace, process: str, line: Line) -> None:
        self.process = process
        self.is_started = False
        self.is_stopping = False
        self.is_over = False  # another life has begun
        self.noticed: set[str] = set()  # sessions that its peers said to be gone
        self._trace = trace
        self._line = line
        self._lost_nonces: set[str] = set()

    def _tell(self, thread_id: str, action: str, **fields: str | int | bool) -> None:
        if self.is_over:
            self._trace.parts[thread_id].untold = "a write of a life arrived after the next had begun"
        if self._line.is_losing and action == "Adopt":
            return  # it knows no more than before
        event: Event = {"action": action, "process": self.process, **fields}
        if self._line.is_losing and action in {"Claim", "Start", "End"}:
            event["answer"] = "lost"
        self._trace.tell(thread_id, event)

    def _at(self, thread_id: str) -> At:
        return self._trace.at(thread_id, self.process)

    def decided(self, decision: Decision, thread_id: str, seq: int) -> None:
        """The runner decided something by itself."""
        if self._line.is_dead or self.is_stopping:
            return
        fields = {"seq": seq} if decision is Decision.STEER else {}
        at = self._at(thread_id)
        if decision is Decision.REST and at.has_released and at.has_failed:
            self._tell(thread_id, "TakeFails")
        self._tell(thread_id, decision, **fields)
        if decision is Decision.TAKE:
            self._at(thread_id).is_driving = True
        elif decision is Decision.REST:
            self._trace.rested(thread_id, self.process)

    def opened(self, session: str) -> None:
        """A session was made at the store."""
        if self.is_started:
            self._trace.session_lost(self.process, session)
        else:
            self._trace.began(self, session)

    def declares(self, session: str) -> None:
        """A session is about to be declared dead: because of a notice, if there was one."""
        self._trace.noticed_by = self.process if session in self.noticed and not self.is_over else ""

    def declared(self) -> None:
        """It was, or had been renewed."""
        self._trace.noticed_by = ""

    def claimed(self, thread_id: str, session: str, nonce: str, verdict: Claimed | Busy | SessionGone) -> None:
        """A claim was tried at the store."""
        at = self._at(thread_id)
        is_late = nonce in self._lost_nonces or not at.is_driving
        if self._line.is_losing:
            self._lost_nonces.add(nonce)
        if isinstance(verdict, Busy) and not is_late:
            self._tell(thread_id, "Refused")
        elif isinstance(verdict, Claimed):
            late = {"late": True} if is_late else {}
            token = verdict.claim.token
            self._tell(thread_id, "Claim", session=self._trace.name(session), token=token, **late)
            if not is_late and not self._line.is_losing:
                at.token = token

    def released(self, thread_id: str, claim: Claim) -> None:
        """A claim was given back at the store."""
        at = self._at(thread_id)
        self._tell(thread_id, "Release", session=self._trace.name(claim.session), token=claim.token)
        if at.is_driving and at.token == claim.token:
            at.token, at.has_released, at.has_failed = 0, True, False

    def read(self, thread_id: str) -> None:
        """The row was read at the store: the read after a release is the hand-over."""
        at = self._at(thread_id)
        if at.has_released and not self._line.is_dead:
            at.has_failed = self._line.is_losing
            if not at.has_failed:
                at.has_released = False
                self._tell(thread_id, "HandOver")

    def acted(self, act: Act[T], verdict: T, before: Thread, kept: ThreadStore | None, *, fused: bool) -> None:
        """An act was run by the journal."""
        if kept is None:
            return
        written = kept.entries[before.last_seq :]
        if act.name == "accept":
            self._written(act.thread_id, "Accept", written)
        elif act.name in {"take", "start", "take_again"}:
            self._began(act, verdict, before, kept, fused=fused)
        elif isinstance(verdict, Superseded | AlreadyEnded):
            self._tell(act.thread_id, "Fenced")
        elif act.name in {"append", "record_step"}:
            self._written(act.thread_id, "Append", written, token=before.token)
        elif act.name == "end" and isinstance(verdict, Ended):
            self._ended(act.thread_id, verdict, before, kept, fused=fused)
        elif written:
            self._trace.parts[act.thread_id].untold = f"{act.name} is not in the specification"

    def _written(self, thread_id: str, action: str, written: list[Entry], **fields: int) -> None:
        for entry in written:
            self._tell(thread_id, action, seq=entry.seq, **fields)

    def _began(self, act: Act[T], verdict: T, before: Thread, kept: ThreadStore, *, fused: bool) -> None:
        thread_id, after = act.thread_id, kept.thread
        written = kept.entries[before.last_seq :]
        if isinstance(verdict, Started) and not written:
            self._tell(thread_id, "Adopt")
        elif isinstance(verdict, Started):
            if act.name == "take":
                self._tell_claim(thread_id, after)
            parked = self._tell_park(thread_id, after, written)
            opened = kept.runs[before.run.run_id].started_seq if before.run is not None and not parked else 0
            uncharged = self._trace.parts[thread_id].interrupted.get(verdict.turn.turn_id, 0)
            self._tell(
                thread_id,
                "Start",
                token=after.token,
                seq=verdict.run.started_seq,
                attempt=verdict.run.attempt - uncharged,
                taken=after.taken,
                abandoned=opened,
            )
        elif isinstance(verdict, NothingOwed) and written:
            if act.name == "take":
                self._tell_claim(thread_id, after)
            self._tell_park(thread_id, after, written)
            if fused:
                self._give_back(thread_id, after)
        elif written:
            self._trace.parts[thread_id].untold = f"{type(verdict).__name__}: time between attempts is left out"
        elif isinstance(verdict, Busy):
            self._tell(thread_id, "Refused")
        elif isinstance(verdict, Superseded):
            self._tell(thread_id, "Fenced")
        elif isinstance(verdict, NothingOwed) and act.name == "start":
            self._tell(thread_id, "NothingOwed")
        elif isinstance(verdict, NothingOwed) and act.name == "take_again" and fused:
            self._give_back(thread_id, after)

    def _tell_park(self, thread_id: str, row: Thread, written: list[Entry]) -> bool:
        """Tell of a turn that was set aside in the same transaction, if one was."""
        parked = [entry.seq for entry in written if entry.kind is Kind.TURN_PARKED]
        for seq in parked:
            self._tell(thread_id, "Park", token=row.token, seq=seq)
        return bool(parked)

    def _tell_claim(self, thread_id: str, row: Thread) -> None:
        """Tell of a claim that was made in one transaction with a start: if the answer is lost, it is the start's."""
        event: Event = {"action": "Claim", "process": self.process, "token": row.token}
        self._trace.tell(thread_id, {**event, "session": self._trace.name(row.session)})

    def _ended(self, thread_id: str, verdict: Ended, before: Thread, kept: ThreadStore, *, fused: bool) -> None:
        written, after = kept.entries[before.last_seq :], kept.thread
        if [entry.kind for entry in written] == [Kind.RUN_ENDED]:
            if verdict.outcome is Outcome.INTERRUPTED:
                interrupted = self._trace.parts[thread_id].interrupted
                turn_id = before.turn.turn_id if before.turn is not None else ""
                interrupted[turn_id] = interrupted.get(turn_id, 0) + 1
                self._tell(thread_id, "Interrupt", token=before.token, seq=written[0].seq, taken=after.taken)
            else:
                self._tell(thread_id, "End", token=before.token, seq=written[0].seq, taken=after.taken)
        elif not written:
            self._tell(thread_id, "Adopt")
        else:
            self._trace.parts[thread_id].untold = "a run ended with more than its end"
        if fused and verdict.released:
            self._give_back(thread_id, after)

    def _give_back(self, thread_id: str, row: Thread) -> None:
        """Tell of a claim that was given back, and the cursors read, in one transaction with the act."""
        self._tell(thread_id, "Release", session=self._trace.name(row.session), token=row.token)
        if not self._line.is_losing:  # else the process knows of neither
            self._tell(thread_id, "HandOver")


class TracedJournal(MemoryJournal):
    """A journal that tells what it did."""

    told: Told

    async def transact(self, act: Act[T]) -> T:
        """See `ports.Journal`."""
        kept = self.store.threads.get(act.thread_id)
        before = kept.thread if kept is not None else Thread(thread_id=act.thread_id)
        verdict = await super().transact(act)
        kept = self.store.threads.get(act.thread_id)
        if isinstance(act, Pair):
            self._tell_pair(act, verdict, before, kept)
        else:
            self.told.acted(act, verdict, before, kept, fused=self._fused)
        return verdict

    def _tell_pair(self, act: Pair[Any, Any], verdict: Any, before: Thread, kept: ThreadStore | None) -> None:  # noqa: ANN401 - the pair of both acts' verdicts
        """Tell of both acts, one after the other."""
        accepted, taken = verdict
        between = accepted.thread if isinstance(accepted, Accepted) else before
        if kept is not None:
            first = replace(kept, thread=between, entries=kept.entries[: between.last_seq])
            self.told.acted(act.first, accepted, before, first, fused=self._fused)
        if taken is not None:
            self.told.acted(act.second, taken, between, kept, fused=self._fused)

    async def thread(self, thread_id: str) -> Thread | None:
        """See `ports.Journal`."""
        self.told.read(thread_id)
        return await super().thread(thread_id)


class TracedClaims(MemoryClaims):
    """Claims that tell what they did."""

    told: Told

    async def open_session(
        self, session: str, runner: str, duration_seconds: float, address: str = ""
    ) -> SessionRecord:
        """See `ports.Claims`."""
        self.told.opened(session)
        return await super().open_session(session, runner, duration_seconds, address)

    async def declare_dead(self, record: SessionRecord) -> bool:
        """See `ports.Claims`."""
        self.told.declares(record.session)
        try:
            return await super().declare_dead(record)
        finally:
            self.told.declared()

    async def claim(self, thread_id: str, session: str, nonce: str, journal_token: int) -> Claimed | Busy | SessionGone:
        """See `ports.Claims`."""
        verdict = await super().claim(thread_id, session, nonce, journal_token)
        self.told.claimed(thread_id, session, nonce, verdict)
        return verdict

    async def release(self, thread_id: str, claim: Claim) -> None:
        """See `ports.Claims`."""
        await super().release(thread_id, claim)
        self.told.released(thread_id, claim)

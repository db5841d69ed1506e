"""From the ledger to a trace of the specification's actions, one for each thread.

The database sees what is written and not what a process thinks. So of the events that a process has by itself three are
put where they must have been: who claims had begun to take the thread (Take), who took steering at its end had been
offered it (Steer), and who opened another session had lost the one before (SessionLost, told where the new one first
matters to the thread: until then what the old one had on its way may arrive). They let a process do what the store
shows that it did, and change nothing that another could see. Who accepted a message is not known: a process that never
takes is made up for it. Refusals, looks and fenced writes leave no mark, and are not told.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.sim.trace import Event
from tests.traces.ledger import Line

DOOR = "p0"
"""The process that accepts every message."""

ATTEMPTS_MAX = 3
"""What TraceThreadClaim.cfg says of attempts."""


@dataclass
class Part:
    """One thread's trace. untold: why it can't be told, where that is so: something that the model leaves out."""

    events: list[Event] = field(default_factory=list)
    untold: str = ""


def tell(lines: Sequence[Line]) -> dict[str, Part]:
    """Return each thread's trace, under a short name."""
    runners = {line.body["session"]: line.body["runner"] for line in lines if line.what == "opened"}
    return {
        f"t{number}": _Teller(lines, each, runners, f"t{number}").part for number, each in enumerate(_threads(lines))
    }


def _threads(lines: Sequence[Line]) -> list[str]:
    return list(dict.fromkeys(line.thread_id for line in lines if line.thread_id))


class _Teller:
    """Tells of one thread. Processes and sessions are known by numbers, in the order in which they come to matter."""

    def __init__(self, lines: Sequence[Line], thread_id: str, runners: dict[str, str], name: str) -> None:
        self.part = Part()
        self._thread = name
        self._runners = runners
        self._matters = {
            line.body["session"] for line in lines if line.what == "claimed" and line.thread_id == thread_id
        }
        self._processes: dict[str, str] = {}  # by runner
        self._present: dict[str, str] = {DOOR: "s0"}  # each process's session, as told
        self._names: dict[str, str] = {}  # sessions that were told of
        self._gone: set[str] = set()
        self._started: dict[str, int] = {}  # runs by their first entry
        self._ran: dict[str, str] = {}  # runs by the session that started them: whoever writes of a run is that one
        self._turns: dict[str, str] = {}
        self._uncharged: dict[str, int] = {}  # of each turn
        self._entries: list[dict[str, Any]] = []
        self._claim: dict[str, Any] | None = None
        self._has_released = False
        self._row: dict[str, Any] = {}
        self._tell("Restart", DOOR, session="s0")
        for line in lines:
            if line.thread_id in {"", thread_id}:
                self._read(line)
        self._come_to_rest()

    def _tell(self, action: str, process: str = "", **fields: str | int | bool) -> None:
        who = {"process": process} if process else {}
        self.part.events.append({"action": action, **who, "thread": self._thread, **fields})

    def _read(self, line: Line) -> None:
        body = line.body
        match line.what:
            case "opened" if body["session"] in self._matters:
                self._open(body["session"])
            case "gone" if body["session"] in self._matters:
                self._appear(body["session"])
                self._gone.add(body["session"])
                self._tell("DeclareDead", session=self._names[body["session"]])
            case "entry":
                self._has_released = False
                self._entries.append({**body, **json.loads(body["body"])})
            case "claimed":
                self._claim = body
            case "released" if self._entries or self._claim:
                self._entries.append({"kind": "released", **body})
            case "released":
                self._release(body)
            case "act":
                self._row = body
                self._act()

    def _open(self, session: str) -> None:
        """A process's first session is told at once, each later one where it first matters."""
        if self._runners[session] not in self._processes:
            process = self._processes[self._runners[session]] = f"p{len(self._processes) + 1}"
            self._name(session, process)
            self._tell("Restart", process, session=self._names[session])

    def _appear(self, session: str) -> str:
        """Return the process of a session that matters now."""
        process = self._processes[self._runners[session]]
        if session not in self._names:
            self._name(session, process)
            self._tell("SessionLost", process, session=self._names[session])
        return process

    def _name(self, session: str, process: str) -> None:
        self._names[session] = f"s{len(self._names) + 1}"
        self._present[process] = session

    def _act(self) -> None:
        """Tell of what one act wrote to the thread."""
        entries, self._entries = self._entries, []
        messages = [entry for entry in entries if entry["kind"] == "message"]
        for entry in messages:
            self._tell("Accept", DOOR, seq=entry["seq"])
        if self._claim is not None:
            process = self._appear(self._claim["session"])
            name = self._names[self._claim["session"]]
            self._tell("Take", process)
            self._tell("Claim", process, session=name, token=self._claim["token"])
        kinds = [entry["kind"] for entry in entries if entry not in messages]
        is_opening = "run_started" in kinds or "turn_parked" in kinds
        if (self._claim is not None or "turn_parked" in kinds) and not is_opening:
            self.part.untold = "a claim without a start: time between attempts is left out"
        self._claim = None
        abandoned = 0
        for entry in entries:
            abandoned = self._entry(entry, abandoned, is_opening=is_opening) or abandoned
        if self._has_released:
            self._tell("HandOver", self._appear(self._row["session_before"]))
        self._has_released = False

    def _entry(self, entry: dict[str, Any], abandoned: int, *, is_opening: bool) -> int:
        """Tell of an entry; return the first entry of the run that it abandons, if it does."""
        row = self._row
        match entry["kind"]:
            case "message":
                pass
            case "run_ended" if is_opening:
                if entry["outcome"] != "abandoned":
                    self.part.untold = "a run was ended by its successor, and not as abandoned"
                return self._started[entry["run"]]
            case "run_ended" if entry["outcome"] == "abandoned":
                self.part.untold = "a run was abandoned and no other started: time between attempts is left out"
            case "run_ended":
                self._end(entry)
            case "run_started":
                self._start(entry, abandoned)
            case "turn_parked":
                self._tell("Park", self._appear(row["session"]), token=row["token"], seq=entry["seq"])
            case "event" | "step":
                self._tell("Append", self._appear(self._ran[entry["run"]]), token=entry["token"], seq=entry["seq"])
            case "released":
                self._release(entry)
            case other:
                self.part.untold = f"{other} is not in the specification"
        return 0

    def _start(self, entry: dict[str, Any], abandoned: int) -> None:
        row, turn_id = self._row, entry["turn_id"]
        self._started[entry["run"]], self._turns[entry["run"]] = entry["seq"], turn_id
        self._ran[entry["run"]] = row["session"]
        attempt = entry["attempt"] - self._uncharged.get(turn_id, 0)
        if attempt > ATTEMPTS_MAX:
            self.part.untold = "a turn was given further attempts, since others died with it"
        told = {"token": row["token"], "seq": entry["seq"], "attempt": attempt, "taken": row["taken"]}
        self._tell("Start", self._appear(row["session"]), **told, abandoned=abandoned)

    def _end(self, entry: dict[str, Any]) -> None:
        row = self._row
        process, turn_id = self._appear(self._ran[entry["run"]]), self._turns[entry["run"]]
        is_interrupted = entry["outcome"] == "interrupted"
        self._uncharged[turn_id] = self._uncharged.get(turn_id, 0) + is_interrupted
        if row["taken"] > row["taken_before"]:
            self._tell("Steer", process, seq=row["taken"])
        action = "Interrupt" if is_interrupted else "End"
        self._tell(action, process, token=entry["token"], seq=entry["seq"], taken=row["taken"])

    def _release(self, claim: dict[str, Any]) -> None:
        """Tell of a release; where it is in one transaction with an act, that read the cursors too."""
        process = self._appear(claim["session"])
        self._tell("Release", process, session=self._names[claim["session"]], token=claim["token"])
        self._has_released = True

    def _come_to_rest(self) -> None:
        """Who has no session any more is dead, or has forgotten the thread with it."""
        for process, session in self._present.items():
            if session in self._gone:
                self._tell("Crash", process)
        stands = {name: self._row[name] for name in ("asked", "taken", "token", "seq")}
        self._tell("AtRest", **stands, claimed=False)

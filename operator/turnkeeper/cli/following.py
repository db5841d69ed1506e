"""Follows a thread through cuts, and finds in it the end of the turn that took a message."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from turnkeeper.cli.client import CutError, RunnerClient
from turnkeeper.cli.exits import CommandError, ExitCode
from turnkeeper.cli.output import tell

FIRST_GAP_SECONDS = 0.2
LAST_GAP_SECONDS = 10.0
"""Gaps between tries to resume: they double, and each is drawn at random up to its size, so that the clients of a
runner that went away do not come back in step."""

GIVE_UP_SECONDS = 300.0
"""How long nothing but failures is borne. Arbitrary: a machine's restart, and not a night."""


@dataclass
class Follower:
    """Yields a thread's entries, each once and in order, however often the stream is cut."""

    client: RunnerClient
    thread: str
    after: int = 0
    follow: bool = True
    is_quiet: bool = False
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic

    def entries(self) -> Iterator[dict[str, Any]]:
        """Yield entries until the thread is idle (or for ever, with `follow`). Raises CommandError."""
        gap, failing_since, has_connected = FIRST_GAP_SECONDS, self.monotonic(), False
        while True:
            try:
                for event in self.client.events(self.thread, self.after, follow=self.follow):
                    gap, failing_since, has_connected = FIRST_GAP_SECONDS, self.monotonic(), True
                    if event.kind == "end":
                        return
                    if event.kind == "reset":
                        tell(f"the log ends at {event.data['head']}, before {self.after}: starting over")
                        self.after = 0
                    if event.event_id is not None:
                        yield event.data
                        self.after = event.event_id
            except CutError as cut:
                if not has_connected or self.monotonic() - failing_since > GIVE_UP_SECONDS:
                    told = f"{self.client.url}: {cut}; what you have seen ends at seq {self.after}"
                    raise CommandError(told, ExitCode.UNREACHABLE) from None
                if not self.is_quiet:
                    tell(f"the stream was cut ({cut}); resuming after seq {self.after}")
                self.sleep(gap * random.uniform(0.5, 1.0))  # noqa: S311 - spreads clients, guards nothing
                gap = min(gap * 2, LAST_GAP_SECONDS)


@dataclass
class Waiting:
    """Reads a log for the turn that takes the message at `seq`, until that turn has ended or asks.

    A message is taken by a run that starts with it, or by one that ends having used it. The turn goes on through
    interrupted and abandoned runs, and after its questions are answered.
    """

    seq: int
    turn_id: str = ""
    _turn_of: dict[str, str] = field(default_factory=dict)
    _is_taken: bool = False

    def feed(self, entry: Mapping[str, Any]) -> dict[str, Any] | None:
        """Take the next entry; return how the turn ended, or that it is paused, once it has."""
        body = entry["body"]
        match entry["kind"]:
            case "run_started":
                self._run_started(entry["run_id"], body)
            case "run_ended":
                return self._run_ended(entry["run_id"], body)
            case "turn_parked" if self.seq in body["messages"] or self._is_ours(body):
                return {"outcome": "parked", "reason": body["reason"]}
            case "turn_stopped" if self._is_ours(body):
                return {"outcome": "stopped", "reason": ""}
            case _:
                pass
        return None

    def _run_started(self, run_id: str, body: Mapping[str, Any]) -> None:
        self._turn_of[run_id] = body["turn_id"]
        # A run that used the message was cut off before it ended its turn, and began before this log: the next is its.
        is_next_attempt = self._is_taken and not self.turn_id
        if self.seq in body["prompts"] or is_next_attempt:
            self._is_taken, self.turn_id = True, body["turn_id"]

    def _run_ended(self, run_id: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
        is_used_here = self.seq in body["used"] if "used" in body else False
        if is_used_here:
            self._is_taken, self.turn_id = True, self._turn_of.get(run_id, self.turn_id)
        is_ours = is_used_here or (bool(self.turn_id) and self._turn_of.get(run_id) == self.turn_id)
        if not is_ours or body["outcome"] in {"interrupted", "abandoned"}:
            return None
        ended = {"outcome": body["outcome"], "reason": body["reason"]}
        return {**ended, "answer": body["answer"]} if "answer" in body else ended

    def _is_ours(self, body: Mapping[str, Any]) -> bool:
        return bool(self.turn_id) and body["turn_id"] == self.turn_id

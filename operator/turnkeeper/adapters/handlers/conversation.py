"""What a runner and a command say to one another during one run, line by line.

The command is told its turn and then only what it asks for: steering is handed out when it says `steer?`, so that a
program that never reads on has not "used" a message that it never saw.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import deque
from collections.abc import Mapping

from turnkeeper.adapters.handlers.lines import CutLine, LineSplitter, Refused, parse_line
from turnkeeper.adapters.handlers.process import GroupProcess
from turnkeeper.adapters.handlers.reporter import Reporter
from turnkeeper.adapters.handlers.verdicts import (
    REASON_LENGTH_MAX,
    Answered,
    Failed,
    Verdict,
    read_verdict,
    readable,
    settle,
)
from turnkeeper.adapters.handlers.wire import message_document
from turnkeeper.core.names import check_id, dump_json
from turnkeeper.core.values import Json, Message
from turnkeeper.errors import InvalidInputError
from turnkeeper.ports import Pause, Turn

UNREAD_LINES_MAX = 1_000
"""How much a program may ask for without reading the answers. Arbitrary: bounds what is held for it."""

STDERR_LINES_TOLD = 20
"""How much of its stderr is told with a failed exit. Arbitrary: the end of a stack trace."""

STDERR_LINE_BYTES_MAX = 16_384
"""Arbitrary: four times what is shown of a line."""


class Conversation:
    """One run's talk with its command."""

    def __init__(self, turn: Turn, child: GroupProcess, line_bytes_max: int, grace_seconds: float) -> None:
        self._turn = turn
        self._child = child
        self._line_bytes_max = line_bytes_max
        self._grace_seconds = grace_seconds
        self._reporter = Reporter(turn, asyncio.get_running_loop().time)
        self._waits: set[asyncio.Task[None]] = set()
        self._steps: dict[str, asyncio.Task[None]] = {}
        self._effects: dict[str, asyncio.Future[Json]] = {}
        self._handed_out: dict[int, Message] = {}
        self._last_words: deque[str] = deque(maxlen=STDERR_LINES_TOLD)

    async def run(self, document: Mapping[str, Json]) -> Json | Pause:
        """Tell the turn, carry out what the command says, and return its verdict. Raises HandlerError if it failed."""
        try:
            async with asyncio.TaskGroup() as group:
                complaints = group.create_task(self._read_stderr())
                self._send(document)
                verdict = await self._read_stdout(group)
                await self._finish_requests()
                if not await self._see_off(verdict):
                    complaints.cancel()
        except BaseExceptionGroup as errors:
            # The first is the cause: a lost run makes every further write fail as well.
            raise errors.exceptions[0] from None
        await self._reporter.close()
        if verdict is None:
            await self._child.end(self._grace_seconds)
            verdict = self._by_exit_code()
        return settle(verdict)

    async def _finish_requests(self) -> None:
        """Give up what the command still waited for, but record the steps that it has done."""
        for name, task in self._steps.items():
            if not self._effects[name].done():
                task.cancel()
        for task in self._waits:
            task.cancel()
        if tasks := {*self._steps.values(), *self._waits}:
            await asyncio.wait(tasks)

    async def _see_off(self, verdict: Verdict | None) -> bool:
        """Let the command end by itself: for the grace once it has spoken its last word, else as long as it takes.

        Returns whether it did.
        """
        if verdict is None:
            await self._child.ended.wait()
            return True
        self._child.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._grace_seconds):
                await self._child.stdout.discard()
                await self._child.ended.wait()
        return self._child.ended.is_set()

    async def _read_stdout(self, group: asyncio.TaskGroup) -> Verdict | None:
        splitter = LineSplitter(self._line_bytes_max)
        async with contextlib.aclosing(self._child.stdout.chunks()) as chunks:
            async for chunk in chunks:
                for line in splitter.feed(chunk):
                    if verdict := await self._heard(line, group):
                        return verdict
        last = splitter.rest()
        return None if last is None else await self._heard(last, group)

    async def _heard(self, raw: bytes | CutLine, group: asyncio.TaskGroup) -> Verdict | None:
        if isinstance(raw, bytes) and not raw.strip():
            return None
        line = parse_line(raw)
        if verdict := read_verdict(line):
            return verdict
        reason = line.reason if isinstance(line, Refused) else await self._obey(line, group)
        if reason:
            await self._reporter.refused(reason)
            if self._child.stdin.waiting_lines < UNREAD_LINES_MAX:
                self._send({"type": "refused", "reason": readable(reason)})
        return None

    async def _obey(self, line: Mapping[str, Json], group: asyncio.TaskGroup) -> str:
        """Carry out a line; return why it is refused, or an empty string."""
        kind = line["type"]
        if kind == "event":
            if "event" not in line:
                return 'an "event" line has no "event"'
            await self._reporter.event(line["event"])
        elif kind == "used":
            return self._use(line.get("seq"))
        elif kind in {"steer?", "step?"}:
            return self._begin(line, group)
        elif kind == "step":
            return self._step_done(line)
        else:
            return f"a line of the unknown type {str(kind)[:80]!a}"
        return ""

    def _begin(self, line: Mapping[str, Json], group: asyncio.TaskGroup) -> str:
        """Begin to answer what the command asked for; return why it is refused, or an empty string."""
        stdin = self._child.stdin
        if not stdin.is_open:
            return "its stdin is closed, so that it can't be answered"
        if stdin.waiting_lines + len(self._waits) + len(self._steps) >= UNREAD_LINES_MAX:
            return f"more than {UNREAD_LINES_MAX} answers wait to be read"
        if line["type"] == "step?":
            return self._begin_step(line.get("name"), group)
        if line.get("wait") is True:
            task = group.create_task(self._wait_for_steer())
            self._waits.add(task)
            task.add_done_callback(self._waits.discard)
        else:
            self._hand_out(self._turn.steering())
        return ""

    def _begin_step(self, name: Json, group: asyncio.TaskGroup) -> str:
        try:
            check_id(name if isinstance(name, str) else "", "step name")
        except InvalidInputError as error:
            return str(error)
        name = str(name)
        if name in self._steps:
            return f"the step {name[:80]!a} is being done already"
        self._effects[name] = asyncio.get_running_loop().create_future()
        task = self._steps[name] = group.create_task(self._do_step(name))
        task.add_done_callback(lambda _: self._steps.pop(name))
        return ""

    async def _wait_for_steer(self) -> None:
        message = await self._turn.next_steer()
        self._hand_out((message, *self._turn.steering()))

    def _hand_out(self, messages: tuple[Message, ...]) -> None:
        self._handed_out |= {message.seq: message for message in messages}
        self._send({"type": "steer", "messages": [message_document(message) for message in messages]})

    def _use(self, seq: Json) -> str:
        message = self._handed_out.get(seq) if isinstance(seq, int) else None
        if message is None:
            return f'a "used" line names {str(seq)[:40]!a}, which is no message that was handed to it'
        self._turn.use(message)
        return ""

    async def _do_step(self, name: str) -> None:
        """Have the command do a step unless the turn's log has its result; tell what stands."""
        result = self._effects[name]

        async def effect() -> Json:
            self._send({"type": "step", "name": name, "state": "do"})
            return await result

        value = await self._turn.step(name, effect)
        self._send({"type": "step", "name": name, "state": "done", "value": value})

    def _step_done(self, line: Mapping[str, Json]) -> str:
        name = line.get("name")
        result = self._effects.get(name) if isinstance(name, str) and name in self._steps else None
        if result is None or result.done():
            return f'a "step" line names {str(name)[:80]!a}, which it was not told to do'
        if "value" not in line:
            return 'a "step" line has no "value"; a step without a result has the value null'
        result.set_result(line["value"])
        return ""

    async def _read_stderr(self) -> None:
        splitter = LineSplitter(STDERR_LINE_BYTES_MAX)
        async for chunk in self._child.stderr.chunks():
            for line in splitter.feed(chunk):
                await self._complained(line)
        last = splitter.rest()
        if last is not None:
            await self._complained(last)

    async def _complained(self, raw: bytes | CutLine) -> None:
        text = (raw.head if isinstance(raw, CutLine) else raw).decode("utf-8", "replace")
        line = f"{text} [cut: {raw.size} bytes]" if isinstance(raw, CutLine) else text
        self._last_words.append(line)
        await self._reporter.stderr(line)

    def _by_exit_code(self) -> Verdict:
        """Judge a command that ended without a verdict: well, it has nothing to answer; otherwise it failed."""
        code = self._child.code
        if code == 0:
            return Answered(None)
        if code is None:
            return Failed("the command could not be ended")
        how = f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        if not self._last_words:
            return Failed(f"the command {how} and wrote nothing to its stderr")
        said = "\n".join(self._last_words)[-REASON_LENGTH_MAX // 2 :]
        return Failed(readable(f"the command {how}; its stderr ended with:\n{said}"))

    def _send(self, line: Mapping[str, Json]) -> None:
        self._child.stdin.write(dump_json(line).encode("ascii") + b"\n")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

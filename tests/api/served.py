"""A real server on loopback in a thread of its own, with a real runner over a journal in memory, for tests to call."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import uvicorn

from turnkeeper.adapters.machine_clock import MachineClock
from turnkeeper.adapters.memory import MemoryClaims, MemoryJournal, MemoryStore
from turnkeeper.adapters.polling_hints import PollingHints
from turnkeeper.adapters.prometheus import PrometheusObserver
from turnkeeper.adapters.two_step import TwoStepTaking
from turnkeeper.api.app import close_streams, create_app
from turnkeeper.api.doors import Doors
from turnkeeper.api.listen import open_listener
from turnkeeper.core.draft import Act
from turnkeeper.core.values import Json, Stats, Thread
from turnkeeper.core.words import Ask
from turnkeeper.ports import Asking, Pause, Turn
from turnkeeper.runner.drive import Tools
from turnkeeper.runner.options import RunnerOptions
from turnkeeper.runner.service import Runner
from turnkeeper.runner.session import LoopRenewals

T = TypeVar("T")


class FaultyJournal(MemoryJournal):
    """Raises what it is told to, for the thread called `faulty` and for the counts."""

    fault: Exception | None = None
    stats_fault: Exception | None = None

    async def transact(self, act: Act[T]) -> T:
        """See `ports.Journal`."""
        self._check(act.thread_id)
        return await super().transact(act)

    async def thread(self, thread_id: str) -> Thread | None:
        """See `ports.Journal`."""
        self._check(thread_id)
        return await super().thread(thread_id)

    async def stats(self) -> Stats:
        """See `ports.Journal`."""
        if self.stats_fault is not None:
            raise self.stats_fault
        return await super().stats()

    def _check(self, thread_id: str) -> None:
        if self.fault is not None and thread_id == "faulty":
            raise self.fault


class ScriptedHandler:
    """Does what the first message says, where it is an object with `do`; else it answers with the message."""

    async def turn(self, turn: Turn) -> Json | Pause:
        """See `ports.Handler`."""
        content = turn.prompts[0].content if turn.prompts else None
        script: Any = content if isinstance(content, dict) else {}
        match script.get("do"):
            case "ask" if not turn.questions:
                return Pause(tuple(Asking(text="which?", ask=Ask(ask)) for ask in script["asks"]))
            case "ask":
                return [[question.resolution, question.answer] for question in turn.questions]
            case "hold":
                await asyncio.Event().wait()
            case "steer":
                steering = await turn.next_steer()
                return [steering.content]
            case "fail":
                msg = "it went wrong"
                raise ValueError(msg)
            case "emit":
                for number in range(script["count"]):
                    await turn.emit(script.get("event", number))
        if turn.questions:
            return [[question.resolution, question.answer] for question in turn.questions]
        return content

    async def aclose(self) -> None:
        """Nothing is held."""


@dataclass
class Served:
    """A server that answers; `port` is where."""

    tokens: Sequence[str] = ()
    port: int = 0
    store: MemoryStore = field(default_factory=MemoryStore)
    observer: PrometheusObserver = field(default_factory=PrometheusObserver)
    journal: FaultyJournal = field(init=False)
    runner: Runner = field(init=False)
    doors: Doors = field(init=False)
    hints: PollingHints = field(init=False)
    _loop: asyncio.AbstractEventLoop = field(init=False)
    _server: uvicorn.Server = field(init=False)
    _thread: threading.Thread = field(init=False)
    _is_up: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Serve; return once it answers."""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._is_up.wait(10), "the server did not start"

    def stop(self) -> None:
        """End the streams, then the server; return once its thread has ended. Twice is once."""
        if not self._thread.is_alive():
            return
        self.call(lambda: close_streams(self._app))
        self._server.should_exit = True
        self._thread.join(10)
        assert not self._thread.is_alive(), "the server did not stop"

    def call(self, action: Callable[[], object]) -> None:
        """Do something on the server's loop."""
        done = threading.Event()
        self._loop.call_soon_threadsafe(action)
        self._loop.call_soon_threadsafe(done.set)
        assert done.wait(10)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        clock = MachineClock()
        self.journal = FaultyJournal("tests", self.store)
        claims = MemoryClaims("tests", self.store)
        self.hints = PollingHints(self.journal, clock)
        tools = Tools(
            workspace="tests",
            journal=self.journal,
            taking=TwoStepTaking(self.journal, claims, clock),
            hints=self.hints,
            clock=clock,
            handler=ScriptedHandler(),
            observer=self.observer,
            options=RunnerOptions(runner="api-tests", cancel_grace_seconds=1.0),
        )
        self.runner = Runner(tools, claims, LoopRenewals(claims))
        self._app = create_app(self.runner, tokens=self.tokens, metrics=self.observer)
        self.doors = self._app.state.doors
        listener = open_listener("127.0.0.1", self.port)
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(self._app, log_level="critical", lifespan="off", timeout_graceful_shutdown=5)
        self._server = uvicorn.Server(config)
        async with self.runner:
            self._loop.call_later(0, self._is_up.set)
            await self._server.serve(sockets=[listener])


@contextmanager
def serving(tokens: Sequence[str] = (), port: int = 0, store: MemoryStore | None = None) -> Iterator[Served]:
    """A server for the time of a `with` block."""
    served = Served(tokens=tokens, port=port, store=store or MemoryStore())
    served.start()
    try:
        yield served
    finally:
        served.stop()


def path_of(thread: str, rest: str = "") -> str:
    """The path of a thread, as any client should write it."""
    return f"/v1/threads/{quote(thread, safe='')}{rest}"


def raw_call(served: Served, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send the very bytes of a request, and return status, headers and body of the answer."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
        connection.sendall(request)
        received = b""
        while part := connection.recv(65536):
            received += part
    head, _, body = received.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    return int(lines[0].split()[1]), headers, body


def read_events(response: httpx.Response) -> Iterator[dict[str, str]]:
    """The frames of a stream as they come: fields by name, and comments under the empty name."""
    frame: dict[str, str] = {}
    for line in response.iter_lines():
        if line:
            name, _, value = line.partition(":")
            assert name not in frame, "a field came twice in one frame: content has split it"
            frame[name] = value.removeprefix(" ")
        elif frame:
            yield frame
            frame = {}


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether a condition of another thread comes true in time."""
    tick = threading.Event()
    for _ in range(int(seconds / 0.01)):
        if condition():
            return True
        tick.wait(0.01)
    return condition()


def sent_and_done(client: httpx.Client, thread: str, content: object) -> list[dict[str, Any]]:
    """Send a message, wait until the thread is idle, and return its log."""
    response = client.post(path_of(thread, "/messages"), json={"content": content})
    assert response.status_code == 202, response.text
    with client.stream("GET", path_of(thread, "/events")) as stream:
        assert [frame for frame in read_events(stream) if frame.get("event") == "end"]
    entries: list[dict[str, Any]] = []
    at: int | None = 0
    while at is not None:
        page = client.get(path_of(thread, "/log"), params={"after": at, "limit": 1000}).json()
        entries += page["entries"]
        at = page["next"]
    return entries

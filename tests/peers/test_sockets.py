"""Who is noticed to be gone: a process that died, and nobody that lives."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from turnkeeper.adapters import peer_sockets
from turnkeeper.adapters.peer_sockets import SocketPeers
from turnkeeper.core.claim import SessionRecord

PROGRAM = Path(__file__).parent / "present_process.py"
PATIENCE_SECONDS = 30.0
A_WHILE_SECONDS = 1.0
"""How long nothing must be noticed. A notice comes within a tenth of it."""

StartProcess = Callable[[str], Awaitable[tuple[asyncio.subprocess.Process, SessionRecord]]]


def record_of(session: str, address: str) -> SessionRecord:
    """Return a session's record."""
    return SessionRecord(session=session, runner="r", version="1", duration_seconds=30.0, address=address)


@pytest_asyncio.fixture
async def start_process() -> AsyncIterator[StartProcess]:
    """Starts a process that answers with a session."""
    processes: list[asyncio.subprocess.Process] = []

    async def start(session: str) -> tuple[asyncio.subprocess.Process, SessionRecord]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(PROGRAM), session, stdout=asyncio.subprocess.PIPE
        )
        processes.append(process)
        assert process.stdout is not None
        return process, record_of(session, (await process.stdout.readline()).decode().strip())

    yield start
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@pytest_asyncio.fixture
async def watching() -> AsyncIterator[Callable[[SessionRecord], asyncio.Task[None]]]:
    """Watches a session from a process of its own kind."""
    tasks: list[asyncio.Task[None]] = []
    async with SocketPeers("127.0.0.1") as peers:

        def watch(record: SessionRecord) -> asyncio.Task[None]:
            tasks.append(asyncio.create_task(peers.until_gone(record)))
            return tasks[-1]

        yield watch
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


Watching = Callable[[SessionRecord], asyncio.Task[None]]


async def is_noticed(task: asyncio.Task[None], seconds: float) -> bool:
    """Whether a notice comes within the time."""
    done, _ = await asyncio.wait({task}, timeout=seconds)
    return bool(done)


async def test_a_killed_process_is_noticed(start_process: StartProcess, watching: Watching) -> None:
    """Its kernel closes what it held, and nobody listens any more."""
    process, record = await start_process("s")
    task = watching(record)
    assert not await is_noticed(task, A_WHILE_SECONDS)
    process.kill()
    assert await is_noticed(task, PATIENCE_SECONDS)


async def test_a_frozen_process_is_left_to_the_timer(start_process: StartProcess, watching: Watching) -> None:
    """It may wake: its connection stands, and a new one to it is opened by its kernel and not answered."""
    process, record = await start_process("s")
    task = watching(record)
    assert not await is_noticed(task, A_WHILE_SECONDS)
    process.send_signal(signal.SIGSTOP)
    assert not await is_noticed(task, A_WHILE_SECONDS)
    assert not await is_noticed(watching(record), A_WHILE_SECONDS)


async def test_a_new_life_at_the_address_ends_the_old_ones_session(watching: Watching) -> None:
    """Whoever was greeted with the old session asks again and hears the new one."""
    async with SocketPeers("127.0.0.1") as holder:
        holder.present("old")
        task = watching(record_of("old", holder.address))
        assert not await is_noticed(task, A_WHILE_SECONDS)
        holder.present("new")
        assert await is_noticed(task, PATIENCE_SECONDS)


async def test_a_connection_that_breaks_while_the_process_lives_is_no_notice(watching: Watching) -> None:
    """It is made again, and the death that comes later is noticed."""
    async with SocketPeers("127.0.0.1") as holder:
        holder.present("s")
        task = watching(record_of("s", holder.address))
        for _ in range(3):
            assert not await is_noticed(task, A_WHILE_SECONDS / 3)
            holder._close_greeted()
        assert not await is_noticed(task, A_WHILE_SECONDS)
    assert await is_noticed(task, PATIENCE_SECONDS)


async def test_refusal_by_an_address_that_never_answered_says_nothing(watching: Watching) -> None:
    """A rule of the network may refuse in the name of a process that lives."""
    async with SocketPeers("127.0.0.1") as holder:
        address = holder.address
    assert not await is_noticed(watching(record_of("s", address)), A_WHILE_SECONDS)


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"x" * 10_000, b"turnkeeper-session s"])
async def test_whatever_else_answers_there_says_nothing(watching: Watching, said: bytes) -> None:
    """Another service, a proxy in between, half a greeting."""

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert not await is_noticed(watching(record_of("s", f"127.0.0.1:{port}")), A_WHILE_SECONDS)
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("address", ["", "nonsense", "127.0.0.1:none", "no-such-host.invalid:1", "[::1"])
async def test_an_address_that_cannot_be_used_says_nothing(watching: Watching, address: str) -> None:
    """Whatever stands in a record that somebody edited."""
    assert not await is_noticed(watching(record_of("s", address)), A_WHILE_SECONDS / 5)


async def test_a_crowd_is_not_held_open_without_end(monkeypatch: pytest.MonkeyPatch, watching: Watching) -> None:
    """Beyond the bound a connection is closed at once, which says nothing of the process."""
    monkeypatch.setattr(peer_sockets, "CONNECTIONS_MAX", 1)
    async with SocketPeers("127.0.0.1") as holder:
        holder.present("s")
        record = record_of("s", holder.address)
        tasks = [watching(record) for _ in range(3)]
        assert not any([await is_noticed(task, A_WHILE_SECONDS / 3) for task in tasks])
        assert len(holder._greeted) == 1

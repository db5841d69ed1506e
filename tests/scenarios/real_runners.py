"""Real `turnkeeper run` processes over one database, with a client that sends and a reader of the journal."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx
from sqlalchemy import make_url

from tests.invariants import ThreadDump, breaches, dump_of
from tests.soak.books import Books, open_books
from tests.soak.nursery import Nursery
from tests.soak.processes import RunnerProcess, ended_at_last
from tests.soak.waiting import until
from turnkeeper.core.values import Json
from turnkeeper.core.words import Kind

TTL = 2.0
ENTRY_POINT = "tests.scenarios.real_turns:turn"


@dataclass
class Runners:
    """The processes, what a client does with them, and what stands in their journal."""

    processes: Sequence[RunnerProcess]
    books: Books
    http: httpx.AsyncClient
    url: str

    async def send(self, process: RunnerProcess, thread_id: str, content: Json, message_id: str) -> str:
        """Send until it is accepted, under one id; return the run's id, if it is told."""

        async def accepted() -> httpx.Response | None:
            with contextlib.suppress(httpx.HTTPError):
                answer = await self.http.post(
                    f"{process.url}/v1/threads/{quote(thread_id, safe='')}/messages",
                    json={"content": content, "message_id": message_id},
                )
                assert answer.status_code in {200, 202, 503}, answer.text
                return answer if answer.is_success else None
            return None

        answer = await until(accepted, f"{process.name} accepts {message_id}", seconds=60, poll_seconds=0.1)
        assert answer is not None
        return str(answer.json()["run_id"])

    async def kinds(self, thread_id: str, kind: Kind) -> list[dict[str, Json]]:
        """Return the bodies of a thread's entries of a kind."""
        return [dict(entry.body) for entry in await self.books.log(thread_id, 0, 10_000) if entry.kind is kind]

    async def outcomes(self, thread_id: str) -> list[Json]:
        """Return how the thread's runs ended, in order."""
        return [body["outcome"] for body in await self.kinds(thread_id, Kind.RUN_ENDED)]

    async def until_outcomes(self, thread_id: str, count: int) -> list[Json]:
        """Wait until a thread has so many runs behind it."""

        async def have_ended() -> list[Json]:
            outcomes = await self.outcomes(thread_id)
            return outcomes if len(outcomes) >= count else []

        return await until(have_ended, f"{thread_id} has {count} runs behind it", seconds=90)

    async def settle(self) -> list[ThreadDump]:
        """Wait until nothing is owed, check every invariant, and return what the journal holds."""
        assert await self.books.until_settled(90) == []
        dumps = await dump_of(self.books)  # type: ignore[arg-type]  # it only reads
        assert breaches(dumps, at_rest=True) == []
        return dumps


@contextlib.asynccontextmanager
async def real_runners(
    nursery: Nursery, url: str, folder: Path, count: int, *flags: str, ttl: float = TTL
) -> AsyncIterator[Runners]:
    """Start so many runners, and end them."""
    parsed = make_url(url)
    journal = str(parsed.database) if parsed.get_backend_name() == "sqlite" else url
    given = ["--journal", journal, "--python", ENTRY_POINT, "--claim-ttl", str(ttl), "--recover-interval", "1", *flags]
    environment = {"SCENARIO_CURE": str(folder / "cure")}
    names = (f"runner-{number}" for number in range(count))
    processes = [RunnerProcess(name, folder, given, environment=environment, nursery=nursery) for name in names]
    with ended_at_last(processes):
        for process in processes:
            process.start()
            await process.ready()
        plain = parsed.set(drivername=parsed.get_backend_name()).render_as_string(hide_password=False)
        async with open_books(plain) as books, httpx.AsyncClient(trust_env=False, timeout=10.0) as http:
            yield Runners(processes, books, http, plain)

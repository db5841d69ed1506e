"""Runners over a real database in one process, each with a life that can end at a named point.

A `Life` is what a process would be: its own database connections, journal, claims and runner. It dies by its gate: from
one moment to the next nothing of it reaches the database any more, and what it awaits never comes. What its database
was already told may still be committed, as with a process that is killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from sqlalchemy import make_url, select

from tests.invariants import ThreadDump, breaches, dump_of
from tests.scenarios.gates import WORKSPACE, DeafHints, Gate, Hook, PointedClaims, PointedJournal
from tests.soak.waiting import CLOCK, until
from tests.stand_ins import Counting, Script, Scripted
from turnkeeper.adapters.polling_hints import PollingHints
from turnkeeper.adapters.sql_claims import SqlClaims
from turnkeeper.adapters.sql_database import open_database
from turnkeeper.adapters.sql_journal import SqlJournal
from turnkeeper.adapters.sql_schema import migrate
from turnkeeper.adapters.sql_tables import claims as claim_table
from turnkeeper.adapters.sql_taking import SqlTaking
from turnkeeper.adapters.two_step import TwoStepTaking
from turnkeeper.core.cursor import NewMessage
from turnkeeper.core.values import Entry, Json, Message
from turnkeeper.core.words import Kind, Mode
from turnkeeper.ports import Turn
from turnkeeper.runner.drive import Tools
from turnkeeper.runner.options import RunnerOptions
from turnkeeper.runner.requests import Sent
from turnkeeper.runner.service import Runner
from turnkeeper.runner.session import LoopRenewals

T = TypeVar("T")

TTL = 4.0
"""Long enough that a busy machine loses no session by itself. Most deaths are noticed here: few tests wait for it."""

SWEEP_SECONDS = 0.5

CALL_SECONDS = 5.0
"""Longest call about sessions and claims: a real runner's at the default ttl, for machines that are busy."""


async def echo(turn: Turn) -> Json:
    """Answer with what was asked."""
    return [message.content for message in turn.prompts]


class Life:
    """One life of one process. `hooks` are called at each point, as is the death that was set to one."""

    def __init__(self, gate: Gate, script: Script, options: RunnerOptions, *, two_step: bool, is_deaf: bool) -> None:
        self.hooks: list[Hook] = []
        self.died = asyncio.Event()
        self.observer = Counting()
        self.handler = Scripted(script)
        self._gate = gate
        self._dies_at = ""
        self.journal = PointedJournal(gate, self._at, self.observer)
        self.claims = PointedClaims(gate, WORKSPACE, deadline_seconds=CALL_SECONDS)
        self.claims.hook = self._at
        taking = TwoStepTaking(self.journal, self.claims, CLOCK) if two_step else SqlTaking(self.journal, self.claims)
        tools = Tools(
            workspace=WORKSPACE,
            journal=self.journal,
            taking=taking,
            hints=(DeafHints if is_deaf else PollingHints)(self.journal, CLOCK),
            clock=CLOCK,
            handler=self.handler,
            observer=self.observer,
            options=options,
        )
        self.runner = Runner(tools, self.claims, LoopRenewals(self.claims))

    @property
    def session(self) -> str:
        """The session of the present life."""
        return self.runner._keeper.session

    def dies_at(self, point: str) -> None:
        """Let this life end at the first point of this name."""
        self._dies_at = point

    async def _at(self, point: str, thread_id: str) -> None:
        if point == self._dies_at:
            self._gate.is_shut = True
            self.died.set()
        await self._gate.hold()
        for hook in self.hooks:
            await hook(point, thread_id)

    async def kill(self, *, noticed: bool = True) -> None:
        """End this life: no end is recorded, nothing released.

        noticed: its session is removed at once, as by a peer that saw the process end; else it has to expire.
        """
        session = self.session
        self._gate.is_shut = True
        self.died.set()
        runner = self.runner
        runner._taker.is_taking = False
        for drive in runner._taker.drives.values():
            drive.cut = lambda cause: None  # type: ignore[method-assign] # noqa: ARG005 - the dead decide nothing
        await runner._timers.aclose()
        tasks = [*runner._tasks, *runner._taker._tasks, *runner._keeper._tasks]
        tasks += [self.journal._lane, *self.journal._singles]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await runner._keeper._host.aclose()
        if noticed:
            notice = SqlClaims(self._gate.behind, WORKSPACE, deadline_seconds=CALL_SECONDS)
            await notice.close_session(session)
        await self._gate.aclose()

    async def aclose(self) -> None:
        """Close in order, as a process that is told to stop."""
        if not self.died.is_set():
            self.died.set()
            await self.runner.aclose()
            await self.journal.aclose()


@dataclass
class World:
    """A database, its lives, and a reader of the test's own."""

    url: str
    books: SqlJournal
    lives: list[Life] = field(default_factory=list)

    @property
    def dialect(self) -> str:
        """Which database it is."""
        return self.books.database.dialect

    async def start(self, script: Script = echo, **given: object) -> Life:
        """Begin a life; see `make`."""
        life = self.make(script, **given)  # type: ignore[arg-type] # options are given by their names
        await life.runner.start()
        return life

    def make(
        self,
        script: Script = echo,
        *,
        two_step: bool = False,
        is_deaf: bool = False,
        url: str = "",
        **options: object,
    ) -> Life:
        """Make a life that has yet to start; options of the runner may be given by name.

        two_step: claims as if they were in another store. is_deaf: hears of no news from others. url: another way to
        the same database.
        """
        given = {"claim_ttl_seconds": TTL, "sweep_interval_seconds": SWEEP_SECONDS, "cancel_grace_seconds": 1.0}
        named = RunnerOptions(runner=f"life-{len(self.lives)}", **(given | options))  # type: ignore[arg-type] # options are given by their names
        life = Life(Gate(open_database(url or self.url)), script, named, two_step=two_step, is_deaf=is_deaf)
        self.lives.append(life)
        return life

    async def settled(self, seconds: float = 90.0) -> None:
        """Wait until no thread is owed a turn or has a run open, and no claim stands."""

        async def is_settled() -> bool:
            stats = await self.books.stats()
            return not stats.owed and not stats.running and not await self.claimed()

        try:
            await until(is_settled, "nothing is owed and no claim stands", seconds=seconds)
        except AssertionError as error:
            rows = [thread for thread in await self.books.threads(None, "", 1000) if thread.is_owed or thread.run]
            msg = f"{error}: {rows[:5]}; claims {await self.claimed()}"
            raise AssertionError(msg) from error

    async def claimed(self) -> dict[str, str]:
        """Return the claims that stand: thread ids with sessions."""
        query = select(claim_table.c.thread_id, claim_table.c.session).where(claim_table.c.workspace == WORKSPACE)
        return {row.thread_id: row.session for row in await self.books._rows(query)}

    async def check(self, *, at_rest: bool = True) -> list[ThreadDump]:
        """Check every invariant on the whole journal, and return what it holds."""
        dumps = await dump_of(self.books)
        assert breaches(dumps, at_rest=at_rest) == []
        return dumps

    async def entries(self, thread_id: str, *kinds: Kind) -> list[Entry]:
        """Return a thread's entries of these kinds; all without any."""
        found = await self.books.log(thread_id, 0, 10_000)
        return [entry for entry in found if entry.kind in kinds or not kinds]

    async def outcomes(self, thread_id: str) -> list[object]:
        """Return how the thread's runs ended, in order."""
        return [entry.body["outcome"] for entry in await self.entries(thread_id, Kind.RUN_ENDED)]

    async def fate(self, thread_id: str, message_id: str) -> Message:
        """Return a message's receipt."""
        message = await self.books.message(thread_id, message_id)
        assert message is not None
        return message

    async def until_kind(self, thread_id: str, kind: Kind, count: int = 1) -> list[Entry]:
        """Wait until a thread has so many entries of a kind."""

        async def found() -> list[Entry]:
            entries = await self.entries(thread_id, kind)
            return entries if len(entries) >= count else []

        return await until(found, f"{thread_id} has {count} x {kind}")

    async def aclose(self) -> None:
        """Close every life that lasts, and the books."""
        for life in self.lives:
            await life.aclose()
        await self.books.aclose()


async def send(
    life: Life, thread_id: str, content: Json, message_id: str = "", *, sender: str = "", mode: Mode = Mode.STEER
) -> Sent:
    """Send a message to a life; its id is its content where none is given."""
    new = NewMessage(message_id=message_id or str(content), content=content, sender=sender, mode=mode)
    return await life.runner.send(thread_id, new)


async def send_to_any(lives: Sequence[Life], thread_id: str, content: Json, message_id: str = "") -> Sent:
    """Send as a client does whose runner may die: under one id to one after the other, until one has accepted it."""
    for life in lives:
        sending = asyncio.ensure_future(send(life, thread_id, content, message_id))
        dying = asyncio.ensure_future(life.died.wait())
        await asyncio.wait((sending, dying), return_when=asyncio.FIRST_COMPLETED)
        dying.cancel()
        if sending.done():
            return sending.result()
        sending.cancel()
    msg = "every runner was dead"
    raise AssertionError(msg)


async def open_world(url: str) -> World:
    """Make the tables of a fresh database, and a world on it."""
    parsed = make_url(url)
    plain = parsed.set(drivername=parsed.get_backend_name()).render_as_string(hide_password=False)
    database = open_database(plain)
    await database.write(migrate)
    return World(plain, SqlJournal(database, WORKSPACE))

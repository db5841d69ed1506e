"""S14: the commit whose answer was lost, and the same request more than once."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from sqlalchemy import Connection, make_url, text

from tests.conftest import GIVEN_SERVER
from tests.scenarios.cutting_proxy import CuttingProxy, cutting_proxy
from tests.scenarios.harness import Life, World, open_world, send
from turnkeeper.core.values import Json
from turnkeeper.core.words import Ask, Fate, Kind, Outcome, Resolution
from turnkeeper.errors import StandsOtherwiseError
from turnkeeper.ports import Asking, Pause, Turn

pytestmark = pytest.mark.timeout(180)


@pytest_asyncio.fixture
async def by_proxy(postgresql_url: str) -> AsyncIterator[tuple[World, CuttingProxy, str]]:
    """A world on PostgreSQL, and a way to it that can be cut."""
    if GIVEN_SERVER:
        pytest.skip("the proxy stands before the wheel's own server, which listens on a socket in a folder")
    world = await open_world(postgresql_url)
    async with cutting_proxy(postgresql_url) as (proxy, url):
        yield world, proxy, url
        await world.aclose()


async def say_and_answer(turn: Turn) -> Json | Pause:
    """Write an event; ask for leave where that is asked for; answer."""
    await turn.emit("an-event")
    if turn.prompts and turn.prompts[0].content == "ask" and not turn.questions:
        return Pause((Asking(text="may I?", ask=Ask.APPROVAL, question_id="q"),))
    return "an-answer"


CUTS = {  # what the client sends is JSON, in which the entries' own JSON is text
    "the message": rb"\"message_id\":\"m\"",
    "the turn's start": rb"\"prompts\":[1]",
    "an event": b"an-event",
    "the turn's end": b"an-answer",
}


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("what", CUTS)
async def test_a_commit_whose_answer_was_lost_stands_once(
    by_proxy: tuple[World, CuttingProxy, str], what: str, times: int
) -> None:
    """One message, one turn, run once: only the write is tried again, and its answer is the first one's."""
    world, proxy, url = by_proxy
    life = await world.start(say_and_answer, url=url)
    await send(life, "warm", "up")
    await world.settled()
    await _cut(world, proxy, life, what, times)


async def _cut(world: World, proxy: CuttingProxy, life: Life, what: str, times: int) -> None:
    turns, cuts = len(life.handler.turns), proxy.cuts
    proxy.cut_commit_of(CUTS[what], times)
    sent = await send(life, what, "go", "m")
    assert sent.is_new
    await world.settled()
    assert proxy.cuts > cuts
    await world.check()
    assert await world.outcomes(what) == [Outcome.COMPLETED]
    assert len(life.handler.turns) == turns + 1
    assert len(await world.entries(what, Kind.EVENT)) == 1
    assert not (await send(life, what, "go", "m")).is_new


async def test_a_database_that_isolates_more_by_default_changes_nothing(
    by_proxy: tuple[World, CuttingProxy, str],
) -> None:
    """Its default is its owner's to set; the journal says what it needs, and no conflict makes a turn run twice."""
    world, proxy, url = by_proxy
    setting = f"ALTER DATABASE {make_url(world.url).database} SET default_transaction_isolation = 'serializable'"
    await world.books.database.write(lambda connection: connection.execute(text(setting)))
    life = await world.start(say_and_answer, url=url)
    for what in CUTS:
        await _cut(world, proxy, life, what, times=1)


async def test_an_approval_whose_answer_was_lost_is_the_callers_own(
    by_proxy: tuple[World, CuttingProxy, str],
) -> None:
    """Who approved hears of success, not that somebody had approved before."""
    world, proxy, url = by_proxy
    life = await world.start(say_and_answer, url=url)
    await send(life, "thread", "ask", "m")
    await world.until_kind("thread", Kind.QUESTION)
    await world.settled()
    proxy.cut_commit_of(rb"\"resolution\":\"approved\"")
    assert (await life.runner.answer("thread", "q", Resolution.APPROVED)).resolution is Resolution.APPROVED
    await world.settled()
    assert proxy.cuts == 1
    await world.check()
    assert await world.outcomes("thread") == [Outcome.PAUSED, Outcome.COMPLETED]
    assert len(life.handler.turns) == 2


async def test_a_hand_over_whose_answers_were_lost_strands_nothing(by_proxy: tuple[World, CuttingProxy, str]) -> None:
    """A message that came amid the turn starts the next one, though the end's answer and the next start's are lost."""
    world, proxy, url = by_proxy

    async def interject(turn: Turn) -> Json:
        if turn.prompts[0].content == "go":
            await send(life, "thread", "second")
        return "an-answer"

    life = await world.start(interject, url=url)
    proxy.cut_commit_of(b"an-answer", 2)
    await send(life, "thread", "go")
    await world.settled()
    assert proxy.cuts == 2
    await world.check()
    assert await world.outcomes("thread") == [Outcome.COMPLETED] * 2
    assert len(life.handler.turns) == 2


CONFLICTS = (
    "CREATE SEQUENCE conflicts",
    """CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.kind = 'run_ended' AND nextval('conflicts') <= 3 THEN
            RAISE EXCEPTION 'could not serialize access' USING ERRCODE = '40001';
        END IF;
        RETURN NEW;
    END $$""",
    "CREATE TRIGGER conflict BEFORE INSERT ON entries FOR EACH ROW EXECUTE FUNCTION conflict()",
)


async def test_a_turn_whose_end_meets_conflicts_is_not_run_again(postgresql_world: World) -> None:
    """Three serialization failures on the write of the end: the write is tried a fourth time, the turn is not."""
    world = postgresql_world

    def plant(connection: Connection) -> None:
        for statement in CONFLICTS:
            connection.execute(text(statement))

    await world.books.database.write(plant)
    life = await world.start(say_and_answer)
    await send(life, "thread", "go")
    await world.settled()
    await world.check()
    assert (await world.outcomes("thread"), len(life.handler.turns)) == ([Outcome.COMPLETED], 1)
    tried = await world.books.database.read(
        lambda connection: connection.scalar(text("SELECT last_value FROM conflicts"))
    )
    assert tried == 4


async def test_fifty_equal_requests_at_once_make_one_message(world: World) -> None:
    """By way of two runners; one of them is told that it is new, and all the same seq."""
    lives = [await world.start() for _ in range(2)]
    sent = await asyncio.gather(*(send(lives[number % 2], "thread", "go", "m") for number in range(50)))
    assert sum(each.is_new for each in sent) == 1
    assert len({each.message.seq for each in sent}) == 1
    await world.settled()
    (dump,) = await world.check()
    assert len(dump.messages) == 1
    assert await world.outcomes("thread") == [Outcome.COMPLETED]


async def _clash(life: Life) -> str:
    with pytest.raises(StandsOtherwiseError) as told:
        await send(life, "thread", "another", "m")
    return told.value.stands


async def test_an_id_means_one_message_of_its_thread_for_ever(world: World) -> None:
    """During the turn and after it failed: the receipt. Another body: what stands. In another thread: free."""
    going = asyncio.Event()

    async def fail(turn: Turn) -> Json:
        if turn.thread_id == "thread":
            await going.wait()
            msg = "it failed"
            raise ValueError(msg)
        return "fine"

    life = await world.start(fail)
    first = await send(life, "thread", "go", "m")
    during = await send(life, "thread", "go", "m")
    assert (during.is_new, during.message.seq) == (False, first.message.seq)
    assert await _clash(life) in {Fate.PENDING, Fate.STARTED}
    going.set()
    await world.settled()
    after = await send(life, "thread", "go", "m")
    assert (after.is_new, after.outcome) == (False, Fate.STARTED)
    assert await _clash(life) == Fate.STARTED
    assert (await send(life, "elsewhere", "another", "m")).is_new
    await world.settled()
    await world.check()
    assert await world.outcomes("thread") == [Outcome.FAILED]

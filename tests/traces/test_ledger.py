"""The ledger sees what the adapters write, in its order, and the trace tells of it."""

import asyncio
from pathlib import Path

from tests.traces import ledger
from tests.traces.ledger import Line
from tests.traces.telling import tell
from turnkeeper.adapters.sql_claims import SqlClaims
from turnkeeper.adapters.sql_database import open_database
from turnkeeper.core.claim import Claimed


def test_sessions_and_claims_are_written_down_as_they_come_and_go(tmp_path: Path) -> None:
    """By the real adapter, on a journal that the ledger is kept in."""
    path = tmp_path / "journal.db"
    ledger.begin(path)

    async def live() -> None:
        database = open_database(f"sqlite:///{path}")
        claims = SqlClaims(database, "w", deadline_seconds=10.0)
        await claims.open_session("s", "r", 30.0)
        await claims.renew("s")
        claimed = await claims.claim("t", "s", "n", 4)
        assert isinstance(claimed, Claimed)
        await claims.claim("t", "s", "n", 4)
        await claims.release("t", claimed.claim)
        await claims.close_session("s")
        await database.aclose()

    asyncio.run(live())
    assert ledger.read(path) == [
        Line("opened", "", {"session": "s", "runner": "r"}),
        Line("claimed", "t", {"session": "s", "token": 5}),
        Line("released", "t", {"session": "s", "token": 5}),
        Line("gone", "", {"session": "s"}),
    ]


def _entry(seq: int, kind: str, body: str) -> Line:
    return Line("entry", "a thread", {"seq": seq, "kind": kind, "run": "run", "token": 1, "body": body})


def _act(seq: int, *, before: int, taken: int, session: str, was: str) -> Line:
    row = {"asked": 1, "taken": taken, "session": session, "token": int(bool(session)), "seq": seq}
    return Line("act", "a thread", {"taken_before": before, "session_before": was, **row})


def test_an_attempt_that_waits_for_its_gap_is_left_out() -> None:
    """Its run is abandoned, and no other begins in the same act: time is not modelled."""
    lines = [
        Line("opened", "", {"session": "s", "runner": "host-1"}),
        _entry(1, "message", "{}"),
        _act(1, before=0, taken=0, session="", was=""),
        _entry(2, "run_started", '{"turn_id": "turn", "attempt": 1}'),
        Line("claimed", "a thread", {"session": "s", "token": 1}),
        _act(2, before=0, taken=1, session="s", was=""),
        Line("gone", "", {"session": "s"}),
        _entry(3, "run_ended", '{"outcome": "abandoned"}'),
        _act(3, before=1, taken=1, session="s", was="s"),
    ]
    assert tell(lines)["t0"].untold


def test_a_turn_is_told_action_by_action() -> None:
    """Each act becomes the actions of the specification; what only the process knows stands where it must."""
    lines = [
        Line("opened", "", {"session": "long id", "runner": "host-1"}),
        _entry(1, "message", "{}"),
        _act(1, before=0, taken=0, session="", was=""),
        _entry(2, "run_started", '{"turn_id": "turn", "attempt": 1}'),
        Line("claimed", "a thread", {"session": "long id", "token": 1}),
        _act(2, before=0, taken=1, session="long id", was=""),
        _entry(3, "run_ended", '{"outcome": "completed"}'),
        Line("released", "a thread", {"session": "long id", "token": 1}),
        _act(3, before=1, taken=1, session="long id", was="long id"),
    ]
    part = tell(lines)["t0"]
    actions = [event["action"] for event in part.events]
    assert actions[:2] == ["Restart", "Restart"]
    assert actions[2:] == ["Accept", "Take", "Claim", "Start", "End", "Release", "HandOver", "AtRest"]
    assert part.untold == ""

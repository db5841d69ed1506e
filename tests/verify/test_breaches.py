"""Each kind of breach, planted in a real journal by hand, is named with its thread and seq; and nothing else is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.verify.journals import WORKSPACE, check, make, plant, told

PLANTED: dict[str, tuple[Sequence[str], set[tuple[str, str, int | None]]]] = {
    "an entry is lost": (["DELETE FROM entries WHERE thread_key = {t} AND seq = 3"], {("GapFree", "t", 4)}),
    "the last entries are lost": (
        ["DELETE FROM entries WHERE thread_key = {t} AND seq = 29"],
        {
            ("GapFree", "t", 28),
            ("SentIsTaken", "t", 26),
            ("RowsAgree", "t", None),
        },
    ),
    "the row counts more entries": (
        ["UPDATE threads SET last_seq = 30 WHERE thread_id = 't'"],
        {("GapFree", "t", 29)},
    ),
    "a run writes before it begins": (
        ["UPDATE entries SET run_id = 'r9' WHERE thread_key = {t} AND seq = 3"],
        {("OneRun", "t", 3)},
    ),
    "a run begins while another is open": (
        ["UPDATE entries SET kind = 'event' WHERE thread_key = {t} AND seq = 5"],
        {("OneRun", "t", 7), ("OneEnd", "t", 5), ("SentIsTaken", "t", 4), ("InOrder", "t", 12)},
    ),
    "the row holds a run open that has ended": (
        [
            """UPDATE threads SET run_id = 'r9', turn_id = 'r9', state = 'running', owed_since_ms = 1
            WHERE thread_id = 't'"""
        ],
        {("OneRun", "t", None), ("TokensRise", "t", 27)},
    ),
    "the row has let go of the open run": (
        ["UPDATE threads SET run_id = '', state = 'owed' WHERE thread_id = 'running'"],
        {("OneRun", "running", None), ("OneEnd", "running", 2)},
    ),
    "a run ends twice": (
        [
            """UPDATE entries SET kind = 'run_ended', body = '{"outcome":"completed"}'
            WHERE thread_key = {t} AND seq = 3"""
        ],
        {("OneEnd", "t", 3), ("OneRun", "t", 5)},
    ),
    "a run begins twice": (
        ["UPDATE entries SET kind = 'run_started' WHERE thread_key = {t} AND seq = 3"],
        {("OneEnd", "t", 3), ("OneRun", "t", 3)},
    ),
    "a run's row has another outcome": (
        ["UPDATE runs SET outcome = 'failed' WHERE run_id = 'r1'"],
        {("OneEnd", "t", 5)},
    ),
    "a run has no row": (["DELETE FROM runs WHERE run_id = 'r1'"], {("OneEnd", "t", 2), ("OneEnd", "t", 5)}),
    "a run's row has no entries": (
        [
            """INSERT INTO runs (run_id, thread_key, turn_id, attempt, token, session, started_seq, outcome, ended_seq)
            VALUES ('made up', {t}, 'made up', 1, 1, 's', 40, 'completed', 41)"""
        ],
        {("OneEnd", "t", 40)},
    ),
    "a run's row never ended": (
        ["UPDATE runs SET outcome = NULL, ended_seq = NULL WHERE run_id = 'r1'"],
        {("OneEnd", "t", 2), ("OneEnd", "t", 5)},
    ),
    "a run is another thread's": (
        ["UPDATE runs SET thread_key = {queue} WHERE run_id = 'r1'"],
        {("OneEnd", "t", 2), ("OneEnd", "t", 5), ("OneEnd", "queue", 2)},
    ),
    "a later run has a smaller token": (
        ["UPDATE runs SET token = 1 WHERE run_id = 'r3'"],
        {("TokensRise", "t", 9)},
    ),
    "a token comes again from another session": (
        ["UPDATE runs SET token = 2 WHERE run_id = 'r3'"],
        {("TokensRise", "t", 9)},
    ),
    "the row's token is below a run's": (
        ["UPDATE threads SET token = 1 WHERE thread_id = 't'"],
        {("TokensRise", "t", 27)},
    ),
    "the row's fence is not its open run's": (
        ["UPDATE threads SET session = 'another' WHERE thread_id = 'running'"],
        {("TokensRise", "running", 2)},
    ),
    "a smaller token writes after a greater": (
        ["UPDATE entries SET token = 2 WHERE thread_key = {t} AND seq = 10"],
        {("NoStaleWrite", "t", 10)},
    ),
    "taken is over asked": (
        ["UPDATE threads SET taken = 27 WHERE thread_id = 't'"],
        {("CursorsForward", "t", None)},
    ),
    "asked is over the log's end": (
        ["UPDATE threads SET asked = 9 WHERE thread_id = 'owed'"],
        {("CursorsForward", "owed", None), ("RowsAgree", "owed", None)},
    ),
    "taken has passed a message that waits": (
        [
            "UPDATE threads SET taken = 1, asked = 1, state = 'idle', owed_since_ms = NULL WHERE thread_id = 'owed'",
        ],
        {("CursorsForward", "owed", 1), ("RowsAgree", "owed", None)},
    ),
    "a message has no receipt": (
        ["DELETE FROM messages WHERE thread_key = {t} AND message_id = 'm3'"],
        {("SentIsTaken", "t", 6), ("SentIsTaken", "t", None)},
    ),
    "a receipt has no message": (
        [
            """INSERT INTO messages (thread_key, message_id, seq, sender, mode, digest, created_ms, fate)
            VALUES ({t}, 'stray', 99, 'a', 'steer', '', 1, 'pending')"""
        ],
        {("SentIsTaken", "t", 99), ("SentIsTaken", "t", None)},
    ),
    "a message is taken twice": (
        ["UPDATE entries SET body = replace(body, ':[6]', ':[6,1]') WHERE thread_key = {t} AND seq = 9"],
        {("SentIsTaken", "t", 9)},
    ),
    "a message is taken and used": (
        ["UPDATE entries SET body = replace(body, ':[4]', ':[4,1]') WHERE thread_key = {t} AND seq = 5"],
        {("SentIsTaken", "t", 5)},
    ),
    "a message that waits was taken": (
        [
            "UPDATE messages SET fate = 'pending', run_id = '' WHERE thread_key = {t} AND message_id = 'm1'",
        ],
        {("SentIsTaken", "t", 2), ("CursorsForward", "t", 1), ("RowsAgree", "t", None)},
    ),
    "a receipt names a run that took nothing": (
        ["UPDATE messages SET run_id = 'r5' WHERE thread_key = {t} AND message_id = 'm1'"],
        {("SentIsTaken", "t", 1)},
    ),
    "a receipt names another turn": (
        ["UPDATE messages SET turn_id = 'r3' WHERE thread_key = {t} AND message_id = 'm1'"],
        {("SentIsTaken", "t", 2), ("SentIsTaken", "t", 1)},
    ),
    "a receipt names an earlier attempt": (
        ["UPDATE messages SET run_id = 'r2' WHERE thread_key = {t} AND message_id = 'm3'"],
        {("SentIsTaken", "t", 9)},
    ),
    "a steered message was used by nobody": (
        ["UPDATE entries SET body = replace(body, ':[4]', ':[]') WHERE thread_key = {t} AND seq = 5"],
        {("SentIsTaken", "t", 4), ("InOrder", "t", 12)},
    ),
    "a parked message was not set aside": (
        ["UPDATE messages SET fate = 'parked', reason = 'why' WHERE thread_key = {t} AND message_id = 'm4'"],
        {("SentIsTaken", "t", 11)},
    ),
    "a parked message does not say why": (
        ["UPDATE messages SET reason = '' WHERE thread_key = {t} AND message_id = 'm6'"],
        {("SentIsTaken", "t", 26)},
    ),
    "a message that was set aside says that it was taken": (
        ["UPDATE messages SET fate = 'started' WHERE thread_key = {t} AND message_id = 'm6'"],
        {("SentIsTaken", "t", 29)},
    ),
    "a note was taken": (
        ["UPDATE entries SET body = replace(body, ':[19]', ':[19,18]') WHERE thread_key = {t} AND seq = 20"],
        {("SentIsTaken", "t", 20)},
    ),
    "one sender's messages are taken out of order": (
        [
            """UPDATE entries
            SET body = CASE seq WHEN 3 THEN replace(body, '[1]', '[2]') ELSE replace(body, '[2]', '[1]') END
            WHERE thread_key = {queue} AND kind = 'run_started'""",
            """UPDATE messages
            SET run_id = CASE run_id WHEN 'queued1' THEN 'queued2' ELSE 'queued1' END,
                turn_id = CASE turn_id WHEN 'queued1' THEN 'queued2' ELSE 'queued1' END
            WHERE thread_key = {queue}""",
        ],
        {("InOrder", "queue", 3)},
    ),
    "a sweep can't find the thread": (
        ["UPDATE threads SET state = 'idle' WHERE thread_id = 'owed'"],
        {("RowsAgree", "owed", None)},
    ),
    "nobody knows since when the thread is owed": (
        ["UPDATE threads SET owed_since_ms = NULL WHERE thread_id = 'owed'"],
        {("RowsAgree", "owed", None)},
    ),
    "what was asked is forgotten": (
        ["UPDATE threads SET asked = 0, state = 'idle', owed_since_ms = NULL WHERE thread_id = 'owed'"],
        {("RowsAgree", "owed", None)},
    ),
    "asked is where nothing asks": (
        [
            "UPDATE threads SET asked = 28, taken = 28 WHERE thread_id = 't'",
        ],
        {("RowsAgree", "t", None)},
    ),
    "a question is lost": (
        ["DELETE FROM questions WHERE thread_key = {paused} AND question_id = 'q2'"],
        {("RowsAgree", "paused", None)},
    ),
    "a parked turn is lost": (
        ["DELETE FROM parked WHERE thread_key = {t} AND seq = 29"],
        {("RowsAgree", "t", None)},
    ),
    "a receipt has another sender": (
        ["UPDATE messages SET sender = 'b' WHERE thread_key = {t} AND message_id = 'm1'"],
        {("RowsAgree", "t", 1)},
    ),
    "an entry is of no known kind": (
        ["UPDATE entries SET kind = 'nonsense' WHERE thread_key = {t} AND seq = 3"],
        {("RowsAgree", "t", 3)},
    ),
    "an entry's body is cut": (
        ["UPDATE entries SET body = '[1' WHERE thread_key = {t} AND seq = 18"],
        {("RowsAgree", "t", 18), ("SentIsTaken", "t", None)},
    ),
    "a receipt has no known fate": (
        ["UPDATE messages SET fate = 'nonsense' WHERE thread_key = {t} AND message_id = 'n1'"],
        {("RowsAgree", "t", 18), ("SentIsTaken", "t", 18)},
    ),
    "a thread's row is lost": (
        ["DELETE FROM threads WHERE thread_id = 'owed'"],
        {("RowsAgree", "", None)},
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
async def test_a_planted_breach_is_named(planted: str, database_url: str) -> None:
    """By its invariant, thread and seq, and no other thread is accused."""
    statements, expected = PLANTED[planted]
    await make(database_url)
    await plant(database_url, statements)
    findings = await check(database_url)
    assert told(findings) == expected, "\n".join(str(breach) for breach in findings.kept)


async def test_a_healthy_journal_is_clean_at_rest_and_live(database_url: str) -> None:
    """Threads that died, paused, were parked and retried, with others in the middle of it."""
    await make(database_url)
    await make(database_url, workspace="other", is_busy=False)
    findings = await check(database_url)
    assert told(findings) == set()
    assert (findings.threads, findings.entries, findings.messages, findings.runs) == (7, 80, 22, 22)
    assert told(await check(database_url, "other", at_rest=True)) == set()


async def test_what_is_owed_at_rest_is_named(database_url: str) -> None:
    """A turn that nobody took, a run that nobody ended, and their messages; a paused thread is at rest."""
    await make(database_url)
    assert told(await check(database_url, WORKSPACE, at_rest=True)) == {
        ("AskedIsTaken", "owed", 1),
        ("AskedIsTaken", "running", 4),
    }


async def test_a_breach_is_a_sentence(sqlite_url: str) -> None:
    """With the invariant's name, the workspace and thread, the seq, and what is wrong."""
    await make(sqlite_url)
    await plant(sqlite_url, ["DELETE FROM entries WHERE thread_key = {t} AND seq = 3"])
    (breach,) = (await check(sqlite_url)).kept
    assert str(breach) == "GapFree: 'w'/'t' at 4: comes right after 2"


async def test_every_breach_is_counted_and_the_first_are_told(sqlite_url: str) -> None:
    """A journal that is broken all over is told in a page."""
    await make(sqlite_url)
    await plant(
        sqlite_url,
        [
            """INSERT INTO messages (thread_key, message_id, seq, sender, mode, digest, created_ms, fate)
            SELECT e.thread_key, f.thread_key || '-' || f.seq || '-' || e.seq, 1000, '', 'steer', '', 1, 'pending'
            FROM entries e, entries f WHERE e.thread_key IN ({t}, {queue})"""
        ],
    )
    findings = await check(sqlite_url)
    assert findings.counted["SentIsTaken"] == 202  # type: ignore[index]  # a StrEnum is its value
    assert len(findings.kept) == 100

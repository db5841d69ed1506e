"""`turnkeeper verify` on real journals: what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.cli.conftest import Command
from tests.verify.journals import make, plant, run
from turnkeeper.cli.exits import ExitCode

LOST = "DELETE FROM entries WHERE thread_key = {t} AND seq = 3"


def journal_of(url: str) -> str:
    """What --journal takes: a file, or a URL."""
    return str(make_url(url).database) if url.startswith("sqlite") else url


def test_a_clean_journal_ends_with_zero(cli: Command, database_url: str) -> None:
    """With what was checked, as a sentence and as JSON."""
    run(make(database_url, is_busy=False))
    ended = cli("verify", "--journal", journal_of(database_url), "--at-rest", on_terminal=True)
    assert ended.out.startswith("checked at rest: 2 threads, 35 entries, 9 messages, 10 runs in ")
    assert (ended.code, ended.out.endswith(" s: nothing is breached\n"), ended.err) == (0, True, "")
    ended = cli("verify", "--journal", journal_of(database_url), "--workspace", "w", "--json")
    summary = json.loads(ended.out)
    assert summary.pop("seconds") > 0
    counts = {"threads": 2, "entries": 35, "messages": 9, "runs": 10}
    assert summary == {"checked": "live", **counts, "breaches": 0, "by_invariant": {}}


def test_a_breach_ends_with_one(cli: Command, database_url: str) -> None:
    """Each on a line with its name, thread and seq, and the sum of them."""
    run(make(database_url))
    run(plant(database_url, [LOST]))
    ended = cli("verify", "--journal", journal_of(database_url), on_terminal=True)
    first, last = ended.out.splitlines()
    assert first == "GapFree: 'w'/'t' at 4: comes right after 2"
    assert last.endswith("1 breach (GapFree 1)")
    assert ended.code == ExitCode.FAILED
    ended = cli("verify", "--journal", journal_of(database_url))
    breach, summary = (json.loads(line) for line in ended.out.splitlines())
    assert breach == {"invariant": "GapFree", "workspace": "w", "thread": "t", "seq": 4, "what": "comes right after 2"}
    assert (summary["breaches"], summary["by_invariant"], ended.code) == (1, {"GapFree": 1}, ExitCode.FAILED)


def test_at_rest_asks_for_more(cli: Command, sqlite_url: str) -> None:
    """What is owed is fine while live, and a breach at rest."""
    run(make(sqlite_url))
    assert cli("verify", "--journal", journal_of(sqlite_url), "--live").code == ExitCode.OK
    ended = cli("verify", "--journal", journal_of(sqlite_url), "--at-rest", on_terminal=True)
    assert ended.code == ExitCode.FAILED
    assert "4 breaches (AskedIsTaken 4)" in ended.out


def test_the_settings_say_which_journal(cli: Command, sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for `run`: the environment, where no flag is given."""
    run(make(sqlite_url))
    monkeypatch.setenv("TURNKEEPER_JOURNAL__SQLITE__PATH", journal_of(sqlite_url))
    assert cli("verify").code == ExitCode.OK


def test_what_can_not_be_reached_ends_with_three(cli: Command, tmp_path: Path) -> None:
    """A file that is not there, a server that does not answer: a sentence."""
    for journal in (str(tmp_path / "none.db"), "postgresql://127.0.0.1:1/none"):
        ended = cli("verify", "--journal", journal)
        assert (ended.code, ended.out, ended.err.count("\n")) == (ExitCode.UNREACHABLE, "", 1)


def test_a_password_is_not_repeated(cli: Command) -> None:
    """Not even where the server can't be reached."""
    ended = cli("verify", "--journal", "postgresql://somebody:hidden@127.0.0.1:1/none")
    assert ended.code == ExitCode.UNREACHABLE
    assert "hidden" not in ended.err


@pytest.mark.parametrize(
    "options", [("--workspace", "none"), ("--at-rest", "more"), ("--journal", "mysql://host/name")]
)
def test_what_can_not_be_meant_ends_with_two(cli: Command, sqlite_url: str, options: tuple[str, ...]) -> None:
    """An unknown workspace, a word too many, another kind of database."""
    run(make(sqlite_url))
    assert cli("verify", "--journal", journal_of(sqlite_url), *options).code == ExitCode.USAGE


def test_another_file_ends_with_two(cli: Command, tmp_path: Path) -> None:
    """It is there, and no journal."""
    other = tmp_path / "other.txt"
    other.write_text("not a database, and long enough to be looked at as one\n" * 20)
    ended = cli("verify", "--journal", str(other))
    assert (ended.code, ended.err) == (ExitCode.USAGE, "turnkeeper: the journal's file is no SQLite database\n")

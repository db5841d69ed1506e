"""The command line as a process: quiet ends, help, completion; and what `run` hands to its wiring."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

import turnkeeper
from tests.api.served import Served, eventually, sent_and_done
from tests.cli.conftest import Command
from turnkeeper.cli.exits import ExitCode
from turnkeeper.settings import Settings

TURNKEEPER = [sys.executable, "-m", "turnkeeper"]


def process(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401 - those of Popen itself
    """Start it."""
    return subprocess.Popen([*TURNKEEPER, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def test_ctrl_c_ends_a_watch_quietly(served: Served, thread: str) -> None:
    """Code 130, and not a word."""
    with httpx.Client(base_url=served.url, trust_env=False) as client:
        sent_and_done(client, thread, "x")
    with process("watch", thread, "--url", served.url) as watching:
        assert watching.stdout is not None
        assert [watching.stdout.readline() != b"" for _ in range(3)] == [True] * 3
        watching.send_signal(signal.SIGINT)
        out, err = watching.communicate(timeout=20)
    assert (watching.returncode, out, err) == (130, b"", b"")


@pytest.mark.parametrize("command", ["log", "watch"])
def test_a_reader_that_goes_ends_it_quietly(served: Served, thread: str, command: str) -> None:
    """As `turnkeeper log t | head -1` does: code 141, and not a word."""
    with httpx.Client(base_url=served.url, trust_env=False) as client:
        sent_and_done(client, thread, {"do": "emit", "count": 2000, "event": "x" * 200})
    with process(command, thread, "--url", served.url) as reading:
        assert reading.stdout is not None
        assert reading.stderr is not None
        reading.stdout.readline()
        reading.stdout.close()
        err = reading.stderr.read()
        assert reading.wait(20) == 141
    assert err == b""
    assert eventually(lambda: served.doors.streams.open == 0)


def test_the_version_is_the_packages() -> None:
    """And nothing is started for it."""
    with process("--version") as asked:
        out, err = asked.communicate(timeout=20)
    assert (out.decode().strip(), err, asked.returncode) == (f"turnkeeper {turnkeeper.__version__}", b"", 0)


def test_the_shell_can_complete() -> None:
    """By the script that the shell is given, and by what it then asks."""
    environment = {
        **os.environ,
        "_TURNKEEPER_COMPLETE": "complete_bash",
        "COMP_WORDS": "turnkeeper th",
        "COMP_CWORD": "1",
    }
    with process(env=environment) as completing:
        out, _ = completing.communicate(timeout=20)
    assert out.split() == [b"threads"]


COMMANDS = [
    "run",
    "send",
    "log",
    "watch",
    "threads",
    "answer",
    "stop",
    "recover",
    "parked list",
    "parked retry",
    "parked drop",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_an_example(cli: Command, command: str) -> None:
    """On one page."""
    ended = cli(*command.split(), "--help")
    assert ended.code == 0
    assert f"turnkeeper {command}" in ended.out.partition("Examples:")[2]


def test_the_top_page_names_every_command_and_exit_code(cli: Command) -> None:
    """It is what one sees first."""
    ended = cli("--help")
    for command in COMMANDS:
        assert command.split()[0] in ended.out
    for code in ("1", "2", "3", "4", "5", "130"):
        assert f" {code} " in ended.out


@pytest.mark.parametrize(
    "arguments", [("nope",), ("send",), ("send", "t", "x", "--mode", "loud"), ("log", "t", "--after", "-1")]
)
def test_a_command_line_that_is_none_is_code_2(cli: Command, arguments: tuple[str, ...]) -> None:
    """And not a traceback."""
    ended = cli(*arguments)
    assert ended.code == ExitCode.USAGE
    assert "Traceback" not in ended.err


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings that `run` hands to its wiring, which here does nothing else."""
    found: list[Settings] = []
    wiring = ModuleType("turnkeeper.wiring")

    def serve(settings: Settings) -> int:
        found.append(settings)
        return 0

    monkeypatch.setattr(wiring, "serve", serve, raising=False)
    monkeypatch.setitem(sys.modules, "turnkeeper.wiring", wiring)
    monkeypatch.setattr(turnkeeper, "wiring", wiring, raising=False)
    return found


def test_run_needs_no_settings_and_says_that_it_is_on_loopback(cli: Command, given: list[Settings]) -> None:
    """On standard error."""
    ended = cli("run")
    assert (ended.code, ended.out) == (0, "")
    assert "loopback only" in ended.err
    assert given == [Settings()]


def test_each_flag_of_run_reaches_its_setting(cli: Command, given: list[Settings]) -> None:
    """All at once."""
    flags = ["--workspace", "w", "--journal", "postgresql://u@h/d", "--host", "::1", "--port", "0", "--exec"]
    numbers = ["--max-turns", "4", "--max-attempts", "5", "--turn-timeout", "6", "--claim-ttl", "7"]
    numbers += ["--recover-interval", "8", "--drain", "9"]
    assert cli("run", *flags, "sh -c 'exit 1'", *numbers).code == 0
    (settings,) = given
    assert (settings.workspace, settings.listen.host, settings.listen.port) == ("w", "::1", 0)
    assert settings.journal.postgres is not None
    assert settings.journal.postgres.url.get_secret_value() == "postgresql://u@h/d"
    assert settings.handler.exec is not None
    assert settings.handler.exec.command == ("sh", "-c", "exit 1")
    assert (settings.runner.max_turns, settings.turn.max_attempts, settings.turn.timeout_seconds) == (4, 5, 6)
    assert (settings.claim_ttl_seconds, settings.recover.interval_seconds, settings.runner.drain_seconds) == (7, 8, 9)


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        (["--handler", "echo"], "echo"),
        (["--echo-delay", "2"], "echo"),
        (["--python", "a.b:c"], "python"),
        (["--http", "http://x"], "http"),
        (["--chat", "http://x/v1", "--model", "m"], "chat"),
    ],
)
def test_each_handler_has_its_flag(cli: Command, given: list[Settings], flags: list[str], kind: str) -> None:
    """And it goes over the environment's."""
    os.environ["TURNKEEPER_HANDLER__EXEC__COMMAND"] = "cat"
    try:
        assert cli("run", *flags).code == 0
    finally:
        del os.environ["TURNKEEPER_HANDLER__EXEC__COMMAND"]
    assert [settings.handler.kind for settings in given] == [kind]


@pytest.mark.parametrize(
    ("flags", "hint"),
    [
        (["--http", "http://x", "--exec", "cat"], "more than one handler"),
        (["--handler", "magic"], "one of echo"),
        (["--handler", "exec"], "handler.exec.command"),
        (["--chat", "http://x"], "handler.chat.model"),
        (["--model", "m"], "handler.chat.base_url"),
        (["--port", "70000"], "--port"),
        (["--host", "192.0.2.1"], "auth.tokens"),
        (["--journal", "mysql://x"], "postgresql://"),
        (["--config", "/nowhere/w.toml"], "/nowhere/w.toml"),
    ],
)
def test_what_run_cannot_use_is_code_2_and_nothing_is_started(
    cli: Command, given: list[Settings], flags: list[str], hint: str
) -> None:
    """Told in a sentence."""
    ended = cli("run", *flags)
    assert ended.code == ExitCode.USAGE
    assert hint in ended.err
    assert "Traceback" not in ended.err
    assert given == []


def test_run_serves_and_ends_at_a_signal_with_a_stream_open(cli: Command, tmp_path: Path) -> None:
    """The real thing, with no settings but a free port: a message is taken, and SIGTERM ends it with code 0."""
    with process("run", "--port", "0", cwd=tmp_path) as running:
        assert running.stderr is not None
        greeting = next(line for line in running.stderr if b"http://" in line).decode()
        url = re.findall(r"http://[\d.:]+", greeting)[0]
        told = json.loads(cli("send", "alice", "hello", "--wait", "--url", url).out)
        assert (told["outcome"], told["answer"]) == ("completed", "hello")
        taken = cli("run", "--port", url.rpartition(":")[2])
        with process("watch", "alice", "--url", url) as watching:
            assert watching.stdout is not None
            watching.stdout.readline()
            running.send_signal(signal.SIGTERM)
            assert running.wait(20) == 0
            watching.send_signal(signal.SIGINT)
            watching.communicate(timeout=20)
    assert (tmp_path / "turnkeeper.db").exists()
    assert taken.code == ExitCode.USAGE
    assert "--port" in taken.err

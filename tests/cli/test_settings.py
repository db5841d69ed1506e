"""The settings: where they come from, which place wins, and what is said of those that can't be used."""

import os
from pathlib import Path
from typing import Any

import pytest

from turnkeeper.errors import SettingsError
from turnkeeper.settings import Settings, load_settings

TOKEN = "0123456789abcdef"  # noqa: S105 - made up for these tests


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the machine's own."""
    for name in [name for name in os.environ if name.startswith("TURNKEEPER_")]:
        monkeypatch.delenv(name)


def refused(config: Path | None = None, flags: dict[str, Any] | None = None) -> str:
    """The text of the refusal."""
    with pytest.raises(SettingsError) as caught:
        load_settings(config, flags)
    return str(caught.value)


def test_no_settings_at_all_make_an_echo_on_loopback_with_a_file() -> None:
    """What a newcomer gets by `turnkeeper run`."""
    settings = load_settings()
    assert settings.handler.kind == "echo"
    assert settings.journal.kind == "sqlite"
    assert settings.journal.sqlite is not None
    assert settings.journal.sqlite.path == Path("turnkeeper.db")
    assert (settings.listen.host, settings.listen.port) == ("127.0.0.1", 8765)
    assert (settings.claim_ttl_seconds, settings.turn.max_attempts, settings.runner.max_turns) == (30.0, 3, 32)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("w.toml", 'claim_ttl_seconds = 10\n[turn]\nmax_attempts = 5\n[handler.exec]\ncommand = ["cat"]\n'),
        ("w.yaml", "claim_ttl_seconds: 10\nturn: {max_attempts: 5}\nhandler: {exec: {command: [cat]}}\n"),
        ("w.yml", "claim_ttl_seconds: 10\nturn: {max_attempts: 5}\nhandler: {exec: {command: cat}}\n"),
    ],
)
def test_the_environment_goes_over_the_file_and_flags_over_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    """One setting from each of the four places; the others keep what a lower one says."""
    config = tmp_path / name
    config.write_text(text)
    monkeypatch.setenv("TURNKEEPER_TURN__MAX_ATTEMPTS", "6")
    monkeypatch.setenv("TURNKEEPER_RUNNER__MAX_TURNS", "7")
    settings = load_settings(config, {"runner": {"max_turns": 8}})
    assert settings.claim_ttl_seconds == 10
    assert settings.turn.max_attempts == 6
    assert settings.runner.max_turns == 8
    assert settings.turn.timeout_seconds == 3600
    assert settings.handler.exec is not None
    assert settings.handler.exec.command == ("cat",)


def test_the_file_may_be_named_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a container does."""
    config = tmp_path / "w.toml"
    config.write_text('workspace = "shop"\n')
    monkeypatch.setenv("TURNKEEPER_CONFIG", str(config))
    assert load_settings().workspace == "shop"


def test_a_higher_place_that_names_a_handler_replaces_the_lower_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--handler echo` must be enough to try out a workspace whose file says otherwise."""
    config = tmp_path / "w.toml"
    config.write_text(
        '[handler.exec]\ncommand = ["cat"]\ndirectory = "/"\n[journal.postgres]\nurl = "postgresql://x"\n'
    )
    monkeypatch.setenv("TURNKEEPER_JOURNAL__SQLITE__PATH", "other.db")
    settings = load_settings(config, {"handler": {"echo": {}}})
    assert settings.handler.kind == "echo"
    assert settings.handler.exec is None
    assert settings.journal.kind == "sqlite"


def test_a_higher_place_that_adds_to_the_same_handler_keeps_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key of the file and a secret of the environment belong together."""
    config = tmp_path / "w.toml"
    config.write_text('[handler.chat]\nbase_url = "http://x/v1"\nmodel = "m"\n')
    monkeypatch.setenv("TURNKEEPER_HANDLER__CHAT__API_KEY", "key")
    chat = load_settings(config).handler.chat
    assert chat is not None
    assert chat.api_key is not None
    assert (chat.model, chat.api_key.get_secret_value()) == ("m", "key")


@pytest.mark.parametrize(
    ("text", "command"),
    [("python3 -m 'my agent'", ("python3", "-m", "my agent")), ('["a b", "c"]', ("a b", "c"))],
)
def test_a_command_in_one_line_is_split_as_a_shell_would_or_is_json(
    monkeypatch: pytest.MonkeyPatch, text: str, command: tuple[str, ...]
) -> None:
    """The environment holds only text."""
    monkeypatch.setenv("TURNKEEPER_HANDLER__EXEC__COMMAND", text)
    settings = load_settings()
    assert settings.handler.exec is not None
    assert settings.handler.exec.command == command


def test_tokens_in_one_line_are_split_at_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two are valid while one is being replaced by the other."""
    monkeypatch.setenv("TURNKEEPER_AUTH__TOKENS", f"{TOKEN}, {TOKEN[::-1]}")
    tokens = [token.get_secret_value() for token in load_settings().auth.tokens]
    assert tokens == [TOKEN, TOKEN[::-1]]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "example.org", "localhost.example.org"])  # noqa: S104 - that it is refused is the point
def test_without_tokens_only_loopback_may_be_listened_on(host: str) -> None:
    """Anybody who reaches the port could read and write every thread."""
    told = refused(flags={"listen": {"host": host}})
    assert "listen.host" in told
    assert "TURNKEEPER_AUTH__TOKENS" in told
    assert load_settings(flags={"listen": {"host": host}, "auth": {"tokens": [TOKEN]}}).listen.host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost", "LOCALHOST."])
def test_loopback_needs_no_token(host: str) -> None:
    """Each way to say this very machine."""
    assert load_settings(flags={"listen": {"host": host}}).listen.host == host


REFUSALS: list[tuple[dict[str, Any], str, str]] = [
    ({"listen": {"port": 70000}}, "listen.port", "--port"),
    ({"listen": {"port": -1}}, "listen.port", "--port"),
    ({"claim_ttl_seconds": 0.1}, "claim_ttl_seconds", "--claim-ttl"),
    ({"claim_ttl_seconds": 601}, "claim_ttl_seconds", "--claim-ttl"),
    ({"claim_ttl_seconds": float("nan")}, "claim_ttl_seconds", "finite"),
    ({"turn": {"timeout_seconds": float("inf")}}, "turn.timeout_seconds", "finite"),
    ({"turn": {"max_attempts": 0}}, "turn.max_attempts", "--max-attempts"),
    ({"turn": {"progress_seconds": 0}}, "turn.progress_seconds", "TURNKEEPER_TURN__PROGRESS_SECONDS"),
    ({"runner": {"max_turns": 0}}, "runner.max_turns", "--max-turns"),
    ({"runner": {"drain_seconds": -1}}, "runner.drain_seconds", "--drain"),
    ({"recover": {"interval_seconds": 0}}, "recover.interval_seconds", "--recover-interval"),
    ({"handler": {"exec": {}}}, "handler.exec.command", "must be set"),
    ({"handler": {"exec": {"command": []}}}, "handler.exec.command", "at least 1"),
    ({"handler": {"exec": {"command": "a 'b"}}}, "handler.exec.command", "quotation"),
    ({"handler": {"python": {"entry_point": "module"}}}, "handler.python.entry_point", "module:name"),
    ({"handler": {"http": {"url": "ftp://x"}}}, "handler.http.url", "http://"),
    ({"handler": {"http": {"url": "http://x", "headers": {"a": "b\r\nc: d"}}}}, "handler.http.headers", "one line"),
    ({"handler": {"chat": {"base_url": "http://x", "model": "m", "temperature": 3}}}, "handler.chat.temperature", "2"),
    ({"handler": {"echo": {}, "http": {"url": "http://x"}}}, "handler", "exactly one"),
    ({"journal": {"postgres": {"url": "mysql://x"}}}, "journal.postgres.url", "postgresql://"),
    ({"journal": {"sqlite": {"path": ":memory:"}}}, "journal.sqlite.path", "no promise"),
    ({"workspace": "a\nb"}, "workspace", "control characters"),
    ({"auth": {"tokens": ["short"]}}, "auth.tokens", "16 to 4096"),
    ({"auth": {"tokens": [f"{TOKEN}é"]}}, "auth.tokens", "visible ASCII"),
    ({"trun": {}}, "trun", "no such setting"),
    ({"turn": {"attempts": 1}}, "turn.attempts", "no such setting"),
]


@pytest.mark.parametrize(("flags", "name", "hint"), REFUSALS, ids=[f"{name}-{hint}" for _, name, hint in REFUSALS])
def test_what_cannot_be_used_is_refused_by_its_name_with_what_would_do(
    flags: dict[str, Any], name: str, hint: str
) -> None:
    """A line for a person, none of a library's."""
    told = refused(flags=flags)
    assert told.startswith(f"{name}:")
    assert hint in told
    assert "pydantic" not in told
    assert "validation error" not in told


@pytest.mark.parametrize(
    "flags",
    [
        {"journal": {"postgres": {"url": "mysql://bob:hunter2hunter2@x"}}},
        {"auth": {"tokens": ["hunter2"]}},
        {"handler": {"http": {"url": "http://x", "headers": {"Authorization": "hunter2\n"}}}},
        {"handler": {"exec": {"command": "x", "environment": {"PASSWORD": 2, "hunter2": []}}}},
    ],
)
def test_a_refusal_never_repeats_a_secret(flags: dict[str, Any]) -> None:
    """It ends in a log."""
    assert "hunter2" not in refused(flags=flags)


@pytest.mark.parametrize(
    ("name", "content", "hint"),
    [
        ("w.toml", b"a = ", "not TOML"),
        ("w.yaml", b"a: [", "not YAML"),
        ("w.yaml", b"- a", "by name"),
        ("w.toml", b"\xff", "not TOML"),
        ("w.yaml", b"#" * 1_048_577, "over"),
    ],
)
def test_a_file_that_is_none_is_refused_by_its_name(tmp_path: Path, name: str, content: bytes, hint: str) -> None:
    """Whatever is in it."""
    config = tmp_path / name
    config.write_bytes(content)
    told = refused(config)
    assert name in told
    assert hint in told


def test_a_file_that_is_not_there_is_refused_by_its_name(tmp_path: Path) -> None:
    """And is not made up for by the defaults."""
    assert "gone.toml" in refused(tmp_path / "gone.toml")


def test_an_empty_file_sets_nothing(tmp_path: Path) -> None:
    """YAML reads it as null."""
    config = tmp_path / "w.yaml"
    config.write_text("")
    assert load_settings(config) == load_settings()


def test_a_misspelt_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would otherwise be believed to work."""
    monkeypatch.setenv("TURNKEEPER_TRUN__MAX_ATTEMPTS", "5")
    told = refused()
    assert "TURNKEEPER_TRUN__MAX_ATTEMPTS" in told
    assert "turn" in told


def test_what_kubernetes_sets_for_a_service_called_turnkeeper_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """`TURNKEEPER_PORT` is then a URL."""
    monkeypatch.setenv("TURNKEEPER_PORT", "tcp://10.0.0.1:8765")
    monkeypatch.setenv("TURNKEEPER_SERVICE_HOST", "10.0.0.1")
    assert load_settings() == Settings()

"""The settings as models: each with its default and its bounds, and what is wrong with a value said in its words."""

from __future__ import annotations

import ipaddress
import json
import shlex
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr
from pydantic import model_validator as checked
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from turnkeeper.core.claim import SESSION_SECONDS_MAX
from turnkeeper.core.names import check_id
from turnkeeper.errors import InvalidIdError

PREFIX = "TURNKEEPER_"
"""Of each name in the environment; parts are joined by two underscores."""


def is_loopback(host: str) -> bool:
    """Whether a name can only mean this very machine."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _words(value: object) -> object:
    """Take a command or list from one line of text: as JSON, or as a shell would split it."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return json.loads(value)
    return shlex.split(value)


def _commas(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _pairs(value: object) -> object:
    return json.loads(value) if isinstance(value, str) else value


def _http_url(value: str) -> str:
    if not value.startswith(("http://", "https://")):
        msg = "must be a URL that starts with http:// or https://"
        raise ValueError(msg)
    return value


def _entry_point(value: str) -> str:
    module, _, name = value.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        msg = "must be module:name, such as my_agent.turns:turn"
        raise ValueError(msg)
    return value


def _postgres_url(value: SecretStr) -> SecretStr:
    if not value.get_secret_value().startswith(("postgresql://", "postgres://", "postgresql+asyncpg://")):
        msg = "must be a URL that starts with postgresql://"
        raise ValueError(msg)
    return value


def _file(value: Path) -> Path:
    if str(value) in {"", ".", ":memory:"} or value.is_dir():
        msg = "must be the path of a file: a journal in memory would keep no promise"
        raise ValueError(msg)
    return value


def _token(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if not 16 <= len(text) <= 4096 or not all("!" <= char <= "~" for char in text):  # noqa: PLR2004 - stated below
        msg = "a token must be 16 to 4096 visible ASCII characters, for example from: openssl rand -hex 32"
        raise ValueError(msg)
    return value


def _header(value: str) -> str:
    if not all(" " <= char <= "~" for char in value):
        msg = "a header must be visible ASCII characters on one line"
        raise ValueError(msg)
    return value


Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=4096)]
HeaderText: TypeAlias = Annotated[str, Field(min_length=1, max_length=8192), AfterValidator(_header)]
HttpUrl: TypeAlias = Annotated[str, Field(max_length=4096), AfterValidator(_http_url)]


class Section(BaseModel):
    """A part of the settings: nothing unknown in it, no number that is none."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ListenSettings(Section):
    """Where the API listens."""

    host: Text = "127.0.0.1"
    port: int = Field(8765, ge=0, le=65535)


class SqliteSettings(Section):
    """A journal in one file, made where it is not there."""

    path: Annotated[Path, AfterValidator(_file)] = Path("turnkeeper.db")


class PostgresSettings(Section):
    """A journal in PostgreSQL."""

    url: Annotated[SecretStr, AfterValidator(_postgres_url)]


class _OneOf(Section):
    @property
    def kind(self) -> str:
        """Which one is set."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)

    @checked(mode="after")
    def _is_one(self) -> _OneOf:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            msg = f"set exactly one of {', '.join(type(self).model_fields)}; set are: {', '.join(given) or 'none'}"
            raise ValueError(msg)
        return self


class JournalSettings(_OneOf):
    """Where the log lives."""

    sqlite: SqliteSettings | None = None
    postgres: PostgresSettings | None = None


class EchoSettings(Section):
    """Answers with what was sent."""

    delay_seconds: float = Field(0.0, ge=0, le=3600)


class PythonSettings(Section):
    """Calls a coroutine function in this process."""

    entry_point: Annotated[Text, AfterValidator(_entry_point)]
    search_path: Annotated[tuple[Text, ...], NoDecode, BeforeValidator(_words), Field(max_length=100)] = ()


class ExecSettings(Section):
    """Runs a command for each turn."""

    command: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_words), Field(min_length=1, max_length=1000)]
    environment: Annotated[dict[str, str], NoDecode, BeforeValidator(_pairs), Field(max_length=1000)] = {}
    directory: Path | None = None
    kill_grace_seconds: float = Field(5.0, ge=0, le=600)


class HttpSettings(Section):
    """POSTs each turn to a server."""

    url: HttpUrl
    headers: Annotated[dict[HeaderText, HeaderText], NoDecode, BeforeValidator(_pairs), Field(max_length=100)] = {}
    timeout_seconds: float = Field(60.0, gt=0, le=86_400)


class ChatSettings(Section):
    """Asks an OpenAI-compatible server."""

    base_url: HttpUrl
    model: Text
    api_key: SecretStr | None = None
    system_prompt: str = Field("", max_length=1_000_000)
    temperature: float | None = Field(None, ge=0, le=2)
    history_limit: int = Field(200, ge=0, le=10_000)


class HandlerSettings(_OneOf):
    """What a turn does."""

    python: PythonSettings | None = None
    exec: ExecSettings | None = None
    http: HttpSettings | None = None
    chat: ChatSettings | None = None
    echo: EchoSettings | None = None


class RecoverSettings(Section):
    """The schedule of the sweep."""

    interval_seconds: float = Field(10.0, ge=0.1, le=3600)


class TurnSettings(Section):
    """The deadlines of a run, and how many deaths a turn may cost."""

    timeout_seconds: float = Field(3600.0, gt=0, le=604_800)
    progress_seconds: float | None = Field(None, gt=0, le=604_800)
    max_attempts: int = Field(3, ge=1, le=100)


class RunnerSettings(Section):
    """How much one runner takes, and how long it waits as it stops."""

    max_turns: int = Field(32, ge=1, le=10_000)
    drain_seconds: float = Field(20.0, ge=0, le=3600)
    leave_seconds: float = Field(
        0.0, ge=0, le=60, description="How long messages are still accepted, for others to take, once it is to stop."
    )
    peers: bool = Field(
        default=True, description="Hold a connection to the other runners, so that a death is noticed at once."
    )


class AuthSettings(Section):
    """Who may call the API. Without tokens it listens on loopback only."""

    tokens: Annotated[
        tuple[Annotated[SecretStr, AfterValidator(_token)], ...],
        NoDecode,
        BeforeValidator(_commas),
        Field(max_length=100),
    ] = ()


def _name(value: str) -> str:
    try:
        return check_id(value, "workspace")
    except InvalidIdError as error:
        raise ValueError(str(error)) from None


class Settings(BaseSettings):
    """All that one runner is told. Made by `load_settings`, or by hand in a test: it reads nothing by itself."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, env_prefix=PREFIX, env_nested_delimiter="__"
    )

    workspace: Annotated[str, AfterValidator(_name)] = "default"
    listen: ListenSettings = ListenSettings()
    journal: JournalSettings = JournalSettings(sqlite=SqliteSettings())
    handler: HandlerSettings = HandlerSettings(echo=EchoSettings())
    claim_ttl_seconds: float = Field(30.0, ge=1, le=SESSION_SECONDS_MAX)
    recover: RecoverSettings = RecoverSettings()
    turn: TurnSettings = TurnSettings()
    runner: RunnerSettings = RunnerSettings()
    auth: AuthSettings = AuthSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take only what is given: `load_settings` has merged the places by the rule of this module."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)

    @checked(mode="after")
    def _is_guarded(self) -> Settings:
        if not self.auth.tokens and not is_loopback(self.listen.host):
            msg = (
                f"listen.host {self.listen.host} can be reached from other machines, and there are no auth.tokens: "
                f"set {PREFIX}AUTH__TOKENS, or listen on 127.0.0.1"
            )
            raise ValueError(msg)
        return self

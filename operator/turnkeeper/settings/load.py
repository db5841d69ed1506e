"""Gathers the settings from their four places, and says in plain words what can't be used."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError
from pydantic_settings import EnvSettingsSource
from pydantic_settings import SettingsError as UnreadableError

from turnkeeper.errors import SettingsError
from turnkeeper.settings.models import PREFIX, Settings

CONFIG_VARIABLE = "TURNKEEPER_CONFIG"

FILE_BYTES_MAX = 1_048_576
"""Largest settings file. Arbitrary: a thousand times a long one."""

_KINDS: Final = {"handler": ("python", "exec", "http", "chat", "echo"), "journal": ("sqlite", "postgres")}
_FLAGS: Final = {
    "workspace": "--workspace",
    "listen.host": "--host",
    "listen.port": "--port",
    "journal": "--journal",
    "handler": "--handler",
    "claim_ttl_seconds": "--claim-ttl",
    "recover.interval_seconds": "--recover-interval",
    "turn.timeout_seconds": "--turn-timeout",
    "turn.max_attempts": "--max-attempts",
    "runner.max_turns": "--max-turns",
    "runner.drain_seconds": "--drain",
}
_MAPPINGS: Final = ("handler.http.headers", "handler.exec.environment")
_SECRET: Final = (
    "auth",
    "journal.postgres",
    "handler.chat.api_key",
    "handler.http.headers",
    "handler.exec.environment",
)


def load_settings(config: Path | None = None, flags: Mapping[str, Any] | None = None) -> Settings:
    """Return the settings from the file, the environment and the flags (nested like the file).

    Raises SettingsError, which names each setting that can't be used and what would do.
    """
    if config is None and os.environ.get(CONFIG_VARIABLE):
        config = Path(os.environ[CONFIG_VARIABLE])
    merged: dict[str, Any] = {}
    for place in (read_file(config) if config else {}, _environment(), flags or {}):
        merged = _over(merged, place)
    try:
        return Settings(**merged)
    except ValidationError as error:
        found = error.errors(include_url=False)
        raise SettingsError("\n".join(dict.fromkeys(_sentence(each) for each in found))) from None


def read_file(path: Path) -> dict[str, Any]:
    """Return a settings file's contents; YAML where its name ends in .yaml or .yml, else TOML. Raises SettingsError."""
    try:
        raw = path.read_bytes()
        if len(raw) > FILE_BYTES_MAX:
            raise SettingsError(f"the settings file {path} is over {FILE_BYTES_MAX} bytes: is it the right one?")
        text = raw.decode("utf-8")
        content = yaml.safe_load(text) if path.suffix in {".yaml", ".yml"} else tomllib.loads(text)
    except OSError as error:
        raise SettingsError(f"the settings file {path} can't be read: {error.strerror}") from None
    except (UnicodeDecodeError, yaml.YAMLError, tomllib.TOMLDecodeError) as error:
        form = "YAML" if path.suffix in {".yaml", ".yml"} else "TOML"
        raise SettingsError(f"the settings file {path} is not {form}: {' '.join(str(error).split())}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise SettingsError(f"the settings file {path} must hold settings by name, such as claim_ttl_seconds: 30")
    return content


def _environment() -> dict[str, Any]:
    for name in os.environ:
        # Only nested names: Kubernetes itself sets TURNKEEPER_PORT and the like for a Service called turnkeeper.
        first, nested, _ = name.removeprefix(PREFIX).partition("__")
        if name.startswith(PREFIX) and nested and first.lower() not in Settings.model_fields:
            known = ", ".join(Settings.model_fields)
            raise SettingsError(f"{name} in the environment: there is no setting {first.lower()}; there are: {known}")
    try:
        return EnvSettingsSource(Settings)()
    except UnreadableError as error:
        raise SettingsError(f"the environment can't be read: {error}") from None


def _over(low: Mapping[str, Any], high: Mapping[str, Any], at: str = "") -> dict[str, Any]:
    """Return `low` with `high` laid over it; of the kinds of a handler or journal, only those that `high` names."""
    kept = dict(low)
    if at in _KINDS and any(kind in high for kind in _KINDS[at]):
        kept = {name: value for name, value in low.items() if name in high or name not in _KINDS[at]}
    for name, value in high.items():
        path = f"{at}.{name}" if at else str(name)
        below = kept.get(name)
        kept[name] = _over(below, value, path) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return kept


def _sentence(error: Mapping[str, Any]) -> str:
    path = ".".join(str(part) for part in error["loc"])
    if not path:
        return str(error["ctx"]["error"])
    told = str(error["ctx"]["error"]) if error["type"] == "value_error" else str(error["msg"])
    if error["type"] == "extra_forbidden":
        return f"{path}: there is no such setting"
    if error["type"] == "missing":
        told = "it must be set"
    path = ".".join(part for part in path.split(".") if not part.isdigit())  # a list is set as a whole
    path = next((whole for whole in _MAPPINGS if path.startswith(whole)), path)
    given = error["input"]
    is_shown = isinstance(given, str | int | float) and not path.startswith(_SECRET)
    shown = f" (it is {given!r:.80})" if is_shown else ""
    names = [f"{path} in the file", f"{PREFIX}{path.upper().replace('.', '__')} in the environment"]
    flag = _FLAGS.get(path) or _FLAGS.get(path.partition(".")[0] if path.startswith(tuple(_KINDS)) else "")
    names += [flag] if flag else []
    return f"{path}: {told[:1].lower()}{told[1:]}{shown}. Set it by {', '.join(names[:-1])} or {names[-1]}"

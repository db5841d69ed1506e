"""What `turnkeeper run` is told: models shaped like the Workspace's spec, filled from four places.

    defaults  <  file (TOML or YAML)  <  environment (TURNKEEPER_…, nested by __)  <  flags

A place that names a handler or a journal replaces the kind that a lower one named, so that `--handler echo` is enough
to try out a workspace whose file says otherwise. Every number and list has bounds, and what can't be used is refused
at the start, by the setting's name and with what would do; a secret is never repeated.
"""

from __future__ import annotations

from turnkeeper.settings.load import CONFIG_VARIABLE, load_settings
from turnkeeper.settings.models import (
    AuthSettings,
    ChatSettings,
    EchoSettings,
    ExecSettings,
    HandlerSettings,
    HttpSettings,
    JournalSettings,
    ListenSettings,
    PostgresSettings,
    PythonSettings,
    RecoverSettings,
    RunnerSettings,
    Settings,
    SqliteSettings,
    TurnSettings,
    is_loopback,
)

__all__ = [
    "CONFIG_VARIABLE",
    "AuthSettings",
    "ChatSettings",
    "EchoSettings",
    "ExecSettings",
    "HandlerSettings",
    "HttpSettings",
    "JournalSettings",
    "ListenSettings",
    "PostgresSettings",
    "PythonSettings",
    "RecoverSettings",
    "RunnerSettings",
    "Settings",
    "SqliteSettings",
    "TurnSettings",
    "is_loopback",
    "load_settings",
]

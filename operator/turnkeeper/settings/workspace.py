"""The Workspace resource: a set of threads with one journal and one set of runners.

The one source of `crds/turnkeeper.dev_workspaces.yaml`, of the chart's copy and of what the controller reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import ConfigDict, Field, ValidationError

from turnkeeper.errors import SettingsError
from turnkeeper.settings.workspace_handlers import HandlerSpec
from turnkeeper.settings.workspace_parts import ObjectName, Part, Quantity, SecretKey, exactly_one, rules
from turnkeeper.settings.workspace_runner import OWN_FOLDER, RunnerSpec

GROUP: Final = "turnkeeper.dev"
VERSION: Final = "v1alpha1"
KIND: Final = "Workspace"

NAME_RULE: Final = (
    "self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    "a Workspace's name has up to 40 of a-z, 0-9 and -, and begins with a letter: its Service is named for it",
)

OWN_SWEEP_INTERVALS: Final = 10
"""Runners sweep by themselves too, this much more rarely than the controller asks them to: what was asked is taken
although there has been no controller for a while."""

OWN_SWEEP_SECONDS_MAX: Final = 3600
"""The runner's own bound of that interval."""

LEAVE_SECONDS: Final = 1
"""How long a runner that is to stop still accepts messages: what routes them to it learns of its end meanwhile. The
only runner of a SQLite journal has no other to leave them to."""


class SqliteSpec(Part):
    """A log in one file on a volume of its own, for exactly one runner."""

    size: Quantity = Field("1Gi", description="The volume's size. It can't be changed here later.")
    storage_class_name: ObjectName | None = Field(
        None, description="The volume's class; the cluster's own if not set. It can't be changed later."
    )
    when_deleted: Literal["Retain", "Delete"] = Field(
        "Retain", description="What becomes of the volume, and of the log on it, when the Workspace is deleted."
    )


class PostgresSpec(Part):
    """A log in PostgreSQL, for any number of runners. Several Workspaces may share a database."""

    url_secret_ref: SecretKey = Field(description="The database's URL (postgresql://…), in a Secret.")


class JournalSpec(Part):
    """Where the log lives: exactly one of these, and the same for good."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            exactly_one(("sqlite", "postgres")),
            (
                "has(self.sqlite) == has(oldSelf.sqlite)",
                "the journal's kind can't be changed: the log would stay behind. Make another Workspace",
            ),
            (
                (
                    "!has(self.sqlite) || !has(oldSelf.sqlite) || (self.sqlite.size == oldSelf.sqlite.size"
                    " && has(self.sqlite.storageClassName) == has(oldSelf.sqlite.storageClassName)"
                    " && (!has(self.sqlite.storageClassName)"
                    " || self.sqlite.storageClassName == oldSelf.sqlite.storageClassName))"
                ),
                "the volume's size and class can't be changed here: change its PersistentVolumeClaim",
            ),
        )
    )

    sqlite: SqliteSpec | None = Field(None, description="One file on a volume; exactly one runner.")
    postgres: PostgresSpec | None = Field(None, description="PostgreSQL; any number of runners.")


class RecoverSpec(Part):
    """The sweep: every runner is asked to take what is owed, so that nothing waits for a runner that is gone."""

    interval_seconds: int = Field(30, ge=1, le=3600, description="From one sweep to the next.")


class TurnSpec(Part):
    """The deadlines of a run, and how many deaths a turn may cost."""

    timeout_seconds: int = Field(3600, ge=1, le=604_800, description="The longest that a run may take.")
    progress_seconds: int | None = Field(
        None, ge=1, le=604_800, description="The longest that a run may go without a sign of progress."
    )
    max_attempts: int = Field(
        3, ge=1, le=100, description="Deaths of runners after which a turn is set aside (parked)."
    )


class AuthSpec(Part):
    """Who may call the API."""

    tokens_secret_ref: SecretKey | None = Field(
        None, description="Tokens of the API, separated by commas, in a Secret. A Secret is made if not set."
    )


class WorkspaceSpec(Part):
    """What a Workspace is to be."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.journal.sqlite) || self.runner.replicas <= 1",
                "a journal in SQLite is for one runner: set runner.replicas to 1, or use journal.postgres",
            )
        )
    )

    claim_ttl_seconds: int = Field(
        30,
        alias="claimTTLSeconds",
        ge=3,
        le=600,
        description="How long a runner that gives no sign of life keeps its threads.",
    )
    journal: JournalSpec = Field(description="Where the log lives: exactly one of sqlite, postgres.")
    handler: HandlerSpec = Field(description="What a turn does: exactly one of python, exec, http, chat, echo.")
    recover: RecoverSpec = Field(RecoverSpec(), description="The schedule of the sweep.")
    turn: TurnSpec = Field(TurnSpec(), description="The deadlines of a run.")
    runner: RunnerSpec = Field(RunnerSpec(), description="The pods that take the turns.")
    auth: AuthSpec = Field(AuthSpec(), description="Who may call the API.")
    suspend: bool = Field(
        default=False, description="Stop every runner and keep everything: what is asked waits until this is off again."
    )

    def settings(self, uid: str) -> dict[str, Any]:
        """Return what a runner is told by its file, in the shape of `Settings`; secrets reach it by other ways."""
        sqlite = {"journal": {"sqlite": {"path": f"{OWN_FOLDER}/journal.sqlite"}}} if self.journal.sqlite else {}
        own_sweep = min(OWN_SWEEP_INTERVALS * self.recover.interval_seconds, OWN_SWEEP_SECONDS_MAX)
        return {
            "workspace": uid,
            **sqlite,
            "handler": self.handler.settings(),
            "claim_ttl_seconds": self.claim_ttl_seconds,
            "recover": {"interval_seconds": own_sweep},
            "turn": self.turn.model_dump(mode="json", exclude_none=True),
            "runner": {
                "max_turns": self.runner.max_turns,
                "drain_seconds": self.runner.drain_seconds,
                "leave_seconds": 0 if self.journal.sqlite else LEAVE_SECONDS,
                "peers": self.runner.peers,
            },
        }


def read_spec(workspace: Mapping[str, Any]) -> WorkspaceSpec:
    """Return a Workspace's spec as the API server gave it. Raises SettingsError, which names each field."""
    try:
        return WorkspaceSpec.model_validate(workspace.get("spec", {}))
    except ValidationError as error:
        found = (
            f"spec.{'.'.join(str(part) for part in each['loc'])}: {each['msg']}"
            for each in error.errors(include_url=False, include_input=False)
        )
        raise SettingsError("; ".join(found)) from None

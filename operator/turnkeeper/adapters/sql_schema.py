"""Bringing a database's tables up to date, whichever of several processes starts first."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from turnkeeper.errors import SettingsError

_LOCK = 0x7475_726E_6B65_6570
"""The advisory lock's number on PostgreSQL: "turnkeep" in ASCII. SQLite's writer lock is enough by itself."""


def migrate(connection: Connection) -> None:
    """Bring the tables to the newest revision, in the caller's transaction.

    Raises SettingsError where a newer turnkeeper has been at the database: an older one must not write to it.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK})
    config = alembic_config(connection)
    script = ScriptDirectory.from_config(config)
    current = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()
    if current == script.get_current_head():
        return
    if current is not None and current not in {revision.revision for revision in script.walk_revisions()}:
        msg = f"the journal's tables are at revision {current}, made by a newer turnkeeper: run that one, or a newer"
        raise SettingsError(msg)
    command.upgrade(config, "head")


def check_revision(connection: Connection) -> None:
    """Raise SettingsError where the tables are not there, or not those of this very version."""
    script = ScriptDirectory.from_config(alembic_config(connection))
    current = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()
    if current is None:
        raise SettingsError("there are no tables of turnkeeper in this database: it is no journal, or never was opened")
    if current != script.get_current_head():
        msg = f"the journal's tables are at revision {current}, and this turnkeeper reads {script.get_current_head()}"
        raise SettingsError(msg)


VERSION_TABLE = "turnkeeper_revision"


def alembic_config(connection: Connection) -> Config:
    """Return Alembic's configuration for the revisions that ship in this package."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config

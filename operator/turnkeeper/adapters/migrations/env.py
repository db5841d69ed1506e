"""Runs revisions on the connection that `sql_schema.migrate` hands over, in its transaction."""

from alembic import context

from turnkeeper.adapters.sql_schema import VERSION_TABLE
from turnkeeper.adapters.sql_tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=True,  # both databases can; the caller's transaction is the one
)
with context.begin_transaction():
    context.run_migrations()

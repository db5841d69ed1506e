"""Where a session's process answers its peers."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; sessions that are there have no address."""
    op.add_column("sessions", sa.Column("address", sa.Text(), server_default="", nullable=False))

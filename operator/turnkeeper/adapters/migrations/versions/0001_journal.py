"""The journal and SQL claims as they began."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make every table."""
    _make_claims()
    _make_entries()
    _make_messages()
    _make_parked()
    _make_questions()
    _make_runs()
    _make_sessions()
    _make_steps()
    _make_threads()


def _make_claims() -> None:
    op.create_table(
        "claims",
        sa.Column("workspace", ID, nullable=False),
        sa.Column("thread_id", ID, nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("token", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("nonce", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("workspace", "thread_id", name=op.f("pk_claims")),
    )


def _make_entries() -> None:
    op.create_table(
        "entries",
        sa.Column("thread_key", KEY, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.Text(), server_default="", nullable=False),
        sa.Column("token", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("body", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("thread_key", "seq", name=op.f("pk_entries")),
        sqlite_with_rowid=False,
    )


def _make_messages() -> None:
    op.create_table(
        "messages",
        sa.Column("thread_key", KEY, nullable=False),
        sa.Column("message_id", ID, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("sender", ID, nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("fate", sa.Text(), nullable=False),
        sa.Column("turn_id", sa.Text(), server_default="", nullable=False),
        sa.Column("leg", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("run_id", sa.Text(), server_default="", nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("thread_key", "message_id", name=op.f("pk_messages")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_messages_pending",
        "messages",
        ["thread_key", "seq"],
        unique=False,
        sqlite_where=sa.text("fate = 'pending'"),
        postgresql_where=sa.text("fate = 'pending'"),
    )
    op.create_index("ix_messages_turn", "messages", ["thread_key", "turn_id", "leg"], unique=False)


def _make_parked() -> None:
    op.create_table(
        "parked",
        sa.Column("thread_key", KEY, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("turn_id", sa.Text(), nullable=False),
        sa.Column("leg", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("resolved", sa.Text(), server_default="", nullable=False),
        sa.Column("ask_seq", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("thread_key", "seq", name=op.f("pk_parked")),
        sqlite_with_rowid=False,
    )


def _make_questions() -> None:
    op.create_table(
        "questions",
        sa.Column("thread_key", KEY, nullable=False),
        sa.Column("question_id", ID, nullable=False),
        sa.Column("turn_id", sa.Text(), nullable=False),
        sa.Column("ask", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), server_default="", nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=True),
        sa.Column("resolution", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("thread_key", "question_id", name=op.f("pk_questions")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_questions_expires",
        "questions",
        ["expires_ms"],
        unique=False,
        sqlite_where=sa.text("resolution = 'open' AND expires_ms IS NOT NULL"),
        postgresql_where=sa.text("resolution = 'open' AND expires_ms IS NOT NULL"),
    )


def _make_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("thread_key", KEY, nullable=False),
        sa.Column("turn_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("token", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("session", sa.Text(), server_default="", nullable=False),
        sa.Column("started_seq", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("started_ms", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("ended_seq", sa.BigInteger(), nullable=True),
        sa.Column("ended_ms", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_runs")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_runs_died_with",
        "runs",
        ["session"],
        unique=False,
        sqlite_where=sa.text("outcome IS NULL OR outcome = 'abandoned'"),
        postgresql_where=sa.text("outcome IS NULL OR outcome = 'abandoned'"),
    )


def _make_sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("workspace", ID, nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("runner", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("duration_seconds", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("workspace", "session", name=op.f("pk_sessions")),
    )


def _make_steps() -> None:
    op.create_table(
        "steps",
        sa.Column("thread_key", KEY, nullable=False),
        sa.Column("turn_id", sa.Text(), nullable=False),
        sa.Column("name", ID, nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("thread_key", "turn_id", "name", name=op.f("pk_steps")),
        sqlite_with_rowid=False,
    )


def _make_threads() -> None:
    op.create_table(
        "threads",
        sa.Column("key", KEY, autoincrement=True, nullable=False),
        sa.Column("workspace", ID, nullable=False),
        sa.Column("thread_id", ID, nullable=False),
        sa.Column("last_seq", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("asked", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("taken", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("token", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("session", sa.Text(), server_default="", nullable=False),
        sa.Column("run_id", sa.Text(), server_default="", nullable=False),
        sa.Column("run_attempt", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("run_events", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("run_stop_asked", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("run_apart", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("turn_id", sa.Text(), server_default="", nullable=False),
        sa.Column("turn_leg", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("turn_attempts", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("turn_charged", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("turn_crowd_deaths", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("open_questions", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("parked", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("state", sa.Text(), server_default="idle", nullable=False),
        sa.Column("owed_since_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_threads")),
        sa.UniqueConstraint("workspace", "thread_id", name=op.f("uq_threads")),
    )
    op.create_index(
        "ix_threads_owed",
        "threads",
        ["workspace", "state", "owed_since_ms", "thread_id"],
        unique=False,
        sqlite_where=sa.text("state IN ('owed', 'running')"),
        postgresql_where=sa.text("state IN ('owed', 'running')"),
    )
    op.create_index(
        "ix_threads_session",
        "threads",
        ["session"],
        unique=False,
        sqlite_where=sa.text("state = 'running'"),
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_index(
        "ix_threads_state",
        "threads",
        ["workspace", "state", "thread_id", "parked"],
        unique=False,
        sqlite_where=sa.text("state <> 'idle' OR parked > 0"),
        postgresql_where=sa.text("state <> 'idle' OR parked > 0"),
    )

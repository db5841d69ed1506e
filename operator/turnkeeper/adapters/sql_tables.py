"""The tables of a journal and of SQL claims, the same on SQLite and PostgreSQL.

User-given ids compare by code point everywhere: SQLite does so by itself, PostgreSQL by COLLATE "C". JSON is kept as
ASCII text, never as jsonb, which would refuse NUL and reorder keys. A thread is referred to by a small key of its own.
The migrations build these tables; a test holds both together.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s",
    }
)

# The predicates of the partial indexes. A query that should use one must have it in these very words: SQLite compares
# the text of the terms, and neither database sees through a parameter.
IS_WAITING = text("state IN ('owed', 'running')")
IS_NOT_IDLE = text("(state <> 'idle' OR parked > 0)")  # in brackets: it is joined to others by AND
IS_RUNNING = text("state = 'running'")
IS_PENDING = text("fate = 'pending'")
IS_UNENDED = text("(outcome IS NULL OR outcome = 'abandoned')")
IS_RETRYING = text("ask_seq > 0")
CAN_EXPIRE = text("resolution = 'open' AND expires_ms IS NOT NULL")

Key = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows by itself for INTEGER alone
Id = Text().with_variant(Text(collation="C"), "postgresql")


def _text(name: str) -> Column[str]:
    return Column(name, Text, nullable=False, server_default="")


def _count(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default="0")


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False, server_default=text("false"))


threads = Table(
    "threads",
    metadata,
    Column("key", Key, primary_key=True, autoincrement=True),
    Column("workspace", Id, nullable=False),
    Column("thread_id", Id, nullable=False),
    _count("last_seq"),
    _count("asked"),
    _count("taken"),
    _count("token"),
    _text("session"),
    _text("run_id"),
    _count("run_attempt"),
    _count("run_events"),
    _flag("run_stop_asked"),
    _flag("run_apart"),
    _text("turn_id"),
    _count("turn_leg"),
    _count("turn_attempts"),
    _count("turn_charged"),
    _count("turn_crowd_deaths"),
    _count("open_questions"),
    _count("parked"),
    Column("state", Text, nullable=False, server_default="idle"),
    Column("owed_since_ms", BigInteger),
    UniqueConstraint("workspace", "thread_id"),
)

Index(
    "ix_threads_owed",
    threads.c.workspace,
    threads.c.state,
    threads.c.owed_since_ms,
    threads.c.thread_id,
    sqlite_where=IS_WAITING,
    postgresql_where=IS_WAITING,
)
Index(
    "ix_threads_state",
    threads.c.workspace,
    threads.c.state,
    threads.c.thread_id,
    threads.c.parked,
    sqlite_where=IS_NOT_IDLE,
    postgresql_where=IS_NOT_IDLE,
)
Index("ix_threads_session", threads.c.session, sqlite_where=IS_RUNNING, postgresql_where=IS_RUNNING)

entries = Table(
    "entries",
    metadata,
    Column("thread_key", Key, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    _text("run_id"),
    _count("token"),
    _text("body"),
    PrimaryKeyConstraint("thread_key", "seq"),
    sqlite_with_rowid=False,
)

messages = Table(
    "messages",
    metadata,
    Column("thread_key", Key, nullable=False),
    Column("message_id", Id, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("sender", Id, nullable=False),
    Column("mode", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("fate", Text, nullable=False),
    _text("turn_id"),
    _count("leg"),
    _text("run_id"),
    _text("reason"),
    PrimaryKeyConstraint("thread_key", "message_id"),
    sqlite_with_rowid=False,
)
Index(
    "ix_messages_pending",
    messages.c.thread_key,
    messages.c.seq,
    sqlite_where=IS_PENDING,
    postgresql_where=IS_PENDING,
)
Index("ix_messages_turn", messages.c.thread_key, messages.c.turn_id, messages.c.leg)

runs = Table(
    "runs",
    metadata,
    Column("run_id", Text, nullable=False),
    Column("thread_key", Key, nullable=False),
    Column("turn_id", Text, nullable=False),
    _count("attempt"),
    _count("token"),
    _text("session"),
    _count("started_seq"),
    _count("started_ms"),
    Column("outcome", Text),
    Column("ended_seq", BigInteger),
    Column("ended_ms", BigInteger),
    _text("reason"),
    PrimaryKeyConstraint("run_id"),
    sqlite_with_rowid=False,
)
Index("ix_runs_died_with", runs.c.session, sqlite_where=IS_UNENDED, postgresql_where=IS_UNENDED)

questions = Table(
    "questions",
    metadata,
    Column("thread_key", Key, nullable=False),
    Column("question_id", Id, nullable=False),
    Column("turn_id", Text, nullable=False),
    Column("ask", Text, nullable=False),
    _text("text"),
    Column("detail", Text, nullable=False),
    Column("expires_ms", BigInteger),
    Column("resolution", Text, nullable=False),
    Column("answer", Text, nullable=False),
    PrimaryKeyConstraint("thread_key", "question_id"),
    sqlite_with_rowid=False,
)
Index("ix_questions_expires", questions.c.expires_ms, sqlite_where=CAN_EXPIRE, postgresql_where=CAN_EXPIRE)

steps = Table(
    "steps",
    metadata,
    Column("thread_key", Key, nullable=False),
    Column("turn_id", Text, nullable=False),
    Column("name", Id, nullable=False),
    Column("value", Text, nullable=False),
    PrimaryKeyConstraint("thread_key", "turn_id", "name"),
    sqlite_with_rowid=False,
)

parked = Table(
    "parked",
    metadata,
    Column("thread_key", Key, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("turn_id", Text, nullable=False),
    _count("leg"),
    _text("reason"),
    _text("resolved"),
    _count("ask_seq"),
    PrimaryKeyConstraint("thread_key", "seq"),
    sqlite_with_rowid=False,
)

sessions = Table(
    "sessions",
    metadata,
    Column("workspace", Id, nullable=False),
    Column("session", Text, nullable=False),
    Column("runner", Text, nullable=False),
    _count("version"),
    Column("duration_seconds", Float, nullable=False),
    _text("address"),
    PrimaryKeyConstraint("workspace", "session"),
)

claims = Table(
    "claims",
    metadata,
    Column("workspace", Id, nullable=False),
    Column("thread_id", Id, nullable=False),
    Column("session", Text, nullable=False),
    _count("token"),
    Column("nonce", Text, nullable=False),
    PrimaryKeyConstraint("workspace", "thread_id"),
)

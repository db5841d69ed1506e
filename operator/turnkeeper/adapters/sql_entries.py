"""Threads' logs read in order, in pages, each entry with its receipt or its run, as the checkers want them.

A body may be a megabyte, and a checker wants a few fields of some kinds. So only small bodies of those kinds come with
a page; a large one is fetched by itself, and all but those fields is dropped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, Select, case, func, select, tuple_

from turnkeeper.adapters import sql_rows as rows
from turnkeeper.adapters.sql_lookup import padded
from turnkeeper.adapters.sql_tables import entries, messages, runs
from turnkeeper.core.thread_check import ThreadCheck
from turnkeeper.core.values import Entry, Json, Message, Run
from turnkeeper.core.words import Kind

V = TypeVar("V")

PAGE = 4000
"""Entries of a page. Arbitrary: with their rows some megabytes."""

KEYS = 1024
"""Rows looked up in one statement. Arbitrary: well under both databases' limits on parameters."""

BODY_MAX = 2048
"""Characters of a body that comes with its page: a page of them is eight megabytes. Most messages are shorter."""

_FIELDS = {
    Kind.MESSAGE: ("message_id", "sender", "mode"),
    Kind.NOTE: ("message_id", "sender", "mode"),
    Kind.RUN_STARTED: ("turn_id", "prompts"),
    Kind.RUN_ENDED: ("outcome", "used"),
    Kind.TURN_PARKED: ("messages",),
}
_BODY = case(
    (entries.c.kind.not_in([kind.value for kind in _FIELDS]), "{}"),
    (func.length(entries.c.body) > BODY_MAX, ""),
    else_=entries.c.body,
)
_COLUMNS = (
    entries.c.thread_key,
    entries.c.seq,
    entries.c.kind,
    entries.c.created_ms,
    entries.c.run_id,
    entries.c.token,
    _BODY.label("body"),
)
_KINDS = {kind.value: kind for kind in Kind}
_WITH_RUN = frozenset({Kind.RUN_STARTED, Kind.RUN_ENDED})
_RECEIVED = frozenset({Kind.MESSAGE, Kind.NOTE})


@dataclass(slots=True)
class Page:
    """Entries of some threads in order, with what they name. An entry that can't be read is the reason why not."""

    entries: list[tuple[int, int, Entry | str]] = field(default_factory=list)
    receipts: dict[tuple[int, str], Message | str] = field(default_factory=dict)
    runs: dict[str, tuple[int, Run | str]] = field(default_factory=dict)

    def feed(self, checks: Mapping[int, ThreadCheck]) -> int:
        """Give each entry to its thread's check, and return how many there were."""
        for key, seq, entry in self.entries:
            check = checks[key]
            if isinstance(entry, str):
                check.unreadable_entry(seq, entry)
                continue
            receipt = self.receipts.get((key, str(entry.body.get("message_id")))) if entry.kind in _RECEIVED else None
            of_thread, run = self.runs.get(entry.run_id, (key, None)) if entry.kind in _WITH_RUN else (key, None)
            for row in (receipt, run):
                if isinstance(row, str):
                    check.unreadable_row(seq, row)
            check.entry(
                entry,
                receipt if isinstance(receipt, Message) else None,
                run if isinstance(run, Run) and of_thread == key else None,
            )
        return len(self.entries)


class EntryReader:
    """Reads the logs of threads, by their keys, in one transaction. Of several, the receipts must fit in memory."""

    def __init__(self, connection: Connection, keys: Sequence[int]) -> None:
        self._connection = connection
        self._keys = keys

    def pages(self) -> Iterator[Page]:
        """Yield the entries by key and seq."""
        key, seq = 0, 0
        while found := self._connection.execute(self._after(key, seq)).all():
            yield self._page(found)
            if len(found) < PAGE:
                return
            key, seq = found[-1].thread_key, found[-1].seq

    def _after(self, key: int, seq: int) -> Select[Any]:
        query = select(*_COLUMNS).order_by(entries.c.thread_key, entries.c.seq).limit(PAGE)
        if len(self._keys) == 1:
            return query.where(entries.c.thread_key == self._keys[0], entries.c.seq > (seq if key else -(1 << 62)))
        query = query.where(entries.c.thread_key.in_(padded(self._keys)))
        return query.where(tuple_(entries.c.thread_key, entries.c.seq) > tuple_(key, seq)) if key else query

    def _page(self, found: Sequence[Row[Any]]) -> Page:
        page = Page(entries=[(row.thread_key, row.seq, self._entry(row)) for row in found])
        read = [(key, entry) for key, _, entry in page.entries if isinstance(entry, Entry)]
        sent = [str(entry.body.get("message_id")) for _, entry in read if entry.kind in _RECEIVED]
        for query in self._receipts(sent):
            for row in self._connection.execute(query):
                page.receipts[row.thread_key, row.message_id] = _read(rows.message_from, row)
        begun = dict.fromkeys(entry.run_id for _, entry in read if entry.kind in _WITH_RUN)
        for run_ids in _parts(begun):
            for row in self._connection.execute(select(runs).where(runs.c.run_id.in_(padded(run_ids)))):
                page.runs[row.run_id] = (row.thread_key, _read(rows.run_from, row))
        return page

    def _receipts(self, message_ids: Sequence[str]) -> Iterator[Select[Any]]:
        """Yield what finds the receipts of a page: by their ids in one thread, all there are in some small ones.

        Pairs of thread and id would say it in one way, and SQLite looks for none of them by its index.
        """
        if len(self._keys) > 1:
            yield select(messages).where(messages.c.thread_key.in_(padded(self._keys)))
            return
        for part in _parts(message_ids):
            where = (messages.c.thread_key == self._keys[0], messages.c.message_id.in_(padded(part)))
            yield select(messages).where(*where)

    def _entry(self, row: Row[Any]) -> Entry | str:
        key, seq, name, created_ms, run_id, token, body = tuple(row)
        kind = _KINDS.get(name)
        if kind is None:
            return f"{name!a} is no kind of entry"
        if not body:
            at = (entries.c.thread_key == key, entries.c.seq == seq)
            body = self._connection.scalar(select(entries.c.body).where(*at))
        try:
            fields = _fields(kind, body)
        except ValueError as error:
            return str(error)
        return Entry(seq=seq, kind=kind, created_ms=created_ms, run_id=run_id, token=token, body=fields)


def _fields(kind: Kind, body: str) -> Mapping[str, Json]:
    wanted = _FIELDS.get(kind, ())
    if not wanted:
        return {}
    whole = json.loads(body)
    if not isinstance(whole, dict):
        raise ValueError("its body is no object")  # noqa: TRY004 - an unreadable row is told apart by this one class
    return {name: whole.get(name) for name in wanted}


def _read(read: Any, row: Row[Any]) -> Any:  # noqa: ANN401 - one of two readers of rows, with its own result
    try:
        return read(row)
    except ValueError as error:
        return f"its row: {error}"


def _parts(values: Iterable[V]) -> Iterator[list[V]]:
    every = list(values)
    for start in range(0, len(every), KEYS):
        yield every[start : start + KEYS]

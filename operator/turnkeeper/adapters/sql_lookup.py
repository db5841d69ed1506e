"""Reading rows by the values of some columns, with statements that are compiled once.

Building, keying and expanding a statement anew for each batch took more time than the databases did, so a lookup keeps
its text for each number of values and hands it to the driver with a tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, count
from typing import Any, TypeVar

from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    Connection,
    Dialect,
    Row,
    Select,
    and_,
    bindparam,
    select,
    union_all,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.postgresql import asyncpg

V = TypeVar("V")

DIALECTS: dict[str, Dialect] = {"sqlite": sqlite.dialect(), "postgresql": asyncpg.dialect()}  # type: ignore[no-untyped-call]  # SQLAlchemy's own gap


NOBODYS_KEY = -1
"""No row has it: the databases number rows from 1."""


def padded(values: Iterable[V]) -> list[V]:
    """Repeat the last value up to a power of two, so that few distinct statements have to be prepared."""
    found = list(values)
    return found + found[-1:] * ((1 << (len(found) - 1).bit_length()) - len(found)) if found else found


class Lookup:
    """Finds all rows in which each column holds one of the values given for it.

    build: makes the statement from that condition. Of keys of several columns it finds all, and some rows that mix the
    parts of two keys: the reader leaves those out. A list for each column is looked up by an index; SQLite looks up a
    list of tuples by reading the whole table. What is compiled is bounded by the powers of two below a batch's size.
    """

    def __init__(self, columns: Sequence[Column[Any]], build: Callable[[ColumnElement[bool]], Select[Any]]) -> None:
        self._columns = columns
        self._build = build
        self._compiled: dict[tuple[str, ...], tuple[str, list[int]]] = {}

    def by_keys(self, connection: Connection, keys: Iterable[tuple[Any, ...]]) -> Sequence[Row[Any]]:
        """Return the rows of these keys, each a value for every column; at least one."""
        return self(connection, *zip(*keys, strict=True))

    def __call__(self, connection: Connection, *values: Iterable[Any]) -> Sequence[Row[Any]]:
        """Return the rows; `values` are a list for each column, of at least one value."""
        lists = [self._padded(list(dict.fromkeys(part))) for part in values]
        key = (connection.dialect.name, *(str(len(part)) for part in lists))
        compiled = self._compiled.get(key)
        if compiled is None:
            compiled = self._compiled[key] = self._compile(connection.dialect.name, [len(part) for part in lists])
        statement, order = compiled
        flat = [value for part in lists for value in part]
        return connection.exec_driver_sql(statement, tuple([flat[place] for place in order])).all()

    def _padded(self, values: list[Any]) -> list[Any]:
        return padded(values)

    def _statement(self, values: Sequence[Sequence[BindParameter[Any]]]) -> Select[Any]:
        found = and_(*(column.in_(part) for column, part in zip(self._columns, values, strict=True)))
        return self._build(found)

    def _compile(self, dialect: str, lengths: Sequence[int]) -> tuple[str, list[int]]:
        """Return the statement's text, and for each of its parameters its place among all values."""
        numbers = count()
        parameters = [
            [bindparam(f"value_{next(numbers)}", type_=column.type) for _ in range(length)]
            for column, length in zip(self._columns, lengths, strict=True)
        ]
        places = {parameter.key: place for place, parameter in enumerate(chain.from_iterable(parameters))}
        compiled = self._statement(parameters).compile(dialect=DIALECTS[dialect])
        return str(compiled), [places[name] for name in compiled.positiontup or ()]


class LookupOfEach(Lookup):
    """Finds rows for each value of one whole-numbered column by itself, so that each may have a limit of its own."""

    def _padded(self, values: list[int]) -> list[int]:
        return values + [NOBODYS_KEY] * (len(padded(values)) - len(values))  # a value twice would find its rows twice

    def _statement(self, values: Sequence[Sequence[BindParameter[Any]]]) -> Select[Any]:
        parts = [select(self._build(self._columns[0] == value).subquery()) for value in values[0]]
        return select(union_all(*parts).subquery())

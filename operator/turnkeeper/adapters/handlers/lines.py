"""JSON lines from a program that may write anything: split in bounded memory, and read or refused one by one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from turnkeeper.core.names import parse_json
from turnkeeper.core.values import Json
from turnkeeper.errors import InvalidInputError

LINE_BYTES_MAX = 8_388_608
"""Longest line that is read. Escaping every letter makes a value of the largest size six times as long."""

EDGE_BYTES = 256
"""What is kept of either end of a line that is too long. Arbitrary: enough to see what kind of line it was."""

_TYPE_AT_HEAD = re.compile(rb'^\s*\{\s*"type"\s*:\s*"([a-z_?]{1,20})"')
_TYPE_AT_TAIL = re.compile(rb',\s*"type"\s*:\s*"([a-z_?]{1,20})"\s*\}\s*$')


@dataclass(frozen=True, slots=True)
class CutLine:
    """A line that was longer than allowed: its two ends, and its length in bytes."""

    head: bytes
    tail: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A line that can't be used, and why. `kind`: what type of line it was meant to be, or an empty string."""

    reason: str
    kind: str = ""


class LineSplitter:
    """Cuts a stream of bytes into lines without ever holding more than one line of the allowed length."""

    def __init__(self, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        self._line_bytes_max = line_bytes_max
        self._held = bytearray()
        self._is_cut = False
        self._cut_head = b""
        self._dropped_bytes = 0

    def feed(self, chunk: bytes) -> Iterator[bytes | CutLine]:
        """Take what came, and return the lines that it completes, without their ends (LF or CRLF)."""
        *complete, rest = chunk.split(b"\n")
        for part in complete:
            self._hold(part)
            yield self._take()
        self._hold(rest)

    def rest(self) -> bytes | CutLine | None:
        """Return what stands after the last line end, at the end of the stream; None if nothing does."""
        return self._take() if self._held or self._is_cut else None

    def _hold(self, part: bytes) -> None:
        self._held += part
        if not self._is_cut and len(self._held) > self._line_bytes_max:
            self._is_cut, self._cut_head = True, bytes(self._held[:EDGE_BYTES])
        if self._is_cut and len(self._held) > EDGE_BYTES:
            self._dropped_bytes += len(self._held) - EDGE_BYTES
            del self._held[:-EDGE_BYTES]

    def _take(self) -> bytes | CutLine:
        held, dropped_bytes, is_cut = bytes(self._held), self._dropped_bytes, self._is_cut
        self._held.clear()
        self._is_cut, self._dropped_bytes = False, 0
        if is_cut:
            return CutLine(self._cut_head, held, dropped_bytes + len(held))
        return held.removesuffix(b"\r")


def parse_line(line: bytes | CutLine) -> Mapping[str, Json] | Refused:
    """Return a line's object, which has a `type` that is a string, or why it is refused."""
    if isinstance(line, CutLine):
        return Refused(f"a line of {line.size} bytes is longer than allowed", _kind_of(line.head, line.tail))
    try:
        value = parse_json(line, "the line")
    except InvalidInputError as error:
        return Refused(f"{error}; it begins {line[:80]!r}", _kind_of(line, line))
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
        return Refused(f'the line is no object with a "type"; it begins {line[:80]!r}')
    return value


def _kind_of(head: bytes, tail: bytes) -> str:
    """Return what a line that can't be parsed was meant to be, where its first or last key says it beyond doubt."""
    found = _TYPE_AT_HEAD.search(head[:EDGE_BYTES]) or _TYPE_AT_TAIL.search(tail[-EDGE_BYTES:])
    return found[1].decode("ascii") if found else ""

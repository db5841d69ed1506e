"""Reads server-sent events from a stream of bytes, however it is cut into pieces (the HTML standard, 9.2.6).

Kept is the data of each event, which is all that a chat server says. A stream that ends within an event still gives
that event: several servers leave out the last empty line.
"""

from __future__ import annotations

from collections.abc import Iterator

from turnkeeper.adapters.handlers.lines import CutLine, LineSplitter
from turnkeeper.errors import HandlerError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventStream:
    """Turns pieces of a stream into the data of its events. Raises HandlerError for a line that is too long."""

    def __init__(self, line_bytes_max: int) -> None:
        self._splitter = LineSplitter(line_bytes_max)
        self._data: list[bytes] = []
        self._is_first_line = True
        self._after_return = False

    def feed(self, chunk: bytes) -> Iterator[str]:
        """Take what came, and return the data of the events that it completes."""
        # A line ends with LF, CRLF or CR alone; the two bytes of CRLF may come apart.
        if self._after_return and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_return = False
        if chunk.endswith(b"\r"):
            self._after_return = True
        for line in self._splitter.feed(chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")):
            yield from self._line(line)

    def rest(self) -> Iterator[str]:
        """Return the data of an event that the stream's end cut short of its empty line."""
        last = self._splitter.rest()
        if last is not None:
            yield from self._line(last)
        yield from self._line(b"")

    def _line(self, line: bytes | CutLine) -> Iterator[str]:
        if isinstance(line, CutLine):
            raise HandlerError(f"the stream has a line of {line.size} bytes, longer than is read")
        if self._is_first_line:
            line, self._is_first_line = line.removeprefix(BYTE_ORDER_MARK), False
        if not line:
            data = b"\n".join(self._data).decode("utf-8", "replace")
            self._data.clear()
            if data:
                yield data
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))

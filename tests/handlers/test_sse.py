"""Server-sent events, however they come in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnkeeper.adapters.handlers.sse import EventStream
from turnkeeper.errors import HandlerError


def read(chunks: list[bytes]) -> list[str]:
    """The data of a stream that comes in these pieces."""
    stream = EventStream(1_000)
    return [data for chunk in chunks for data in stream.feed(chunk)] + list(stream.rest())


STREAM = (
    ': a comment\n\nevent: x\ndata: {"a": 1}\nid: 7\n\n'
    "data:ä\ndata: second line\n\n\ndata\n\nretry: 5\n\ndata: [DONE]\n\n"
)
DATA = ['{"a": 1}', "ä\nsecond line", "[DONE]"]


@given(st.sampled_from(["\n", "\r\n", "\r"]), st.sampled_from([b"", b"\xef\xbb\xbf"]), st.data())
def test_events_are_the_same_whatever_ends_their_lines_and_wherever_they_are_cut(
    line_end: str, mark: bytes, data: st.DataObject
) -> None:
    """Proxies cut streams inside a character and inside CRLF."""
    stream = mark + STREAM.replace("\n", line_end).encode()
    chunks = []
    while stream:
        at = data.draw(st.integers(1, min(len(stream), 30)))
        chunks.append(stream[:at])
        stream = stream[at:]
    assert read(chunks) == DATA


def test_an_event_that_lacks_its_empty_line_at_the_end_counts() -> None:
    """Several servers end so."""
    assert read([b"data: a\n\ndata: [DONE]"]) == ["a", "[DONE]"]


def test_a_line_without_end_is_refused() -> None:
    """A server can't fill the runner's memory."""
    with pytest.raises(HandlerError, match="longer than is read"):
        read([b"data: " + b"x" * 2_000 + b"\n\n"])

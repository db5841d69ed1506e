"""Lines from a program that may write anything."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnkeeper.adapters.handlers.lines import CutLine, LineSplitter, Refused, parse_line

LONG = 20 * 1024 * 1024


def split(chunks: list[bytes], line_bytes_max: int = 1_000) -> list[bytes | CutLine]:
    """The lines of a stream that comes in these pieces."""
    splitter = LineSplitter(line_bytes_max)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    last = splitter.rest()
    return lines if last is None else [*lines, last]


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40).map(lambda text: text.replace(b"\n", b"").rstrip(b"\r"))), st.data())
def test_lines_are_the_same_however_the_stream_is_cut(lines: list[bytes], data: st.DataObject) -> None:
    """A pipe and a connection give back any pieces."""
    stream = b"".join(line + data.draw(st.sampled_from([b"\n", b"\r\n"])) for line in lines)
    chunks = []
    while stream:
        at = data.draw(st.integers(1, len(stream)))
        chunks.append(stream[:at])
        stream = stream[at:]
    assert split(chunks) == lines


@settings(deadline=None)
@given(st.integers(1, 3_000), st.integers(1, 400), st.integers(1, 500))
def test_a_line_that_is_too_long_is_measured_and_its_neighbours_are_whole(
    size: int, line_bytes_max: int, piece: int
) -> None:
    """What is over the limit is not held, only counted, and spoils nothing."""
    stream = b"a\n" + bytes(i % 9 + 49 for i in range(size)) + b"\nb"
    first, middle, last = split([stream[i : i + piece] for i in range(0, len(stream), piece)], line_bytes_max)
    assert (first, last) == (b"a", b"b")
    if size <= line_bytes_max:
        assert middle == stream[2:-2]
    else:
        assert isinstance(middle, CutLine)
        assert middle.size == size
        assert stream[2:].startswith(middle.head)
        assert stream[:-2].endswith(middle.tail)


def test_a_line_of_twenty_mebibytes_is_never_held() -> None:
    """Memory is bounded by the longest line that is read, not by the longest that is written."""
    splitter = LineSplitter(1_000)
    for _ in range(LONG // 65_536):
        assert list(splitter.feed(b"x" * 65_536)) == []
        assert len(splitter._held) <= 1_000
    (line,) = splitter.feed(b"\n")
    assert isinstance(line, CutLine)
    assert line.size == LONG


def test_a_line_is_an_object_with_a_type() -> None:
    """The form that every line has."""
    assert parse_line(b'{"type": "event", "event": [1, 2.5, "\xc3\xa4"]}') == {"type": "event", "event": [1, 2.5, "ä"]}


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"hello", "not JSON"),
        (b'"hello"', "no object"),
        (b"[]", "no object"),
        (b"{}", "no object"),
        (b'{"type": 1}', "no object"),
        (b'{"type":"event","event":NaN}', "NaN"),
        (b'{"type":"event","event":1e309}', "too large"),
        (b'{"type":"event","event":' + b"9" * 5_000 + b"}", "digits"),
        (b'{"type":"event","type":"answer"}', "same key twice"),
        (b'{"type":"event","event":"\xff"}', "UTF-8"),
        (b'{"type":"event","event":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested"),
        (CutLine(b"{", b"}", LONG), str(LONG)),
    ],
)
def test_a_bad_line_is_refused_with_the_reason(raw: bytes | CutLine, reason: str) -> None:
    """No line, whatever is in it, raises."""
    line = parse_line(raw)
    assert isinstance(line, Refused)
    assert reason in line.reason


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b'{"type":"answer","answer":NaN}', "answer"),
        (b' { "type" : "ask" , "questions": [', "ask"),
        (b'{"answer":1e999,"type":"answer"}', "answer"),
        (CutLine(b'{"type":"answer","answer":"xxx', b'xxx"}', LONG), "answer"),
        (CutLine(b'{"answer":"xxx', b'xxx","type":"answer"}', LONG), "answer"),
        (b'{"event":{"type":"answer","x":NaN}}', ""),
        (b'{"type":"event","event":{"x":NaN,"type":"answer"}}', "event"),
        (b"nonsense", ""),
    ],
)
def test_a_bad_line_is_known_for_what_it_was_meant_to_be_only_beyond_doubt(raw: bytes | CutLine, kind: str) -> None:
    """An answer that can't be read must fail its run, and an event that quotes one must not."""
    line = parse_line(raw)
    assert isinstance(line, Refused)
    assert line.kind == kind

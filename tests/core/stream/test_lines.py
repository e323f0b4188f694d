"""Lines end at LF, CRLF and CR, and nowhere else, wherever the chunks were cut."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.stream.sse import READ_SIZE_BYTES, LineSplitter
from tests.core.stream.streams import cut
from tests.requirements import requirement

# What separates lines for `str.splitlines` but not on the wire: U+0085, U+2028, VT, FF, FS.
NO_ENDS = "a\u0085b\u2028c\u2029d\x0be\x0cf\x1cg".encode()


def lines(*chunks: bytes) -> list[bytes]:
    splitter = LineSplitter()
    return [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.close()


@requirement("R049")
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\nb\r\nc\rd", [b"a", b"b", b"c", b"d"]),
        (b"\r\r\n\n", [b"", b"", b""]),
        (b"\n\r", [b"", b""]),
        (NO_ENDS + b"\n", [NO_ENDS]),
    ],
)
def test_lf_crlf_and_cr_end_a_line_and_nothing_else_does(
    data: bytes, expected: list[bytes]
) -> None:
    assert lines(data) == expected


def test_a_line_is_handed_out_when_its_end_arrives() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"a\r") == [b"a"]
    assert splitter.feed(b"\nb") == []
    assert splitter.feed(b"\n") == [b"b"]
    assert splitter.close() == []


@requirement("R049", "R052")
@given(st.text("a\n\r\u2028é", max_size=30).map(str.encode), st.data())
def test_any_cut_gives_the_same_lines(data: bytes, choices: st.DataObject) -> None:
    expected = re.split(rb"\r\n|\r|\n", data)
    expected = expected if expected[-1] else expected[:-1]
    at = choices.draw(st.lists(st.integers(0, len(data))))
    assert lines(*cut(data, at)) == expected
    assert lines(*(data[i : i + 1] for i in range(len(data)))) == expected


@requirement("R232")
def test_a_line_longer_than_what_is_read_at_once_comes_whole() -> None:
    assert READ_SIZE_BYTES == 65536
    line = b"x" * (3 * READ_SIZE_BYTES + 7)
    pieces = [(line + b"\n")[i : i + READ_SIZE_BYTES] for i in range(0, len(line), READ_SIZE_BYTES)]
    assert lines(*pieces) == [line]

"""Messages from bytes, however they are split, and whatever else is between them."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.system.jsonrpc.framing import (
    HEAD_BYTES,
    MAX_HEADER_BYTES,
    Framing,
    Headed,
    LineFraming,
    Unframed,
    as_line,
    with_header,
)

Make = Callable[[], Framing]


def lines() -> Framing:
    return LineFraming(max_bytes=40)


def headed() -> Framing:
    return Headed(max_bytes=40)


def whole(make: Make, data: bytes) -> list[bytes | Unframed]:
    framing = make()
    return [*framing.feed(data), *framing.close()]


def in_pieces(make: Make, data: bytes, cuts: list[int]) -> list[bytes | Unframed]:
    framing = make()
    out: list[bytes | Unframed] = []
    ends = [0, *sorted(cuts), len(data)]
    for begin, end in pairwise(ends):
        out += framing.feed(data[begin:end])
    return [*out, *framing.close()]


PIECES = st.lists(
    st.sampled_from(
        [
            b"{}",
            b"\n",
            b"\r\n",
            b"\r\n\r\n",
            b"Content-Length: 5\r\n\r\nhello",
            b"Content-Length: 50\r\n\r\n" + b"y" * 50,
            b"content-length:2",
            b"X: 1\r\n",
            b"z" * 41,
            b"q" * 39,
            "\u2028".encode(),
            b"h" * MAX_HEADER_BYTES,
        ]
    ),
    max_size=12,
).map(b"".join)


@pytest.mark.no_cover
@pytest.mark.parametrize("make", [lines, headed])
@given(data=PIECES, cuts=st.lists(st.integers(0, 400), max_size=8))
def test_the_pieces_do_not_matter(make: Make, data: bytes, cuts: list[int]) -> None:
    cuts = [cut for cut in cuts if cut <= len(data)]
    assert in_pieces(make, data, cuts) == whole(make, data)
    assert in_pieces(make, data, list(range(len(data)))) == whole(make, data)


def test_a_line_is_ended_by_lf_alone_and_empty_ones_are_none() -> None:
    framing = LineFraming(max_bytes=100)
    assert framing.feed("a\u2028b\r\n\n\r\nc".encode()) == ["a\u2028b".encode()]
    assert framing.close() == [b"c"]
    assert framing.close() == []


def test_a_line_that_is_too_large_is_passed_over_with_its_beginning() -> None:
    framing = LineFraming(max_bytes=1000)
    for _ in range(50):
        assert framing.feed(b"x" * 900) == []
    (over, after) = framing.feed(b"\nnext\n")
    assert isinstance(over, Unframed)
    assert over.is_too_large
    assert over.head == b"x" * HEAD_BYTES
    assert after == b"next"
    (again,) = framing.feed(b"")[:0] or framing.feed(b"\n" + b"y" * 2000 + b"\n")
    assert isinstance(again, Unframed)


def test_a_body_is_as_long_as_its_header_says() -> None:
    framing = Headed(max_bytes=100)
    data = with_header(b'{"a":1}') + b"Content-Type: x\r\ncontent-length:  3\r\n\r\nabc"
    assert framing.feed(data) == [b'{"a":1}', b"abc"]
    assert framing.close() == []


def test_what_is_no_header_is_reported_and_the_next_message_is_found() -> None:
    framing = Headed(max_bytes=100)
    (odd,) = framing.feed(b"Starting...\r\n\r\n")
    assert isinstance(odd, Unframed)
    assert framing.feed(b"Content-Length: 1" + b"0" * 20 + b"\r\n\r\n") != []
    assert framing.feed(with_header(b"ok")) == [b"ok"]
    noise = framing.feed(b"n" * (2 * MAX_HEADER_BYTES))
    assert [type(one) for one in noise] == [Unframed]
    assert framing.feed(b"more\r\n\r\n" + with_header(b"ok")) == [b"ok"]


def test_a_body_that_is_too_large_is_passed_over() -> None:
    framing = Headed(max_bytes=10)
    assert framing.feed(b"Content-Length: 3000\r\n\r\n" + b"b" * 1000) == []
    over, after = framing.feed(b"b" * 2000 + with_header(b"ok"))
    assert isinstance(over, Unframed)
    assert over.is_too_large
    assert after == b"ok"


def test_an_end_in_the_middle_is_said() -> None:
    framing = Headed(max_bytes=10)
    framing.feed(b"Content-Length: 5\r\n\r\nab")
    (cut,) = framing.close()
    assert isinstance(cut, Unframed)
    lost = Headed(max_bytes=10)
    assert len(lost.feed(b"n" * (2 * MAX_HEADER_BYTES))) == 1
    assert lost.close() == []


def test_a_message_is_written_as_it_is_read() -> None:
    assert LineFraming(max_bytes=10).feed(as_line(b"{}")) == [b"{}"]

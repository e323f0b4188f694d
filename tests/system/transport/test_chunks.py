"""Where a body ends: for every split of the bytes and every fault, with h11 as the judge."""

from itertools import pairwise

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clew.system.transport.chunks import MAX_LINES_BYTES, Body, Chunked, Sized, UntilClosed, body_of

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class Judge:
    """The same by the library: `said` so far, and whether it ended or refused what came."""

    def __init__(self) -> None:
        self._http = h11.Connection(h11.CLIENT)
        self._http.send(h11.Request(method="GET", target="/", headers=[("host", "a")]))
        self._http.send(h11.EndOfMessage())
        self._http.receive_data(HEAD)
        assert isinstance(self._http.next_event(), h11.Response)
        self.said = b""
        self.ended = self.refused = False

    @property
    def rest(self) -> bytes:
        return self._http.trailing_data[0]

    def feed(self, data: bytes) -> None:
        if self.ended or self.refused:
            return
        try:
            self._http.receive_data(data)
            while not self.ended:
                event = self._http.next_event()
                if isinstance(event, h11.Data):
                    self.said += event.data
                elif isinstance(event, h11.EndOfMessage):
                    self.ended = True
                else:
                    return
        except h11.RemoteProtocolError:
            self.refused = True


def cut(data: bytes, places: list[int]) -> list[bytes]:
    marks = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(marks)]


def beside(data: bytes, places: list[int]) -> None:
    """Fed the same pieces, both say the same after each, and at the end of the connection."""
    body, judge, said = Chunked(), Judge(), b""
    for piece in cut(data, places):
        said += body.feed(piece)
        judge.feed(piece)
        assert said == judge.said
        assert body.ended == judge.ended
        assert bool(body.fault) == judge.refused, body.fault
    if body.ended:
        # The library is given nothing more once it has ended; we keep what there is.
        assert data.endswith(body.rest)
        assert body.rest.startswith(judge.rest)
    body.close()
    judge.feed(b"")
    assert bool(body.fault) == judge.refused


hexadecimal = st.sampled_from(
    ["{:x}", "{:X}", "{:04x}", "{:020x}", "{:x};a=b", "{:x} ", '{:x};"\r"\t']
)
chunks = st.lists(st.tuples(hexadecimal, st.binary(min_size=1, max_size=40)), max_size=6)
names = st.sampled_from(["x-a", "Expires", "a!#$%&'*+-.^_`|~"])
values = st.sampled_from(["", "b", " b ", "b\tc", "\x80", "b\r\n c", "b\n\tc", "b\r\n \r\n c"])
trailers = st.lists(st.tuples(names, values), max_size=3)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    said = b"".join(
        form.format(len(data)).encode() + b"\r\n" + data + b"\r\n" for form, data in draw(chunks)
    )
    end = draw(st.sampled_from([b"0\r\n", b"00;x\r\n", b""]))
    line = draw(st.sampled_from([b"\r\n", b"\n"]))
    lines = b"".join(f"{n}:{v}".encode("latin-1") + line for n, v in draw(trailers))
    behind = draw(st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n", b"0\r\n\r\n"]))
    return said + end + lines + line + behind


@given(bodies(), st.lists(st.integers(0, 400), max_size=8))
@example(b"3\r\nabc\r\n0\r\n\r\n", [4, 6, 8, 9, 12])
@example(b"3\r\nabc\r\n0\r\na: b\r\n\r\n", list(range(22)))
@example(b"3\r\nabc\n0\r\n\r\n", [])
@example(b"3\nabc\r\n0\r\n\r\n", [])
@example(b"-3\r\nabc\r\n0\r\n\r\n", [])
@example(b"0x3\r\nabc\r\n0\r\n\r\n", [])
@example(b"3_0\r\nabc\r\n0\r\n\r\n", [])
@example(b"\r\n3\r\nabc\r\n0\r\n\r\n", [])
@example(b" 3\r\nabc\r\n0\r\n\r\n", [])
@example(b"3;\n\r\nabc\r\n0\r\n\r\n", [])
@example(b"111111111111111111111\r\nabc", [])
@example(b"0\r\n a: b\r\n\r\n", [])
@example(b"0\r\na b: c\r\n\r\n", [])
@example(b"0\r\na: b\0\r\n\r\n", [])
@example(b"0\r\na: b\rc\r\n\r\n", [])
@example(b"0\r\na: b\r\n\n", [])
@example(b"0\r\n: b\r\n\r\n", [])
def test_a_body_in_chunks_is_what_the_library_says(data: bytes, places: list[int]) -> None:
    beside(data, places)


@given(
    bodies(),
    st.lists(
        st.tuples(st.integers(0, 400), st.integers(0, 2), st.binary(max_size=3)),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.integers(0, 400), max_size=4),
)
def test_a_spoilt_body_is_refused_where_the_library_refuses_it(
    data: bytes, spoilt: list[tuple[int, int, bytes]], places: list[int]
) -> None:
    for at, gone, put in spoilt:
        place = at % (len(data) + 1)
        data = data[:place] + put + data[place + gone :]
    beside(data, places)


@given(st.text(alphabet="0123aF;=: \t\r\nx", max_size=40), st.lists(st.integers(0, 40), max_size=4))
def test_noise_is_refused_where_the_library_refuses_it(text: str, places: list[int]) -> None:
    beside(text.encode(), places)


@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding"])
def test_nothing_after_the_last_chunk_says_another_end(name: str) -> None:
    body = Chunked()
    assert body.feed(f"1\r\na\r\n0\r\n{name}: 5\r\n\r\n".encode()) == b"a"
    assert "invalid line after the last chunk" in body.fault


@pytest.mark.parametrize("begins", [b"", b"1\r\na\r\n", b"0\r\n", b"0\r\na: b\r\n"])
def test_a_line_between_chunks_has_a_bound(begins: bytes) -> None:
    body = Chunked()
    body.feed(begins)
    for _ in range(MAX_LINES_BYTES // 1000 + 1):
        assert not body.fault
        body.feed(b"1" * 1000)
    assert "too long" in body.fault
    before = body.rest
    assert body.feed(b"\r\n") == b""
    assert body.rest == before + b"\r\n"


def test_a_large_chunk_is_handed_out_as_it_comes() -> None:
    body = Chunked()
    assert body.feed(b"100000\r\n") == b""
    for _ in range(16):
        assert body.feed(b"x" * 65_536) == b"x" * 65_536
        assert body.rest == b""
    assert body.feed(b"\r\n0\r\n\r\nmore") == b""
    assert (body.ended, body.rest, body.fault) == (True, b"more", "")


def test_chunks_of_every_size_are_read() -> None:
    body = Chunked()
    for size in [*range(1, 1200), *range(1, 1200)]:
        assert body.feed(f"{size:x}\r\n".encode() + b"x" * size + b"\r\n") == b"x" * size
    assert body.feed(b"000000000001\r\nx\r\n" * 2) == b"xx"


def test_what_came_before_a_fault_is_handed_out() -> None:
    body = Chunked()
    assert body.feed(b"3\r\nabc\r\n2\r\ndexx") == b"abcde"
    assert "after a chunk: b'xx'" in body.fault


def test_a_length_ends_where_it_says() -> None:
    body = Sized(5)
    assert (body.feed(b"abc"), body.ended) == (b"abc", False)
    assert (body.feed(b"defg"), body.ended, body.rest) == (b"de", True, b"fg")
    assert (body.feed(b"h"), body.rest) == (b"", b"fgh")
    body.close()
    assert body.fault == ""
    short = Sized(5)
    short.feed(b"ab")
    short.close()
    assert short.fault == "3 bytes of the body are missing"


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    body = UntilClosed()
    assert (body.feed(b"abc"), body.ended) == (b"abc", False)
    body.close()
    assert (body.ended, body.fault) == (True, "")


@pytest.mark.parametrize(
    ("method", "status", "headers", "kind", "is_over"),
    [
        ("POST", 200, {"transfer-encoding": "chunked", "content-length": "5"}, Chunked, False),
        ("POST", 200, {"content-length": "5"}, Sized, False),
        ("POST", 200, {"content-length": "5, 5"}, Sized, False),
        ("POST", 200, {"content-length": "0"}, Sized, True),
        ("HEAD", 200, {"transfer-encoding": "chunked"}, Sized, True),
        ("GET", 204, {"content-length": "5"}, Sized, True),
        ("GET", 304, {}, Sized, True),
        ("GET", 200, {}, UntilClosed, False),
    ],
)
def test_a_head_says_how_its_body_ends(
    method: str, status: int, headers: dict[str, str], kind: type[Body], is_over: bool
) -> None:
    body = body_of(method, status, headers)
    assert isinstance(body, kind)
    assert body.ended is is_over

"""Server-sent events according to the specification, whole or byte by byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.stream.events import StreamFault
from clew.core.stream.sse import ServerSentEvent, SseDecoder
from tests.core.stream.streams import cut
from tests.requirements import requirement

BOM = b"\xef\xbb\xbf"


def decode(*chunks: bytes, limit: int | None = None) -> list[ServerSentEvent | StreamFault]:
    decoder = SseDecoder(max_event_bytes=limit)
    return [event for chunk in chunks for event in decoder.feed(chunk)] + decoder.close()


def brief(events: list[ServerSentEvent | StreamFault]) -> list[tuple[str, str]]:
    return [(e.kind, "") if isinstance(e, StreamFault) else (e.event, e.text) for e in events]


@requirement("R050", "R051", "W2")
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"event: a\ndata: 1\n\n", [("a", "1")]),
        (b"event:a\ndata:1\n\n", [("a", "1")]),
        (b"data: 1\ndata\ndata:  2 \n\n", [("message", "1\n\n 2 ")]),
        (b"data:\n\n", [("message", "")]),
        (b"event: a\n\ndata: 1\n\n", [("message", "1")]),
        (b"event: a\nevent: b\ndata: 1\n\n", [("b", "1")]),
        (b"event: \ndata: 1\n\n", [("message", "1")]),
        (b"event\ndata: 1\n\n", [("message", "1")]),
        (b": comment\n\n:\n\n", []),
        (b":c\nevent: a\n: data: 0\ndata: 1\nfoo: bar\n Data: 2\n\n", [("a", "1")]),
        (b"\n\n\n\ndata: 1\n\n\n\n\ndata: 2\n\n", [("message", "1"), ("message", "2")]),
        (b"event: a\rdata: 1\r\revent: b\r\ndata: 2\r\n\r\n", [("a", "1"), ("b", "2")]),
        (BOM + b"event: a\ndata: 1\n\n", [("a", "1")]),
        (BOM + BOM + b"data: 1\n\n", []),
        (BOM + b"\n\ndata: 1\n\n", [("message", "1")]),
        (b"\n" + BOM + b"data: 1\n\n", []),
        (BOM[:2] + b"data: 1\n\ndata: 2\n\n", [("message", "2")]),
        ("data: a\u2028b\u0085c\x0bd\n\n".encode(), [("message", "a\u2028b\u0085c\x0bd")]),
        (b"data: \xff\n\n", [("message", "\ufffd")]),
        (b"event: \xff\ndata: 1\n\n", [("\ufffd", "1")]),
        (b"data: a\0b\n\n", [("message", "a\0b")]),
        (b"event: a\nid: 1\ndata: 2\n\n", [("a", "2")]),
        # The end: what has no blank line after it is reported, not dispatched.
        (b"data: 1", [("unfinished_event", "")]),
        (b"data: 1\n", [("unfinished_event", "")]),
        (b"data: 1\n\n: bye", [("message", "1")]),
        (b"data: 1\n\n\n", [("message", "1")]),
        (BOM, []),
        (BOM[:1], [("unfinished_event", "")]),
    ],
)
def test_events_by_the_rules(data: bytes, expected: list[tuple[str, str]]) -> None:
    assert brief(decode(data)) == expected
    assert brief(decode(*(data[i : i + 1] for i in range(len(data))))) == expected


def test_a_last_id_stays_and_a_bad_id_or_retry_is_no_one() -> None:
    decoder = SseDecoder()
    first, second, third = decoder.feed(
        b"id: 7\ndata: 1\n\nid: a\0b\nretry: 1500\ndata: 2\n\nid\nretry: x1\nretry: 1%s\ndata: 3\n\n"
        % (b"0" * 5000)
    )
    ids = [event.id for event in (first, second, third) if isinstance(event, ServerSentEvent)]
    assert ids == ["7", "7", ""]
    assert decoder.retry_ms == 1500
    assert decoder.last_event_id == ""


@requirement("R051")
def test_an_event_keeps_its_lines_as_they_came() -> None:
    (event,) = decode(b":c\r\nevent: a\r\nweird\r\ndata: 1\r\n\r\n")
    assert isinstance(event, ServerSentEvent)
    assert event.raw.split(b"\n") == [b":c", b"event: a", b"weird", b"data: 1"]


def test_what_was_unfinished_is_shown_by_its_beginning_only() -> None:
    (fault,) = decode(b"data: " + b"x" * 10_000)
    assert isinstance(fault, StreamFault)
    assert "10,006 bytes" in fault.message
    assert len(fault.excerpt) == 200


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_only_the_callers_limit_ends_a_stream_and_it_does_so_at_every_cut(step: int) -> None:
    data = BOM + b"data: 1234\n\n\ndata: 123\n\ndata: 12345\n\ndata: 1\n\n"
    pieces = [data[i : i + step] for i in range(0, len(data), step)]
    expected = [("message", "1234"), ("message", "123"), ("event_too_large", "")]
    assert brief(decode(*pieces, limit=10)) == expected


def test_a_byte_order_mark_counts_towards_no_limit_while_it_arrives() -> None:
    data = BOM + b"\n"
    assert decode(data, limit=1) == []
    assert decode(*(data[i : i + 1] for i in range(len(data))), limit=1) == []


def test_without_a_limit_an_event_may_be_of_any_size() -> None:
    (event,) = decode(b"data: " + b"x" * 3_000_000 + b"\n\n")
    assert isinstance(event, ServerSentEvent)
    assert len(event.data) == 3_000_000


lines_of_all_kinds = st.lists(
    st.sampled_from(
        [
            b"data: 1",
            b"data",
            b"data: \xe4\xb8\xad",
            b"event: a",
            b"event",
            b": c",
            b"id: 3",
            b"retry: 9",
            b"",
            b"",
            BOM,
        ]
    ),
    max_size=12,
)


@requirement("R049", "R052", "W2")
@given(lines_of_all_kinds, st.data())
def test_any_cut_gives_the_same_events(lines: list[bytes], choices: st.DataObject) -> None:
    ends = choices.draw(
        st.lists(st.sampled_from([b"\n", b"\r", b"\r\n"]), min_size=len(lines), max_size=len(lines))
    )
    data = b"".join(line + end for line, end in zip(lines, ends, strict=True))
    limit = choices.draw(st.none() | st.integers(1, 30))
    at = choices.draw(st.lists(st.integers(0, len(data))))
    whole = decode(data, limit=limit)
    assert decode(*cut(data, at), limit=limit) == whole
    assert decode(*(data[i : i + 1] for i in range(len(data))), limit=limit) == whole

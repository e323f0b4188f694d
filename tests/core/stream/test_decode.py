"""From bytes to event dicts: nothing is lost or invented, however the bytes are split."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.stream.decode import EventDecoder
from clew.core.stream.events import StreamFault
from tests.core.stream.streams import (
    MESSAGE_STOP,
    Json,
    answers,
    cut,
    delta,
    faults,
    sse,
    text,
    tool_input,
)
from tests.requirements import requirement

Decoded = list[Json | StreamFault]


def decode(*chunks: bytes, merge: bool = False) -> Decoded:
    decoder = EventDecoder(merge=merge)
    return [out for chunk in chunks for out in decoder.feed(chunk)] + decoder.close()


def joined(events: Decoded) -> Decoded:
    """The events with all neighbouring deltas of one block and kind made one."""
    out: Decoded = []
    for event in events:
        last = out[-1] if out else None
        if _ordinary(event) and _ordinary(last) and _place(event) == _place(last):
            field = _place(event)[2]
            both = last["delta"][field] + event["delta"][field]
            out[-1] = last | {"delta": last["delta"] | {field: both}}
        else:
            out.append(event)
    return out


FIELDS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}


def _ordinary(event: Any) -> bool:
    return isinstance(event, dict) and event.get("delta", {}).get("type") in FIELDS


def _place(event: Any) -> tuple[int, str, str]:
    kind = event["delta"]["type"]
    return event["index"], kind, FIELDS[kind]


@given(answers())
def test_every_event_comes_out_as_it_was_sent(events: list[Json]) -> None:
    assert decode(sse(*events)) == events


@pytest.mark.no_cover
@requirement("R049", "R052")
@given(answers(), st.data())
def test_any_cut_gives_the_same_events_merged_or_not(
    events: list[Json], data: st.DataObject
) -> None:
    body = sse(*events)
    at = data.draw(st.lists(st.integers(0, len(body)), max_size=20))
    assert decode(*cut(body, at)) == events
    for pieces in ([body], list(cut(body, at)), [body[i : i + 1] for i in range(len(body))]):
        assert joined(decode(*pieces, merge=True)) == joined(events)


def test_deltas_of_one_chunk_are_one_delta_as_far_as_order_allows() -> None:
    body = sse(
        text(0, "a"), text(0, "b"), {"type": "ping"}, text(0, "c"), text(1, "d"), text(1, "e")
    )
    body += sse(delta(1, "thinking_delta", thinking="f"), delta(1, "thinking_delta", thinking="g"))
    body += sse(tool_input(2, "{"), tool_input(2, "}"), MESSAGE_STOP)
    assert decode(body, merge=True) == [
        text(0, "ab"),
        {"type": "ping"},
        text(0, "c"),
        text(1, "de"),
        delta(1, "thinking_delta", thinking="fg"),
        tool_input(2, "{}"),
        MESSAGE_STOP,
    ]


@pytest.mark.parametrize(
    "unusual",
    [
        {**text(0, "b"), "new": 1},
        delta(0, "text_delta", text="b", new=[1]),
        delta(0, "text_delta", text=None),
        delta(0, "text_delta"),
        {**text(0, "b"), "index": "0"},
        delta(0, "newer_delta", words="b"),
        {"type": "content_block_delta"},
    ],
)
def test_an_unusual_delta_stays_itself_with_all_its_fields(unusual: Json) -> None:
    body = sse(text(0, "a"), unusual, text(0, "c"))
    assert decode(body, merge=True) == [text(0, "a"), unusual, text(0, "c")]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'data: {"type":"ping"}\n\n', [{"type": "ping"}]),
        (b'event: x\ndata: {"a":1}\n\n', [{"type": "x", "a": 1}]),
        (b'data: {"a":1}\n\n', [{"type": "message", "a": 1}]),
        (b'event: x\ndata: {"type":"y"}\n\n', [{"type": "y"}]),
        (b"event: ping\ndata\n\n", [{"type": "ping"}]),
        (b"event: ping\ndata: pong\n\n", [{"type": "ping"}]),
        (b"event: message_stop\ndata:\n\n", [{"type": "message_stop"}]),
        (b"data: \n\n", []),
        (b'event: e\ndata: {"type":\ndata: "y"}\n\n', [{"type": "y"}]),
        ('event: e\ndata: {"a":"\u2028\u0085"}\n\n'.encode(), [{"type": "e", "a": "\u2028\u0085"}]),
        (
            b'event: e\ndata: {"a":"\\ud83d","b":["\\ud83d\\ude00"]}\n\n',
            [{"type": "e", "a": "\ufffd", "b": ["😀"]}],
        ),
        (b'event: e\ndata: {"a":1e999}\n\n', [{"type": "e", "a": Decimal("1e999")}]),
    ],
)
def test_events_of_other_senders(body: bytes, expected: list[Json]) -> None:
    assert decode(body) == expected
    assert decode(body, merge=True) == expected


def test_half_a_character_is_left_only_where_its_other_half_may_follow() -> None:
    sent = delta(0, "text_delta", text="a\ud83d", other="\ud83d")
    expected = delta(0, "text_delta", text="a\ud83d", other="\ufffd")
    assert decode(sse(sent), merge=True) == [expected]
    strange = {"type": "content_block_delta", "delta": ["\ud83d"], "\ud83d": 1}
    assert decode(sse(strange)) == [
        {"type": "content_block_delta", "delta": ["\ufffd"], "\ufffd": 1}
    ]


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b'{"type":', "invalid_json"),
        (b'{"type":"a"}x', "invalid_json"),
        (b'{"a":NaN}', "invalid_json"),
        (b'{"a":"\xff"}', "invalid_utf8"),
        (b'{"\xff":1}', "invalid_utf8"),
        (b'{"a":"\x00"}', "invalid_json"),
        (b"[1]", "malformed_event"),
        (b"null", "malformed_event"),
        (b'["\\ud83d"]', "malformed_event"),
        (b'{"a":' + b"[" * 201 + b"]" * 201 + b"}", "malformed_event"),
        (b'{"a":' * 200_000 + b"1" + b"}" * 200_000, "invalid_json"),
        (b"[" * 200_000, "invalid_json"),
    ],
)
def test_data_that_is_no_event_is_a_fault_that_shows_its_beginning(
    data: bytes, kind: str, merge: bool
) -> None:
    body = b"event: content_block_delta\ndata: " + data + b"\n\n"
    (fault,) = decode(body, merge=merge)
    assert isinstance(fault, StreamFault)
    assert fault.kind == kind
    assert fault.fatal
    assert fault.excerpt == data[:200].decode("utf-8", "replace")


def test_many_brackets_are_not_depth() -> None:
    event = {"type": "e", "a": [[1], {"b": []}] * 500}
    assert decode(sse(event)) == [event]


def test_an_error_in_words_is_still_an_error() -> None:
    (fault,) = decode(b"event: error\ndata: upstream went away\n\n")
    assert isinstance(fault, StreamFault)
    assert (fault.kind, fault.message) == ("error_event", "upstream went away")


@pytest.mark.parametrize(
    "body",
    [b"<html>\n<body>\n\n502 Bad Gateway</body>", b"\x1f\x8b\x08\x00\x00", b'{"type":"error"}'],
)
def test_a_body_that_is_no_event_stream_is_shown_by_its_beginning(body: bytes) -> None:
    for found in (decode(body), decode(*(body[i : i + 1] for i in range(len(body))))):
        (fault,) = found
        assert isinstance(fault, StreamFault)
        assert fault.kind == "no_message"
        assert fault.excerpt == body.decode("utf-8", "replace")
    assert decode() == []


def test_a_stream_cut_inside_an_event_says_so() -> None:
    body = sse(text(0, "a"), text(0, "b"))
    assert faults(decode(body[:-1])) == ["unfinished_event"]
    assert decode(body[:-1])[0] == text(0, "a")


def test_data_of_a_line_break_in_json_is_json() -> None:
    assert decode(
        b"data: " + json.dumps({"type": "e"}, indent=1).replace("\n", "\ndata: ").encode() + b"\n\n"
    ) == [{"type": "e"}]

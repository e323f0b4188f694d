"""Payloads wrapped as base64, and the frames that carry them."""

import json
from base64 import b64encode

import pytest
from hypothesis import given

from clew.core.stream.aws_frames import KINDS, FrameEventDecoder, side_of, unwrap, wrap
from clew.core.stream.events import StreamFault
from tests.core.stream.frames import event_frame
from tests.core.stream.streams import Json, answer, finished, objects, run, start, stop, text
from tests.requirements import requirement


@requirement("R053", "W3")
@given(objects)
def test_what_is_wrapped_is_what_is_unwrapped(value: Json) -> None:
    wrapped = wrap(value)
    assert wrapped["encoding"] == "base64"
    assert unwrap(wrapped) == value
    assert unwrap({"bytes": wrapped["bytes"], "p": "padding"}) == value


@requirement("R053")
@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        ({}, "bad_payload"),
        ({"bytes": 3}, "bad_payload"),
        ({"bytes": "!!!!"}, "bad_payload"),
        ({"bytes": "abc"}, "bad_payload"),
        ({"bytes": "é"}, "bad_payload"),
        ({"bytes": "e30=", "encoding": "hex"}, "bad_payload"),
        ({"bytes": ""}, "invalid_json"),
        ({"bytes": b64encode(b"[]").decode()}, "malformed_event"),
        ({"bytes": b64encode(b'{"a":').decode()}, "invalid_json"),
        ({"bytes": b64encode(b'{"a":"\xff"}').decode()}, "invalid_utf8"),
    ],
)
def test_a_payload_that_cannot_be_unwrapped_is_a_fault(payload: Json, kind: str) -> None:
    fault = unwrap(payload)
    assert isinstance(fault, StreamFault)
    assert fault.kind == kind


@requirement("R053")
def test_both_sides_of_a_two_way_stream_are_told_apart() -> None:
    client = {"ContinuedUserInput", "ToolResultBlock", "ConversationTurnInput"}
    server = {"ContentBlockDelta", "ToolUseRequest", "Error", "Metadata"}
    assert {k for k in KINDS if side_of({"type": k}) == "client"} == client
    assert {k for k in KINDS if side_of({"type": k}) == "server"} == server
    assert side_of({"type": "Newer"}) is None
    assert side_of({"type": 3}) is None


def frames_of(events: list[Json]) -> bytes:
    return b"".join(event_frame(json.dumps(wrap(event)).encode()) for event in events)


@requirement("W3")
@pytest.mark.parametrize("step", [1, 7, 65536])
def test_an_answer_in_frames_is_the_answer(step: int) -> None:
    events = answer(start(0), text(0, "hel"), text(0, "lo"), stop(0))
    data = frames_of(events)
    decoder = FrameEventDecoder()
    found = [out for i in range(0, len(data), step) for out in decoder.feed(data[i : i + step])]
    assert found + decoder.close() == events
    assert finished(run(found)).message["content"] == [{"type": "text", "text": "hello"}]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            event_frame(
                b'{"message":"slow down"}',
                message_type="exception",
                exception_type="throttlingException",
            ),
            ("rate_limit_error", "slow down"),
        ),
        (
            event_frame(b"<html>", message_type="exception", exception_type="somethingNew"),
            ("somethingNew", "<html>"),
        ),
        (
            event_frame(b"{}", message_type="exception", exception_type="modelTimeoutException"),
            ("timeout_error", "modelTimeoutException"),
        ),
        (
            event_frame(
                b"", message_type="error", error_code="InternalFailure", error_message="oh"
            ),
            ("InternalFailure", "oh"),
        ),
    ],
)
def test_a_platforms_failures_are_named_as_the_api_names_them(
    data: bytes, expected: tuple[str, str]
) -> None:
    (fault,) = FrameEventDecoder().feed(data)
    assert isinstance(fault, StreamFault)
    assert fault.kind == "error_event"
    assert (fault.error_type, fault.message) == expected
    assert fault.error == dict(zip(("type", "message"), expected, strict=True))


def test_other_frames_pass_under_their_own_name() -> None:
    decoder = FrameEventDecoder()
    assert decoder.feed(event_frame(b"", event_type="initial-response")) == [
        {"type": "initial-response"}
    ]
    (fault,) = decoder.feed(event_frame(b"{"))
    assert isinstance(fault, StreamFault)
    assert fault.kind == "invalid_json"
    decoder.feed(b"\0")
    (fault,) = decoder.close()
    assert isinstance(fault, StreamFault)
    assert fault.kind == "unfinished_event"

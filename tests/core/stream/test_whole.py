"""A complete message has the same result as a streamed one."""

import json

import pytest
from hypothesis import given

from clew.core.stream.decode import events_of_body, events_of_message
from clew.core.stream.events import StreamFault, TextDelta
from tests.core.stream.streams import Json, answers, faults, finished, judged, run


@given(answers())
def test_a_streamed_message_told_again_is_itself(events: list[Json]) -> None:
    message = finished(run(events)).message
    told = run(events_of_message(message))
    assert finished(told).message == message
    assert finished(told).complete
    assert judged(told) == [b["id"] for b in message["content"] if b["type"] == "tool_use"]


def test_its_text_is_told_for_those_who_watch_deltas() -> None:
    body = {"type": "message", "role": "assistant", "content": "hello", "stop_reason": "end_turn"}
    told = run(events_of_body(json.dumps(body).encode()))
    assert [e.text for e in told if isinstance(e, TextDelta)] == ["hello"]
    assert finished(told).message == body | {
        "content": [{"type": "text", "text": "hello"}],
        "usage": {},
    }


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"type":"error","error":{"type":"overloaded_error","message":"m"}}', "error_event"),
        (b'{"type":"message"}', "malformed_event"),
        (b'{"content":{}}', "malformed_event"),
        (b"<html>", "invalid_json"),
        (b"[]", "malformed_event"),
        (b"", "invalid_json"),
    ],
)
def test_a_body_that_is_no_message_is_a_fault(body: bytes, kind: str) -> None:
    told = run(events_of_body(body))
    assert faults(told) == [kind]
    assert isinstance(told[0], StreamFault)
    assert len(told) == 1


def test_a_block_that_is_no_object_ends_the_message_there() -> None:
    told = run(
        events_of_message({"content": [{"type": "text", "text": "a"}, 3], "stop_reason": None})
    )
    assert faults(told)[0] == "malformed_event"
    assert finished(told).message["content"] == [{"type": "text", "text": "a"}]

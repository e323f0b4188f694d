"""Converse's frames become the events of the Messages API, whole or in any pieces."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.stream.accumulate import Accumulator
from clew.core.stream.converse import ConverseDecoder, events_of_converse
from clew.core.stream.events import StreamFault
from clew.core.stream.message_writer import Stamp
from clew.testing.wires import converse_events, event_frame

STAMP = Stamp(service="converse", wire="converse", model="nova", names={"short": "long_name"})
BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "I think."},
    {"type": "text", "text": "Looking."},
    {"type": "tool_use", "id": "call_1", "name": "short", "input": {"a": [1, "ü"]}},
    {"type": "tool_use", "id": "call_2", "name": "Read", "input": {}},
]


def data_of(events: list[tuple[str, Any]]) -> bytes:
    return b"".join(event_frame(kind, payload) for kind, payload in events)


def decode(*pieces: bytes) -> list[Any]:
    decoder = ConverseDecoder(STAMP)
    return [event for piece in pieces for event in decoder.feed(piece)] + decoder.close()


def message_of(events: list[Any]) -> Any:
    accumulator = Accumulator(new_tool_id=lambda: "own")
    for event in events:
        accumulator.feed(event)
    assert accumulator.state == "finished"
    return accumulator.message


WHOLE = data_of(converse_events(BLOCKS, 1))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, len(WHOLE)), max_size=6))
def test_every_cut_gives_the_same_message(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(WHOLE)]
    pieces = [WHOLE[a:b] for a, b in pairwise(places)]
    message = message_of(decode(*pieces))
    assert message == message_of(decode(WHOLE))
    kinds = [block["type"] for block in message["content"]]
    assert kinds == ["thinking", "text", "tool_use", "tool_use"]
    assert message["content"][0]["signature"]
    assert message["content"][2]["name"] == "long_name"
    assert message["content"][2]["input"] == {"a": [1, "ü"]}
    assert message["stop_reason"] == "tool_use"
    assert message["usage"]["input_tokens"] == 50
    assert message["usage"]["cache_read_input_tokens"] == 40


def test_odd_streams_lose_nothing_that_arrived() -> None:
    stop: Any = ("messageStop", {"stopReason": "end_turn"})
    usage: Any = ("metadata", {"usage": {}})
    hidden = {"delta": {"reasoningContent": {"redactedContent": "AAAA"}}, "contentBlockIndex": 0}
    text = {"delta": {"text": "Hi"}, "contentBlockIndex": 1}
    odd = [
        ("contentBlockStart", {"start": {"image": {}}}),
        ("contentBlockDelta", {"delta": {"odd": 1}}),
        ("contentBlockDelta", {"delta": {"toolUse": {"input": "{}"}}, "contentBlockIndex": 7}),
        ("contentBlockStop", {"contentBlockIndex": 9}),
        ("contentBlockDelta", hidden),
        ("contentBlockDelta", text),
    ]
    message = message_of(decode(data_of([*odd, stop, usage])))
    assert [block["type"] for block in message["content"]] == ["redacted_thinking", "text"]
    # Without metadata, the reason to stop is enough; after the end, nothing counts.
    assert message_of(decode(data_of([("contentBlockDelta", text), stop])))["content"]
    late = decode(data_of([("contentBlockDelta", text), stop, usage, ("contentBlockDelta", text)]))
    assert message_of(late)["content"] == [{"type": "text", "text": "Hi"}]
    assert decode(data_of([("contentBlockDelta", text)]))[-1]["type"] != "message_stop"


@pytest.mark.parametrize(
    ("reason", "stopped"),
    [
        ("max_tokens", "max_tokens"),
        ("guardrail_intervened", "refusal"),
        ("malformed_tool_use", None),
    ],
)
def test_the_reason_to_stop_is_kept_or_a_failure(reason: str, stopped: str | None) -> None:
    text = {"delta": {"text": "Hi"}, "contentBlockIndex": 0}
    events = [
        ("contentBlockDelta", text),
        ("messageStop", {"stopReason": reason}),
        ("metadata", {}),
    ]
    heard = decode(data_of(events))
    if stopped is None:
        assert heard[-1]["type"] == "error"
        assert reason in heard[-1]["error"]["message"]
    else:
        assert message_of(heard)["stop_reason"] == stopped


def test_a_broken_frame_and_an_exception_are_faults() -> None:
    assert isinstance(decode(b"\x00" * 40)[0], StreamFault)
    frame = event_frame("throttlingException", {"message": "slow down"})
    assert decode(frame.replace(b"event", b"event"))


def test_an_answer_that_was_not_streamed_is_the_same_message() -> None:
    body = (
        b'{"output":{"message":{"role":"assistant","content":['
        b'{"reasoningContent":{"reasoningText":{"text":"t","signature":"s"}}},'
        b'{"reasoningContent":{"redactedContent":"AA"}},{"text":"Hi"},{"odd":1},'
        b'{"toolUse":{"toolUseId":"c","name":"Read","input":{"a":1}}}]}},'
        b'"stopReason":"tool_use","usage":{"inputTokens":5,"outputTokens":6}}'
    )
    message = message_of(events_of_converse(body, STAMP))
    kinds = [block["type"] for block in message["content"]]
    assert kinds == ["thinking", "redacted_thinking", "text", "tool_use"]
    assert message["content"][3]["input"] == {"a": 1}
    assert message["usage"]["output_tokens"] == 6
    assert isinstance(events_of_converse(b"[", STAMP)[0], StreamFault)
    assert isinstance(events_of_converse(b"{}", STAMP)[0], StreamFault)

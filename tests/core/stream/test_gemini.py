"""Gemini's chunks as events of the Messages API; Google's own types judge what the tests let a service say."""

import itertools
import json
from typing import Any

import pytest
from google.genai import types as google

from clew.core.stream.accumulate import Accumulator
from clew.core.stream.events import BlockFinished, MessageFinished, StreamFault, ToolUseReady
from clew.core.stream.gemini import GeminiDecoder, events_of_gemini
from clew.core.stream.message_writer import Stamp
from clew.testing.wires import gemini_chunks

Json = dict[str, Any]
STAMP = Stamp(service="google", wire="gemini", model="gemini-3-pro", names={"short": "long_name"})
BLOCKS: list[Json] = [
    {"type": "thinking", "thinking": "I look at both."},
    {"type": "text", "text": "Looking."},
    {"type": "tool_use", "id": "call_1", "name": "Read", "input": {"file_path": "ä"}},
    {"type": "tool_use", "id": "call_2", "name": "short", "input": {}},
]
WORDS: list[Json] = [{"type": "text", "text": "All done."}]


def gather(events: list[Any]) -> list[Any]:
    numbers = itertools.count()
    answer = Accumulator(new_tool_id=lambda: f"toolu_{next(numbers)}")
    return [out for event in events for out in answer.feed(event)] + answer.close()


def heard(chunks: list[Json], size: int = 1 << 20) -> list[Any]:
    data = b"".join(b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n" for chunk in chunks)
    decoder = GeminiDecoder(STAMP)
    pieces = [data[i : i + size] for i in range(0, len(data), size)]
    events = [event for piece in pieces for event in decoder.feed(piece)] + decoder.close()
    return gather(events)


def chunk(*parts: Json, **more: Any) -> Json:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}} | more]}


def message(out: list[Any]) -> Json:
    (finished,) = [one for one in out if isinstance(one, MessageFinished)]
    assert not [one for one in out if isinstance(one, StreamFault)]
    return finished.message


def faults(out: list[Any]) -> list[StreamFault]:
    return [one for one in out if isinstance(one, StreamFault)]


def parts_of(out: list[Any]) -> list[Json]:
    ended = [one for one in out if isinstance(one, BlockFinished)]
    return [item for one in ended if one.origin for item in one.origin["items"]]


def parts_in(chunks: list[Json]) -> list[Json]:
    return [part for one in chunks for part in one["candidates"][0]["content"]["parts"]]


def test_parts_become_blocks_and_go_back_as_they_came() -> None:
    chunks = gemini_chunks(BLOCKS, 1)
    for one in chunks:
        google.GenerateContentResponse.model_validate(one)
    out = heard(chunks)
    said = message(out)
    kinds = [block["type"] for block in said["content"]]
    assert kinds == ["thinking", "text", "tool_use", "tool_use"]
    assert said["content"][2]["input"] == {"file_path": "ä"}
    assert said["content"][3]["name"] == "long_name"
    assert "secret" not in json.dumps(said)
    assert said["stop_reason"] == "tool_use"
    assert said["usage"] == {"input_tokens": 60, "cache_read_input_tokens": 40, "output_tokens": 20}
    assert parts_of(out) == parts_in(chunks)
    assert [one.block["id"] for one in out if isinstance(one, ToolUseReady)] == ["call_1", "call_2"]
    assert heard(chunks, 1) == out == heard(chunks, 7)
    done = gemini_chunks(WORDS, 2)
    assert message(heard(done))["stop_reason"] == "end_turn"
    assert parts_of(heard(done)) == parts_in(done), "the empty part with the signature is kept"


def test_a_response_in_one_piece_is_the_same() -> None:
    chunks = gemini_chunks(BLOCKS, 1)
    whole = chunks[-1] | chunk(*parts_in(chunks), finishReason="STOP")
    out = gather(events_of_gemini(json.dumps(whole).encode(), STAMP))
    assert (message(out), parts_of(out)) == (message(heard(chunks)), parts_of(heard(chunks)))
    (failed,) = events_of_gemini(b'{"error": {"status": "INTERNAL"}}')
    assert isinstance(failed, dict)
    for body in (b'{"id": 1}', b"{half", b"{}"):
        (fault,) = events_of_gemini(body)
        assert isinstance(fault, StreamFault)


def test_parts_of_no_known_kind_are_kept_and_calls_without_an_id_get_one() -> None:
    odd, call = {"executableCode": {"code": "1"}}, {"functionCall": {"name": "Read"}}
    out = heard([chunk(odd, call, odd, call, finishReason="STOP"), {"candidates": ["odd"]}])
    assert {fault.kind for fault in faults(out)} == {"missing_tool_id"}, "the accumulator gives one"
    (finished,) = [one for one in out if isinstance(one, MessageFinished)]
    uses = finished.message["content"]
    assert [(use["input"], bool(use["id"])) for use in uses] == [({}, True)] * 2
    assert parts_of(out) == [odd, call, odd, call]
    bare = {"candidates": [{"content": {"parts": ["odd", {"text": "a"}]}, "finishReason": "STOP"}]}
    assert message(heard([bare]))["content"] == [{"type": "text", "text": "a"}]


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("MAX_TOKENS", "max_tokens"), ("SAFETY", "refusal"), ("RECITATION", "refusal"), ("NEW", "end_turn")],
)  # fmt: skip
def test_why_a_response_ends(reason: str, stop: str) -> None:
    assert message(heard([chunk({"text": "Wo"}, finishReason=reason)]))["stop_reason"] == stop


def test_a_blocked_request_is_a_refusal() -> None:
    assert (
        message(heard([{"promptFeedback": {"blockReason": "OTHER"}}]))["stop_reason"] == "refusal"
    )


@pytest.mark.parametrize(
    ("chunks", "kind"),
    [
        ([chunk({"text": "a"}), {"error": {"code": 503, "status": "UNAVAILABLE", "message": "x"}}], "UNAVAILABLE"),
        ([{"error": {"code": 500}}, chunk({"text": "a"}, finishReason="STOP")], "500"),
        ([{"error": {}}], None),
        ([chunk(finishReason="MALFORMED_FUNCTION_CALL", finishMessage="print(")], "api_error"),
        ([chunk({"text": "hm", "thought": True}, finishReason="STOP")], "api_error"),
        ([chunk(finishReason="STOP")], "api_error"),
    ],
)  # fmt: skip
def test_what_fails_is_tried_again_by_its_type(chunks: list[Json], kind: str | None) -> None:
    (fault,) = faults(heard(chunks))
    assert (fault.kind, fault.error_type) == ("error_event", kind)


def test_a_response_that_breaks_off_is_incomplete() -> None:
    out = heard(gemini_chunks(BLOCKS, 1)[:-1])
    assert [one.complete for one in out if isinstance(one, MessageFinished)] == [False]

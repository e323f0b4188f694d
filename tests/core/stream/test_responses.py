"""Responses as events of the Messages API; OpenAI's own types judge what the tests let a service say."""

import copy
import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from clew.core.stream.accumulate import Accumulator
from clew.core.stream.events import BlockFinished, MessageFinished, StreamFault, ToolUseReady
from clew.core.stream.message_writer import Stamp
from clew.core.stream.responses import ResponsesDecoder, events_of_response
from clew.testing.wires import response_events, response_items

Json = dict[str, Any]
STAMP = Stamp(service="openai", wire="responses", model="gpt-6-sol", names={"short": "long_name"})
BLOCKS: list[Json] = [
    {"type": "thinking", "thinking": "I look at both."},
    {"type": "text", "text": "Looking."},
    {"type": "thinking", "thinking": ""},
    {"type": "tool_use", "id": "call_1", "name": "Read", "input": {"file_path": "a"}},
    {"type": "tool_use", "id": "call_2", "name": "short", "input": {}},
]


def heard(events: list[Json], size: int = 1 << 20, *, done: bool = False) -> list[Any]:
    data = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    return heard_bytes(data + (b"data: [DONE]\n\n" if done else b""), size)


def heard_bytes(data: bytes, size: int = 1 << 20) -> list[Any]:
    numbers = itertools.count()
    decoder = ResponsesDecoder(STAMP)
    answer = Accumulator(new_tool_id=lambda: f"toolu_{next(numbers)}")
    pieces = [data[i : i + size] for i in range(0, len(data), size)]
    events = [event for piece in pieces for event in decoder.feed(piece)] + decoder.close()
    return [out for event in events for out in answer.feed(event)] + answer.close()


def message(out: list[Any]) -> Json:
    (finished,) = [one for one in out if isinstance(one, MessageFinished)]
    assert not [one for one in out if isinstance(one, StreamFault)]
    return finished.message


def items(out: list[Any]) -> list[Json]:
    ended = [one for one in out if isinstance(one, BlockFinished)]
    return [item for one in ended if one.origin for item in one.origin["items"]]


def test_what_the_service_says_is_valid_for_the_official_types() -> None:
    official = TypeAdapter(ResponseStreamEvent)
    for event in response_events(BLOCKS, 1):
        official.validate_python(event)


def test_items_become_blocks_and_keep_their_origin() -> None:
    out = heard(response_events(BLOCKS, 1))
    said = message(out)
    kinds = [block["type"] for block in said["content"]]
    assert kinds == ["thinking", "text", "tool_use", "tool_use"], "a blank thought has no block"
    assert all(block.get("signature", "") == "" for block in said["content"])
    assert said["content"][2]["input"] == {"file_path": "a"}
    assert said["content"][3]["name"] == "long_name"
    assert said["stop_reason"] == "tool_use"
    assert said["usage"] == {
        "input_tokens": 50,
        "cache_read_input_tokens": 40,
        "cache_creation_input_tokens": 10,
        "output_tokens": 20,
    }
    assert items(out) == response_items(BLOCKS, 1), "each item, in its order, as it came"
    assert [one.block["id"] for one in out if isinstance(one, ToolUseReady)] == ["call_1", "call_2"]
    assert heard(response_events(BLOCKS, 1), 1) == out
    assert heard(response_events(BLOCKS, 1), 7, done=True) == out


def test_a_server_that_numbers_nothing_is_understood() -> None:
    bare = [
        {k: v for k, v in event.items() if k not in ("sequence_number", "output_index")}
        for event in response_events(BLOCKS, 1)
    ]
    assert heard(bare) == heard(response_events(BLOCKS, 1))


def test_a_response_in_one_piece_or_only_at_the_end_is_the_same() -> None:
    streamed = message(heard(response_events(BLOCKS, 1)))
    first, *_, last = response_events(BLOCKS, 1)
    assert message(heard([first, last])) == streamed
    answer = Accumulator(new_tool_id=lambda: "t")
    whole = events_of_response(json.dumps(last["response"]).encode(), STAMP)
    assert message([one for event in whole for one in answer.feed(event)]) == streamed
    only_done = [e for e in response_events(BLOCKS, 1) if not e["type"].endswith("delta")]
    assert message(heard(only_done)) == streamed


@pytest.mark.no_cover
@given(st.randoms(use_true_random=False))
def test_items_whose_events_interleave_give_the_same_message(random: Any) -> None:
    first, second, *events, last = response_events(BLOCKS, 1)
    queues = [[e for e in events if e["output_index"] == i] for i in range(len(BLOCKS))]
    mixed = [first, second]
    while any(queues):
        mixed.append(random.choice([q for q in queues if q]).pop(0))
    assert message(heard([*mixed, last])) == message(heard(response_events(BLOCKS, 1)))
    assert items(heard([*mixed, last])) == response_items(BLOCKS, 1)


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "slow", "param": None}, "rate_limit_exceeded"),
        ({"type": "error", "error": {"type": "server_error", "message": "x"}}, "server_error"),
        ({"type": "response.failed", "response": {"status": "failed", "error": {"code": "server_error", "message": "x"}}}, "server_error"),
        ({"type": "response.failed", "response": {"status": "failed", "error": None}}, None),
        ({"error": {"type": "x", "message": "x"}}, "x"),
    ],
)  # fmt: skip
def test_a_failure_in_the_stream_is_one(event: Json, kind: str | None) -> None:
    out = heard([response_events(BLOCKS, 1)[0], event, response_events(BLOCKS, 1)[-1]])
    (fault,) = [one for one in out if isinstance(one, StreamFault)]
    assert (fault.kind, fault.error_type) == ("error_event", kind)


@pytest.mark.parametrize(
    ("reason", "stop"), [("max_output_tokens", "max_tokens"), ("content_filter", "refusal")]
)
def test_an_incomplete_response_runs_no_unfinished_call(reason: str, stop: str) -> None:
    events = response_events([{"type": "text", "text": "Wo"}, BLOCKS[3]], 1)
    cut = next(i for i, e in enumerate(events) if e["type"].endswith("arguments.delta"))
    end = copy.deepcopy(events[-1])
    end["type"] = "response.incomplete"
    end["response"] |= {
        "status": "incomplete",
        "incomplete_details": {"reason": reason},
        "output": [],
    }
    out = heard([*events[: cut + 1], end])
    (finished,) = [one for one in out if isinstance(one, MessageFinished)]
    assert finished.message["stop_reason"] == stop
    assert not [one for one in out if isinstance(one, ToolUseReady)]
    cut_item = events[-2]["item"] | {"status": "incomplete", "arguments": '{"a'}
    out = heard([*events[: cut + 1], events[-2] | {"item": cut_item}, end])
    assert not [one for one in out if isinstance(one, ToolUseReady)]


def test_reasoning_alone_is_no_answer_and_differing_arguments_are_none() -> None:
    out = heard(response_events([BLOCKS[2]], 1))
    assert [one.kind for one in out if isinstance(one, StreamFault)] == ["error_event"]
    events = response_events([BLOCKS[3]], 1)
    odd = [e | {"arguments": "{}"} if e["type"].endswith("arguments.done") else e for e in events]
    assert [one.kind for one in heard(odd) if isinstance(one, StreamFault)] == ["error_event"]
    thought = message(heard(response_events([{"type": "text", "text": "x"}, BLOCKS[2]], 1)))
    assert [b["type"] for b in thought["content"]] == ["text", "thinking"]


def test_what_is_no_response_is_said() -> None:
    for data in (b"<html>no</html>", b": note\n\n"):
        assert next(f.kind for f in heard_bytes(data) if isinstance(f, StreamFault)) == "no_message"
    for body in (b'{"id": 1}', b"{half"):
        (fault,) = events_of_response(body)
        assert isinstance(fault, StreamFault)


def test_summaries_are_paragraphs_and_a_late_name_is_waited_for() -> None:
    def piece(part: int, text: str) -> Json:
        kind = "response.reasoning_summary_text.delta"
        return {"type": kind, "output_index": 0, "summary_index": part, "delta": text}

    first, *_, last = response_events([BLOCKS[3]], 1)
    item = {"id": "rs", "type": "reasoning", "summary": []}
    call = {"type": "response.function_call_arguments.delta", "output_index": 1, "item_id": "x"}
    done = {
        "output_index": 1,
        "item": response_items([BLOCKS[3]], 1)[0],
        "type": "response.output_item.done",
    }
    end = last | {"response": last["response"] | {"output": []}}
    stop = {"type": "response.output_item.done", "output_index": 0, "item": item}
    pieces = [
        piece(0, "One"),
        piece(0, "."),
        piece(1, "Two."),
        piece(1, ""),
        stop,
        piece(1, "late"),
        stop,
    ]
    out = heard([first, *pieces, call | {"delta": '{"file_'}, done, end])
    said = message(out)
    assert said["content"][0]["thinking"] == "One.\n\nTwo."
    assert said["content"][1]["input"] == {"file_path": "a"}


def test_late_texts_and_unfinished_items_at_the_end_add_nothing() -> None:
    events = response_events([BLOCKS[1], BLOCKS[3]], 1)
    end = events[-1]["response"]
    text, call = end["output"]
    late = {"type": "response.output_text.done", "output_index": 0, "text": "again"}
    odd = {"type": "response.output_item.done", "output_index": 7}
    assert message(heard([*events[:-1], late, events[-1]])) == message(heard(events))
    assert not [
        one for one in heard([*events[:-1], odd, events[-1]]) if isinstance(one, StreamFault)
    ]
    cut = {"output": [text, call | {"status": "in_progress"}]}
    said = message(heard([events[0], events[-1] | {"response": end | cut}]))
    assert [block["type"] for block in said["content"]] == ["text"]

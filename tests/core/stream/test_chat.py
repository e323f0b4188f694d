"""Chat completions as events of the Messages API: every shape that servers send, whole and cut anywhere."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.json_object import Json
from clew.core.stream.accumulate import Accumulator
from clew.core.stream.chat import ChatDecoder, ChatEvents, events_of_completion
from clew.core.stream.events import MessageFinished, StreamFault, ToolUseReady, ToolUseUnusable


def chunk(delta: Any = None, finish: Any = None, **more: Any) -> Json:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return {"id": "c", "model": "gpt-9", "choices": [choice], **more}


def body(*chunks: Json, done: bool = True) -> bytes:
    lines = [b"data: " + json.dumps(one).encode() + b"\n\n" for one in chunks]
    return b"".join([*lines, b"data: [DONE]\n\n"] if done else lines)


def heard(data: bytes, size: int = 0) -> list[Any]:
    decoder, answer = ChatDecoder(), Accumulator(new_tool_id=lambda: "toolu_new")
    pieces = [data[i : i + size] for i in range(0, len(data), size)] if size else [data]
    events = [event for piece in pieces for event in decoder.feed(piece)] + decoder.close()
    return [out for event in events for out in answer.feed(event)] + answer.close()


def message(out: list[Any]) -> Json:
    (finished,) = [one for one in out if isinstance(one, MessageFinished)]
    return finished.message


def faults(out: list[Any]) -> list[str]:
    return [one.kind for one in out if isinstance(one, StreamFault)]


def call(index: Any, arguments: Any, **more: Any) -> Json:
    name = more.pop("name", None)
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return {"tool_calls": [{"index": index, "function": function, **more}]}


TALK = body(
    chunk({"role": "assistant", "content": ""}),
    chunk({"reasoning_content": "Let me "}),
    chunk({"reasoning": "think."}),
    chunk({"content": "Hé"}),
    chunk({"content": [{"type": "text", "text": "llo"}, 5, {"type": "x"}]}),
    chunk(call(0, "", id="call_1", name="Read")),
    chunk(call(1, "", id="call_2", name="Grep")),
    chunk(call(0, '{"file_')),
    chunk(call(1, '{"pattern": "x"}')),
    chunk(call(0, 'path": "a"}')),
    chunk({}, "tool_calls"),
    {"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 4}},
)


def test_an_answer_with_thinking_blocks_words_and_two_calls_side_by_side() -> None:
    out = heard(TALK)
    said = message(out)
    assert [block["type"] for block in said["content"]] == [
        "thinking",
        "text",
        "tool_use",
        "tool_use",
    ]
    assert said["content"][0]["thinking"] == "Let me think."
    assert said["content"][1]["text"] == "Héllo"
    assert said["content"][2]["input"] == {"file_path": "a"}
    assert said["stop_reason"] == "tool_use"
    assert said["model"] == "gpt-9"
    assert said["usage"]["input_tokens"] == 30
    assert said["usage"]["output_tokens"] == 4
    assert [one.block["id"] for one in out if isinstance(one, ToolUseReady)] == ["call_1", "call_2"]
    assert faults(out) == []


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_cuts_anywhere_change_nothing(size: int) -> None:
    assert message(heard(TALK, size)) == message(heard(TALK))


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal"), ("odd", "odd")],
)
def test_reasons_to_stop_go_by_our_names(reason: str, stop: str) -> None:
    assert message(heard(body(chunk({"content": "x"}), chunk({}, reason))))["stop_reason"] == stop


def test_a_call_with_the_wrong_reason_is_a_call_all_the_same() -> None:
    out = heard(body(chunk(call(0, "{}", id="c", name="Read")), chunk({}, "stop")))
    assert message(out)["stop_reason"] == "tool_use"
    assert [type(one) for one in out if isinstance(one, ToolUseReady)] == [ToolUseReady]


def test_a_call_that_was_cut_by_length_may_not_run() -> None:
    out = heard(body(chunk(call(0, '{"a": 1', id="c", name="Read")), chunk({}, "length")))
    assert not any(isinstance(one, ToolUseReady) for one in out)
    assert any(isinstance(one, ToolUseUnusable) for one in out)


def test_calls_without_numbers_or_ids_or_with_an_object_for_arguments() -> None:
    whole = {"tool_calls": [
        {"id": "one", "function": {"name": "Read", "arguments": {"file_path": "a"}}},
        {"function": {"name": "Grep", "arguments": "{}"}},
        "no call",
    ]}  # fmt: skip
    said = message(heard(body(chunk(whole), chunk({}, "tool_calls"))))
    read, grep, nothing = said["content"]
    assert (read["id"], read["input"]) == ("one", {"file_path": "a"})
    assert (grep["name"], grep["input"]) == ("Grep", {})
    assert nothing["name"] == "unnamed"


def test_a_refusal_is_words() -> None:
    assert message(heard(body(chunk({"refusal": "No."}), chunk({}, "stop"))))["content"] == [
        {"type": "text", "text": "No."}
    ]


def test_words_after_thinking_blocks_after_words_are_blocks_in_their_order() -> None:
    said = message(heard(body(
        chunk({"content": "a"}), chunk({"reasoning": "b"}), chunk({"content": "c"}), chunk({}, "stop")
    )))  # fmt: skip
    assert [b["type"] for b in said["content"]] == ["text", "thinking", "text"]


def test_what_is_read_from_a_cache_is_counted_once() -> None:
    details = {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 400}}
    usage = message(heard(body(chunk({"content": "a"}, "stop", usage=details))))["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (0, 100)


def test_the_last_mark_may_be_missing_and_the_reason_may_not() -> None:
    assert faults(heard(body(chunk({"content": "a"}, "stop"), done=False))) == []
    assert faults(heard(body(chunk({"content": "a"}), done=False))) == ["cut_short"]
    assert faults(heard(body(chunk({"content": "a"})))) == ["cut_short"]
    assert faults(heard(body(chunk({"content": "a"}), done=False) + b"data: {half")) == [
        "unfinished_event"
    ]


def test_what_comes_after_the_end_says_nothing() -> None:
    after = body(chunk({"content": "late"}))
    out = heard(body(chunk({"content": "a"}, "stop"), chunk({"content": "b"})) + after)
    assert message(out)["content"] == [{"type": "text", "text": "a"}]


@pytest.mark.parametrize("error", [{"message": "busy", "type": "server_error"}, "busy"])
def test_an_error_within_the_stream_is_one(error: Any) -> None:
    out = heard(body(chunk({"content": "a"}), {"error": error}, chunk({"content": "b"}, "stop")))
    (fault,) = [one for one in out if isinstance(one, StreamFault)]
    assert (fault.kind, fault.message) == ("error_event", "busy")


def test_what_is_no_stream_is_said() -> None:
    assert faults(heard(b"<html>no</html>"))[0] == "no_message"
    assert faults(heard(b"data: [1]\n\ndata: {oops\n\n"))[0] == "malformed_event"
    assert faults(heard(b": only a comment\n\ndata: \n\n")) == ["no_message"]
    assert faults(heard(b"")) == ["no_message"]
    limited = ChatDecoder(max_event_bytes=10)
    assert [type(one) for one in limited.feed(b"data: " + b"x" * 50)] == [StreamFault]


def test_an_answer_in_one_piece() -> None:
    whole = {
        "id": "c",
        "model": "gpt-9",
        "choices": [{"index": 0, "message": {"content": "Hi."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    }
    answer = Accumulator(new_tool_id=lambda: "t")
    events = events_of_completion(json.dumps(whole).encode())
    out = [one for event in events for one in answer.feed(event)]
    assert message(out)["content"] == [{"type": "text", "text": "Hi."}]
    for bad, kind in (
        (b"{half", "invalid_json"),
        (b'{"choices": [3, {"index": 1}]}', "malformed_event"),
    ):
        (fault,) = events_of_completion(bad)
        assert isinstance(fault, StreamFault)
        assert fault.kind == kind
    assert events_of_completion(b'{"error": {"message": "no"}}') == [
        {"type": "error", "error": {"message": "no"}}
    ]


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["choices", "delta", "message", "content", "tool_calls", "function", "index", "id", "name",
             "arguments", "finish_reason", "usage", "error", "text", "reasoning", "prompt_tokens_details"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(
    st.lists(st.dictionaries(st.sampled_from(["choices", "usage", "error", "id"]), ANY), max_size=4)
)
def test_no_chunk_breaks_anything(chunks: list[Json]) -> None:
    events, answer = ChatEvents(), Accumulator(new_tool_id=lambda: "toolu_new")
    for one in [*chunks, chunk({"content": "x"}, "stop")]:
        for event in events.take(one):
            answer.feed(event)
    for event in events.done():
        answer.feed(event)
    answer.close()
    assert answer.state == "finished"

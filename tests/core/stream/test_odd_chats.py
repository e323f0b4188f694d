"""Odd streams of chat completions are read as what they mean, whole and in pieces."""

import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletionAssistantMessageParam
from pydantic import TypeAdapter

from clew.core.catalog.quirks import QUIRKS, Quirks
from clew.core.normalize.dialects import merge_parts, to_openai
from clew.core.stream.accumulate import Accumulator
from clew.core.stream.chat import ChatDecoder
from clew.core.stream.events import BlockFinished, MessageFinished, StreamFault, ToolUseReady
from clew.core.stream.message_writer import Stamp
from tests.core.stream.odd_chats import ODD, Odd

STAMP = Stamp(service="s", wire="chat", model="m")


def heard(odd: Odd, size: int = 1 << 20) -> list[Any]:
    lines = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in odd.chunks]
    data = b": note\n\n" + b"".join([*lines, b"data: [DONE]\n\n"])
    numbers = iter(range(99))
    decoder, answer = ChatDecoder(STAMP), Accumulator(new_tool_id=lambda: f"toolu_{next(numbers)}")
    pieces = [data[i : i + size] for i in range(0, len(data), size)]
    events = [event for piece in pieces for event in decoder.feed(piece)] + decoder.close()
    return [out for event in events for out in answer.feed(event)] + answer.close()


@pytest.mark.parametrize("name", ODD)
def test_an_odd_stream_is_read_as_what_it_means(name: str) -> None:
    odd = ODD[name]
    out = heard(odd)
    faults = [one for one in out if isinstance(one, StreamFault) and one.kind == "error_event"]
    if odd.error is not None:
        (fault,) = faults
        assert odd.error in (fault.error or {}).values()
        return
    assert not [one for one in out if isinstance(one, StreamFault) and one.fatal]
    (finished,) = [one for one in out if isinstance(one, MessageFinished)]
    message = finished.message
    blocks = message["content"]
    assert (message["model"], message["stop_reason"]) == ("m", odd.stop)
    assert "".join(b["text"] for b in blocks if b["type"] == "text") == odd.text
    assert "".join(b["thinking"] for b in blocks if b["type"] == "thinking") == odd.thinking
    ready = [one.block for one in out if isinstance(one, ToolUseReady)]
    assert [(b["name"], b["input"]) for b in ready] == list(odd.calls)
    assert len({b["id"] for b in ready}) == len(ready), "each call has an ID of its own"
    assert message["usage"] | (odd.usage or {}) == message["usage"]
    ended = [one.index for one in out if isinstance(one, BlockFinished)]
    assert ended == sorted(ended), "blocks end in their order"
    assert out == heard(odd, 1), "byte by byte"


@pytest.mark.parametrize("name", [name for name, odd in ODD.items() if odd.back])
def test_the_service_gets_its_own_words_back(name: str) -> None:
    odd = ODD[name]
    assert odd.back is not None
    service, wanted = odd.back
    ended = [one for one in heard(odd) if isinstance(one, BlockFinished)]
    items = [item for one in ended if one.origin for item in one.origin["items"]]
    sent = merge_parts(items, QUIRKS[service])
    assert sent is not None
    assert sent | wanted == sent
    if service == "gemini":
        TypeAdapter(ChatCompletionAssistantMessageParam).validate_python(sent)
    canonical = [one.block for one in ended]
    calls = [block for block in canonical if block["type"] == "tool_use"]
    message = {"role": "assistant", "content": canonical, "origin": items}
    (own,) = to_openai([message], quirks=QUIRKS[service])["messages"]
    assert own | wanted == own
    assert len(own.get("tool_calls", [])) == len(calls)
    other = merge_parts(items, Quirks())
    assert other is not None
    assert not {"reasoning", "reasoning_content", "reasoning_details"} & set(other)
    assert odd.thinking == "" or odd.thinking not in json.dumps(other)


def test_parts_that_cannot_be_read_are_not_used() -> None:
    content = [{"type": "tool_use", "id": "c1", "name": "Read", "input": {"a": 1}}]
    own = {"function": {"name": "Read", "arguments": '{"a": 1'}, "id": "c1"}
    for items in ([5], [{"tool_calls": [own]}], [{"tool_calls": [5]}], [{"content": "x"}]):
        message = {"role": "assistant", "content": content, "origin": items}
        (sent,) = to_openai([message])["messages"]
        assert sent["tool_calls"][0]["function"]["arguments"] == '{"a":1}'


def test_calls_of_the_service_without_ids_get_ids() -> None:
    content = [{"type": "tool_use", "id": f"toolu_{n}", "name": "R", "input": {}} for n in (1, 2)]
    own = {"tool_calls": [{"id": "", "function": {"name": "R", "arguments": "{}"}}]}
    results = [{"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": "x"} for n in (1, 2)]
    answer = {"role": "assistant", "content": content, "origin": [own, own]}
    sent = to_openai([answer, {"role": "user", "content": results}])["messages"]
    ids = [call["id"] for call in sent[0]["tool_calls"]]
    assert len(set(ids)) == 2
    assert [message["tool_call_id"] for message in sent[1:]] == ids

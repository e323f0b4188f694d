"""One reader for an answer: bytes in, events and the message out, on every wire."""

import json
from typing import Any

import pytest

from clew.core.stream.answer_reader import AnswerReader, Wire
from clew.core.stream.events import AnswerEvent, MessageFinished, TextDelta, ToolUseReady

CALL = {"type": "tool_use", "id": "toolu_9", "name": "Read", "input": {}}
MESSAGES: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "content": [], "usage": {}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Look: ü"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": CALL},
    {"type": "content_block_delta", "index": 1,
     "delta": {"type": "input_json_delta", "partial_json": '{"file_path": "/a"}'}},
    {"type": "content_block_stop", "index": 1},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
]  # fmt: skip
CHAT: list[dict[str, Any]] = [
    {"id": "c1", "model": "m", "choices": [{"index": 0, "delta": {"content": "Look: ü"}}]},
    {"id": "c1", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
]


def stream(events: list[dict[str, Any]], end: str = "") -> bytes:
    texts = [f"event: {e.get('type', 'x')}\ndata: {json.dumps(e)}\n\n" for e in events]
    return ("".join(texts) + end).encode()


def read(data: bytes, size: int, wire: Wire = "messages") -> tuple[list[AnswerEvent], Any]:
    reader = AnswerReader(wire)
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    events = [event for piece in pieces for event in reader.feed(piece)]
    events += reader.close()
    assert reader.close() == []
    return events, reader.message


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_the_same_bytes_give_the_same_answer_in_any_pieces(size: int) -> None:
    events, message = read(stream(MESSAGES), size)
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "Look: ü"
    (ready,) = (e for e in events if isinstance(e, ToolUseReady))
    assert ready.block == CALL | {"input": {"file_path": "/a"}}
    assert [block["type"] for block in message["content"]] == ["text", "tool_use"]


def test_other_wires_give_the_same_kind_of_message() -> None:
    _, message = read(stream(CHAT, "data: [DONE]\n\n"), 10, "chat")
    assert [block["text"] for block in message["content"]] == ["Look: ü"]


def test_an_answer_that_is_cut_ends_with_what_arrived() -> None:
    events, message = read(stream(MESSAGES[:3]), 50)
    (end,) = (e for e in events if isinstance(e, MessageFinished))
    assert not end.complete
    assert "Look: ü" in str(message["content"])
    assert read(b"", 1) == (read(b"", 1)[0], None)


def test_a_call_without_an_id_gets_one() -> None:
    nameless = [dict(e) for e in MESSAGES]
    nameless[4] = MESSAGES[4] | {"content_block": CALL | {"id": ""}}
    _, message = read(stream(nameless), 100_000)
    assert message["content"][1]["id"] == "toolu_1"
    taken = AnswerReader(new_tool_id=lambda: "toolu_new", taken_tool_ids={"toolu_9"})
    taken.feed(stream(MESSAGES))
    assert taken.message is not None
    assert taken.message["content"][1]["id"] == "toolu_new"


def test_an_unknown_wire_and_text_in_place_of_bytes_are_refused() -> None:
    wrong: Any = "message"
    with pytest.raises(ValueError, match="wire: expected one of messages, chat, responses"):
        AnswerReader(wrong)
    with pytest.raises(TypeError, match="chunk: expected bytes, got str"):
        AnswerReader().feed(wrong)

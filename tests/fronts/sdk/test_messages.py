"""Frames as typed values; a frame of an unknown type keeps all of its data."""

import msgspec

from clew.fronts.sdk.messages import (
    Assistant,
    Message,
    Other,
    OtherBlock,
    Result,
    Thinking,
    ToolResult,
    ToolUse,
    User,
    read,
    read_entry,
)

ENDED = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "session_id": "s",
    "terminal_reason": "completed",
    "num_turns": 1,
    "duration_ms": 5,
    "total_cost_usd": 0.0,
    "usage": {},
}


def test_blocks_are_typed_and_unknown_ones_kept() -> None:
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "tool_use", "id": "t", "name": "Bash", "input": {"a": 1}},
        {"type": "server_tool_use", "id": "s"},
    ]
    said = read({"type": "assistant", "uuid": "u", "message": {"content": content, "model": "m"}})
    assert isinstance(said, Assistant)
    assert said.content == (
        Thinking(thinking="hm"),
        ToolUse(id="t", name="Bash", input={"a": 1}),
        OtherBlock(data={"type": "server_tool_use", "id": "s"}),
    )
    result = {"type": "tool_result", "tool_use_id": "t", "content": "x", "is_error": True}
    said = read({"type": "user", "uuid": "u", "message": {"content": [result]}})
    assert isinstance(said, User)
    assert said.content == (ToolResult(tool_use_id="t", content="x", is_error=True),)
    assert read({"type": "new", "a": 1}) == Other(data={"type": "new", "a": 1})
    assert read({"type": "user", "uuid": "u", "message": {"content": "x"}})


def test_a_result_holds_its_deferred_call() -> None:
    call = {"id": "t", "name": "Bash", "input": {"a": 1}}
    for frame, deferred in (
        ({**ENDED, "deferred_tool_use": call}, ToolUse(id="t", name="Bash", input={"a": 1})),
        (ENDED, None),
    ):
        result = read(frame)
        assert isinstance(result, Result)
        assert result.deferred == deferred


def test_live_and_stored_answers_have_the_same_fields_and_name_their_kind() -> None:
    message = {
        "id": "msg_1",
        "model": "m",
        "content": [{"type": "text", "text": "Hi"}, {"type": "image"}],
        "usage": {"output_tokens": 2},
        "stop_reason": "end_turn",
    }
    entry = {"type": "assistant", "uuid": "u", "message": message}
    live, stored = read(entry), read_entry(entry)
    assert live == stored
    assert isinstance(live, Assistant)
    assert (live.message_id, live.stop_reason, live.usage) == (
        "msg_1", "end_turn", {"output_tokens": 2}
    )  # fmt: skip
    encoded = msgspec.json.encode(live)
    assert [block["type"] for block in msgspec.json.decode(encoded)["content"]] == ["text", "other"]
    assert msgspec.json.decode(encoded, type=Message) == live
    odd = read_entry(entry | {"message": {"stop_reason": 1, "usage": []}})
    assert isinstance(odd, Assistant)
    assert (odd.message_id, odd.stop_reason, odd.usage) == ("", None, {})


def test_a_result_names_denials_and_usage_by_model() -> None:
    denial = {"tool_name": "Bash", "tool_use_id": "t", "tool_input": {}}
    more = {
        "stop_reason": "end_turn",
        "permission_denials": [denial],
        "modelUsage": {"m": {"inputTokens": 1}},
    }
    result = read(ENDED | more)
    assert isinstance(result, Result)
    assert (result.stop_reason, result.permission_denials) == ("end_turn", [denial])
    assert result.model_usage == {"m": {"inputTokens": 1}}

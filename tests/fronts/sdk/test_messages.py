"""Frames as typed values; what has no type stays whole."""

from clew.fronts.sdk.messages import (
    Assistant,
    Other,
    OtherBlock,
    Result,
    Thinking,
    ToolResult,
    ToolUse,
    User,
    read,
)


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
    ended = {
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
    for frame, deferred in (
        ({**ended, "deferred_tool_use": call}, ToolUse(id="t", name="Bash", input={"a": 1})),
        (ended, None),
    ):
        result = read(frame)
        assert isinstance(result, Result)
        assert result.deferred == deferred

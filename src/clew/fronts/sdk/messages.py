"""Typed messages of a session: thin views of the host protocol's frames. Pure.

A frame or block of an unknown type becomes an `Other` that contains all of its data.
"""

from typing import Any, TypeAlias

from msgspec import Struct

from clew.core.json_object import Json


class Text(Struct, frozen=True, kw_only=True):
    text: str


class Thinking(Struct, frozen=True, kw_only=True):
    thinking: str


class ToolUse(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    input: Json


class ToolResult(Struct, frozen=True, kw_only=True):
    tool_use_id: str
    content: Any
    is_error: bool = False


class OtherBlock(Struct, frozen=True, kw_only=True):
    data: Json


Block: TypeAlias = Text | Thinking | ToolUse | ToolResult | OtherBlock


class Assistant(Struct, frozen=True, kw_only=True):
    """One complete block of a response. `error` is set if the API returned no response."""

    content: tuple[Block, ...]
    model: str
    uuid: str
    error: str | None = None
    parent_tool_use_id: str | None = None

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.content if isinstance(block, Text))


class User(Struct, frozen=True, kw_only=True):
    """A tool result, or text that clew added to the conversation."""

    content: tuple[Block, ...]
    uuid: str
    tool_use_result: Any = None
    parent_tool_use_id: str | None = None


class System(Struct, frozen=True, kw_only=True):
    """An event of the session: its start, a wait, or a problem."""

    subtype: str
    data: Json


class StreamEvent(Struct, frozen=True, kw_only=True):
    """An event of the model's stream. Sent only if partial messages are requested."""

    event: Json
    parent_tool_use_id: str | None = None


class Result(Struct, frozen=True, kw_only=True):
    """The end of a turn. Every turn has exactly one result."""

    subtype: str
    is_error: bool
    session_id: str
    text: str
    errors: tuple[str, ...]
    # None for a command that failed before the model was asked.
    terminal_reason: str | None
    num_turns: int
    duration_ms: int
    # None if a price is unknown.
    total_cost_usd: float | None
    usage: Json
    data: Json

    @property
    def structured_output(self) -> Any:
        return self.data.get("structured_output")


class Other(Struct, frozen=True, kw_only=True):
    data: Json


Message: TypeAlias = Assistant | User | System | StreamEvent | Result | Other


def read(frame: Json) -> Message:
    """Convert a frame to a typed message."""
    match frame.get("type"):
        case "assistant":
            return Assistant(
                content=blocks(frame["message"].get("content")),
                model=frame["message"].get("model", ""),
                uuid=frame["uuid"],
                error=frame.get("error"),
                parent_tool_use_id=frame.get("parent_tool_use_id"),
            )
        case "user":
            return User(
                content=blocks(frame["message"].get("content")),
                uuid=frame["uuid"],
                tool_use_result=frame.get("tool_use_result"),
                parent_tool_use_id=frame.get("parent_tool_use_id"),
            )
        case "system":
            return System(subtype=frame["subtype"], data=frame)
        case "stream_event":
            return StreamEvent(
                event=frame["event"], parent_tool_use_id=frame.get("parent_tool_use_id")
            )
        case "result":
            return read_result(frame)
        case _:
            return Other(data=frame)


def read_result(frame: Json) -> Result:
    return Result(
        subtype=frame["subtype"],
        is_error=frame["is_error"],
        session_id=frame["session_id"],
        text=frame.get("result", ""),
        errors=tuple(frame.get("errors", ())),
        terminal_reason=frame["terminal_reason"],
        num_turns=frame["num_turns"],
        duration_ms=frame["duration_ms"],
        total_cost_usd=frame["total_cost_usd"],
        usage=frame["usage"],
        data=frame,
    )


def blocks(content: Any) -> tuple[Block, ...]:
    if isinstance(content, str):
        return (Text(text=content),)
    return tuple(block(item) for item in content)


def block(fields: Json) -> Block:
    match fields.get("type"):
        case "text":
            return Text(text=fields["text"])
        case "thinking":
            return Thinking(thinking=fields.get("thinking", ""))
        case "tool_use":
            return ToolUse(id=fields["id"], name=fields["name"], input=fields["input"])
        case "tool_result":
            return ToolResult(
                tool_use_id=fields["tool_use_id"],
                content=fields.get("content"),
                is_error=fields.get("is_error", False),
            )
        case _:
            return OtherBlock(data=fields)

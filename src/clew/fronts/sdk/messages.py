"""Typed messages of a session: thin views of the host protocol's frames. Does no I/O.

A frame or block of an unknown type becomes an `Other` that contains all of its data. When msgspec
encodes a message or a block, the result has a field `type`.
"""

from typing import Any, TypeAlias

from msgspec import Struct

from clew.core.json_object import Json, list_of, object_of, text_of


class Text(Struct, frozen=True, kw_only=True, tag="text"):
    """A text block. In an answer, `text` is Markdown."""

    text: str


class Thinking(Struct, frozen=True, kw_only=True, tag="thinking"):
    """The model's thinking. The text is empty if the service doesn't return it."""

    thinking: str


class ToolUse(Struct, frozen=True, kw_only=True, tag="tool_use"):
    """A tool call: its `id`, the `name` of the tool, and the `input`."""

    id: str
    name: str
    input: Json


class ToolResult(Struct, frozen=True, kw_only=True, tag="tool_result"):
    """The result of the tool call `tool_use_id`.

    `content` is a string or a list of API blocks. `is_error` is true if the call failed.
    """

    tool_use_id: str
    content: Any
    is_error: bool = False


class OtherBlock(Struct, frozen=True, kw_only=True, tag="other"):
    """A block of any other type, such as an image. `data` contains all of its fields."""

    data: Json


Block: TypeAlias = Text | Thinking | ToolUse | ToolResult | OtherBlock


class Assistant(Struct, frozen=True, kw_only=True, tag="assistant"):
    """A part of the model's answer.

    Fields:
        content: The blocks; in a running session always one.
        model: The model that answered.
        uuid: The ID of the entry in the transcript.
        error: The kind of error, if the request failed.
        parent_tool_use_id: The ID of the tool call that started the subagent that sent this
            message; None for the session itself.
        message_id: The ID of the answer, which all of its parts share.
        usage: The tokens of the answer, under the API's names. In the first parts of an answer, the
            numbers are not final.
        stop_reason: Why the model stopped, if this is known.
    """

    content: tuple[Block, ...]
    model: str
    uuid: str
    error: str | None = None
    parent_tool_use_id: str | None = None
    message_id: str = ""
    usage: Json = {}
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        """The text of all text blocks."""
        return "".join(block.text for block in self.content if isinstance(block, Text))


class User(Struct, frozen=True, kw_only=True, tag="user"):
    """A tool result, or text that clew added to the conversation.

    Fields:
        content: The blocks.
        uuid: The ID of the entry in the transcript.
        tool_use_result: The tool's result as structured data, for display.
        parent_tool_use_id: The ID of the tool call that started the subagent that sent this
            message; None for the session itself.
    """

    content: tuple[Block, ...]
    uuid: str
    tool_use_result: Any = None
    parent_tool_use_id: str | None = None


class System(Struct, frozen=True, kw_only=True, tag="system"):
    """An event of the session, such as its start, a wait, or a problem.

    `subtype` is its kind, such as `init`; `data` contains all of its fields
    (docs/extending/stream-json.md).
    """

    subtype: str
    data: Json


class StreamEvent(Struct, frozen=True, kw_only=True, tag="stream_event"):
    """An event of the model's stream. It is sent only if `partial_messages` is set.

    `event` is the Messages API's own event. `parent_tool_use_id` is the ID of the tool call that
    started the subagent that produced this event; None for the session itself.
    """

    event: Json
    parent_tool_use_id: str | None = None


class Result(Struct, frozen=True, kw_only=True, tag="result"):
    """The end of a turn. Every turn has exactly one result.

    Fields:
        subtype: `success`, or the kind of error.
        is_error: Whether the turn failed.
        session_id: The session's ID, for `ClewOptions(resume=...)`.
        text: The last text block of the answer.
        errors: Descriptions of the errors.
        terminal_reason: Why the turn ended. None for a command that failed before a request to the
            model.
        num_turns: The number of prompts, tool results and interruptions in the turn.
        duration_ms: The duration of the turn.
        total_cost_usd: The cost of the session so far. None if a price is unknown.
        usage: The tokens of the turn, under the API's names.
        data: The entire result (docs/extending/stream-json.md).
    """

    subtype: str
    is_error: bool
    session_id: str
    text: str
    errors: tuple[str, ...]
    terminal_reason: str | None
    num_turns: int
    duration_ms: int
    total_cost_usd: float | None
    usage: Json
    data: Json

    @property
    def structured_output(self) -> Any:
        """The answer that matches `json_schema`, or None."""
        return self.data.get("structured_output")

    @property
    def stop_reason(self) -> str | None:
        """The reason why the model stopped, such as `end_turn`; None if it is not known."""
        return self.data.get("stop_reason")

    @property
    def model_usage(self) -> Json:
        """The tokens, costs and limits of each model, for the session so far."""
        return object_of(self.data.get("modelUsage"))

    @property
    def permission_denials(self) -> list[Json]:
        """The calls that were denied: `tool_name`, `tool_use_id` and `tool_input`."""
        return list_of(self.data.get("permission_denials"))

    @property
    def deferred(self) -> ToolUse | None:
        """The call whose approval was deferred, which ended the turn, or None; see `Defer`."""
        call = self.data.get("deferred_tool_use")
        if call is None:
            return None
        return ToolUse(id=call["id"], name=call["name"], input=call["input"])


class Other(Struct, frozen=True, kw_only=True, tag="other"):
    """A message of an unknown type, with all of its `data`."""

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
                **describe_answer(frame["message"]),
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


def read_entry(entry: Json) -> Message:
    """Convert an entry of a transcript, which may have been written by any program."""
    message = object_of(entry.get("message"))
    content, uuid = message.get("content"), text_of(entry.get("uuid"))
    match entry.get("type"):
        case "assistant":
            error = entry.get("error")
            return Assistant(
                content=blocks(content),
                model=text_of(message.get("model")),
                uuid=uuid,
                error=error if isinstance(error, str) else None,
                **describe_answer(message),
            )
        case "user":
            outcome = entry.get("toolUseResult")
            return User(content=blocks(content), uuid=uuid, tool_use_result=outcome)
        case "system":
            return System(subtype=text_of(entry.get("subtype")), data=entry)
        case _:
            return Other(data=entry)


def describe_answer(message: Json) -> Json:
    """Return the fields that parts of an answer have both in a running and in a stored session."""
    stop_reason = message.get("stop_reason")
    return {
        "message_id": text_of(message.get("id")),
        "usage": object_of(message.get("usage")),
        "stop_reason": stop_reason if isinstance(stop_reason, str) else None,
    }


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
    return tuple(block(item) for item in list_of(content) if isinstance(item, dict))


def block(fields: Json) -> Block:
    match fields.get("type"):
        case "text":
            return Text(text=text_of(fields.get("text")))
        case "thinking":
            return Thinking(thinking=text_of(fields.get("thinking")))
        case "tool_use":
            return ToolUse(
                id=text_of(fields.get("id")),
                name=text_of(fields.get("name")),
                input=object_of(fields.get("input")),
            )
        case "tool_result":
            return ToolResult(
                tool_use_id=text_of(fields.get("tool_use_id")),
                content=fields.get("content"),
                is_error=fields.get("is_error") is True,
            )
        case _:
            return OtherBlock(data=fields)

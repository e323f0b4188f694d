"""Write a session as the two files of a kimi-cli session. Does no I/O.

`kimi --session ID` continues the context; the wire log contains the same conversation for display.
"""

from collections.abc import Iterator
from typing import Any

from clew.core.json_object import Json, object_of
from clew.core.messages.encoding import encode
from clew.record.exchange.targets.turns import (
    ExportedSession,
    ExportedTurn,
    count_tokens,
    encode_lines,
    picture_url,
)

PROTOCOL = "1.8"
# kimi-cli's names for clew's tools that have the same parameters.
_TOOLS = {"Bash": "Shell"}


def encode_kimi(session: ExportedSession) -> bytes:
    """Return the wire log, which `clew sessions import` reads."""
    return encode_lines(_wire(session))


def encode_context(session: ExportedSession) -> bytes:
    """Return the context, which the program sends to the model."""
    return encode_lines(map(_message, session.turns))


def kimi_id(session: ExportedSession) -> str:
    return session.derive_id("kimi", session.last_uuid)


def _message(turn: ExportedTurn) -> Json:
    parts = [_part(block) for block in turn.blocks if block["type"] != "tool_use"]
    if turn.role == "result":
        return {"role": "tool", "content": parts, "tool_call_id": turn.call_id}
    calls = [_call(block) for block in turn.calls]
    made = {"tool_calls": calls} if calls else {}
    return {"role": turn.role, "content": parts, **made}


def _wire(session: ExportedSession) -> Iterator[Json]:
    yield {"type": "metadata", "protocol_version": PROTOCOL}
    for turn in session.turns:
        for kind, payload in _events(turn):
            message = {"type": kind, "payload": payload}
            yield {"timestamp": turn.at_ms / 1000, "message": message}


def _events(turn: ExportedTurn) -> Iterator[tuple[str, Json]]:
    if turn.role == "user":
        kind = "SteerInput" if turn.is_meta else "TurnBegin"
        yield kind, {"user_input": [_part(block) for block in turn.blocks]}
    elif turn.role == "result":
        is_plain = all(block["type"] == "text" for block in turn.blocks)
        output: Any = turn.text if is_plain else [_part(block) for block in turn.blocks]
        value = {"is_error": turn.is_error, "output": output, "message": "", "display": []}
        yield "ToolResult", {"tool_call_id": turn.call_id, "return_value": value}
    else:
        yield "StepBegin", {"n": 1}
        for block in turn.blocks:
            if block["type"] == "tool_use":
                yield "ToolCall", _call(block)
            else:
                yield "ContentPart", _part(block)
        usage = {
            "input_other": count_tokens(turn.usage, "input_tokens"),
            "output": count_tokens(turn.usage, "output_tokens"),
            "input_cache_read": count_tokens(turn.usage, "cache_read_input_tokens"),
            "input_cache_creation": count_tokens(turn.usage, "cache_creation_input_tokens"),
        }
        yield "StatusUpdate", {"token_usage": usage}


def _call(block: Json) -> Json:
    name = _TOOLS.get(block["name"], block["name"])
    arguments = encode(object_of(block.get("input"))).decode("utf-8", "replace")
    function = {"name": name, "arguments": arguments}
    return {"type": "function", "id": block["id"], "function": function}


def _part(block: Json) -> Json:
    match block["type"]:
        case "text":
            return {"type": "text", "text": block["text"]}
        case "thinking":
            return {"type": "think", "think": block["thinking"]}
        case _:
            return {"type": "image_url", "image_url": {"url": picture_url(block)}}

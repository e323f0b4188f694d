"""Write a session as a pi session, which `pi --session FILE` continues. Does no I/O."""

from collections.abc import Iterator

from clew.core.json_object import Json, object_of, text_of
from clew.record.exchange.formats.pi import TOOLS
from clew.record.exchange.targets.turns import (
    ExportedSession,
    ExportedTurn,
    count_tokens,
    encode_lines,
)

_THEIRS = {ours: (name, {b: a for a, b in keys.items()}) for name, (ours, keys) in TOOLS.items()}


def encode_pi(session: ExportedSession) -> bytes:
    return encode_lines(_lines(session))


def pi_id(session: ExportedSession) -> str:
    return session.derive_id("pi", session.last_uuid)


def _lines(session: ExportedSession) -> Iterator[Json]:
    started_at = session.turns[0].at if session.turns else ""
    yield {
        "type": "session", "version": 3, "id": pi_id(session), "timestamp": started_at,
        "cwd": session.cwd,
    }  # fmt: skip
    parent: str | None = None
    for number, turn in enumerate(session.turns):
        own = session.derive_id("pi", number)[:8]
        yield {"id": own, "parentId": parent, "timestamp": turn.at, **_entry(turn)}
        parent = own
    if session.title:
        own = session.derive_id("pi", "title")[:8]
        at = session.turns[-1].at if session.turns else started_at
        yield {"type": "session_info", "id": own, "parentId": parent, "timestamp": at,
               "name": session.title}  # fmt: skip


def _entry(turn: ExportedTurn) -> Json:
    content = [_part(block) for block in turn.blocks]
    if turn.role == "user" and turn.is_meta:
        return {"type": "custom_message", "customType": "clew", "content": content,
                "display": False}  # fmt: skip
    if turn.role == "user":
        message: Json = {"role": "user", "content": content}
    elif turn.role == "result":
        message = {
            "role": "toolResult", "toolCallId": turn.call_id, "toolName": _named(turn.tool, {})[0],
            "content": content, "isError": turn.is_error,
        }  # fmt: skip
    else:
        message = {
            "role": "assistant", "content": content, "api": "anthropic-messages",
            "provider": "anthropic", "model": turn.model, "usage": _usage(turn),
            "stopReason": "toolUse" if turn.calls else "stop",
        }  # fmt: skip
    return {"type": "message", "message": message | {"timestamp": turn.at_ms}}


def _named(name: str, value: Json) -> tuple[str, Json]:
    """Return a call with pi's name and parameters for the same tool."""
    theirs, keys = _THEIRS.get(name, (name, {}))
    return theirs, {keys.get(key, key): item for key, item in value.items()}


def _part(block: Json) -> Json:
    match block["type"]:
        case "text":
            return {"type": "text", "text": text_of(block.get("text"))}
        case "thinking":
            signature = text_of(block.get("signature"))
            signed = {"thinkingSignature": signature} if signature else {}
            return {"type": "thinking", "thinking": block["thinking"], **signed}
        case "tool_use":
            name, value = _named(block["name"], object_of(block.get("input")))
            return {"type": "toolCall", "id": block["id"], "name": name, "arguments": value}
        case _:
            source = object_of(block.get("source"))
            media, data = text_of(source.get("media_type")), text_of(source.get("data"))
            return {"type": "image", "mimeType": media, "data": data}


def _usage(turn: ExportedTurn) -> Json:
    numbers = {
        "input": count_tokens(turn.usage, "input_tokens"),
        "output": count_tokens(turn.usage, "output_tokens"),
        "cacheRead": count_tokens(turn.usage, "cache_read_input_tokens"),
        "cacheWrite": count_tokens(turn.usage, "cache_creation_input_tokens"),
    }
    cost = dict.fromkeys(numbers, 0) | {"total": turn.cost_usd}
    return numbers | {"totalTokens": sum(numbers.values()), "cost": cost}

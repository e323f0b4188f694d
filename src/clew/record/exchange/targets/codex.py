"""Write a session as a Codex rollout, which `codex resume` lists and continues. Does no I/O."""

from collections.abc import Iterator
from typing import Any

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.messages.encoding import encode
from clew.record.exchange.targets.turns import (
    ExportedSession,
    ExportedTurn,
    count_tokens,
    encode_lines,
    picture_url,
)

# Codex accepts only versions with three numbers, and treats rollouts of old versions as its own.
CLI_VERSION = "0.100.0"


def encode_codex(session: ExportedSession) -> bytes:
    return encode_lines(_lines(session))


def codex_id(session: ExportedSession) -> str:
    return session.derive_id("codex", session.last_uuid)


def _lines(session: ExportedSession) -> Iterator[Json]:
    started_at = session.turns[0].at if session.turns else ""
    identifier = codex_id(session)
    head: Json = {
        "id": identifier,
        "timestamp": started_at,
        "cwd": session.cwd,
        "originator": "clew",
        "cli_version": CLI_VERSION,
        "source": "cli",
    }
    if session.branch:
        head["git"] = {"branch": session.branch}
    yield {"timestamp": started_at, "type": "session_meta", "payload": head}
    total = _usage({})
    for turn in session.turns:
        for event in _events(turn):
            yield {"timestamp": turn.at, "type": "event_msg", "payload": event}
        for item in _items(turn):
            yield {"timestamp": turn.at, "type": "response_item", "payload": item}
        used = _usage(turn.usage)
        if turn.role == "assistant" and used["total_tokens"]:
            total = {key: total[key] + number for key, number in used.items()}
            info = {"total_token_usage": total, "last_token_usage": used}
            event = {"type": "token_count", "info": info, "rate_limits": None}
            yield {"timestamp": turn.at, "type": "event_msg", "payload": event}


def _items(turn: ExportedTurn) -> Iterator[Json]:
    if turn.role == "user":
        yield {"type": "message", "role": "user", "content": [_input(b) for b in turn.blocks]}
    elif turn.role == "result":
        is_plain = all(block["type"] == "text" for block in turn.blocks)
        output = turn.text if is_plain else [_input(block) for block in turn.blocks]
        yield {"type": "function_call_output", "call_id": turn.call_id, "output": output}
    else:
        for block, origin in zip(turn.blocks, turn.origins, strict=True):
            match block["type"]:
                case "text":
                    part = {"type": "output_text", "text": block["text"]}
                    yield {"type": "message", "role": "assistant", "content": [part]}
                case "thinking":
                    yield from _encrypted(origin)
                case "tool_use":
                    name, value = _call(block["name"], object_of(block.get("input")))
                    arguments = encode(value).decode("utf-8", "replace")
                    yield {
                        "type": "function_call",
                        "name": name,
                        "arguments": arguments,
                        "call_id": block["id"],
                    }


def _encrypted(origin: Any) -> Iterator[Json]:
    """Yield the encrypted reasoning; the service accepts no other reasoning."""
    record = object_of(origin)
    if record.get("wire") == "responses":
        for item in map(object_of, list_of(record.get("items"))):
            if item.get("type") == "reasoning" and item.get("encrypted_content"):
                yield item


def _call(name: str, value: Json) -> tuple[str, Json]:
    """Return a call with Codex's name and parameters for the same tool."""
    if name == "Bash" and type(value.get("command")) is str:
        rest = {key: item for key, item in value.items() if key != "command"}
        return "exec_command", {"cmd": value["command"], **rest}
    return name, value


def _input(block: Json) -> Json:
    if block["type"] == "image":
        return {"type": "input_image", "image_url": picture_url(block)}
    return {"type": "input_text", "text": text_of(block.get("text"))}


def _events(turn: ExportedTurn) -> Iterator[Json]:
    """Yield the events from which Codex displays the conversation."""
    if turn.role == "user" and not turn.is_meta:
        yield {"type": "user_message", "message": turn.text, "images": []}
    elif turn.role == "assistant":
        if turn.thinking:
            yield {"type": "agent_reasoning", "text": turn.thinking}
        if turn.text:
            yield {"type": "agent_message", "message": turn.text}


def _usage(usage: Json) -> dict[str, int]:
    cached = count_tokens(usage, "cache_read_input_tokens")
    written = count_tokens(usage, "cache_creation_input_tokens")
    input_tokens = count_tokens(usage, "input_tokens") + cached + written
    output = count_tokens(usage, "output_tokens")
    return {
        "input_tokens": input_tokens,
        "cached_input_tokens": cached,
        "output_tokens": output,
        "reasoning_output_tokens": 0,
        "total_tokens": input_tokens + output,
    }

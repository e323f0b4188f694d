"""Render an answer to a complete response: the finished message, its events, or a raw body.

This module must never send data or use random numbers; `scenario_steps` determines how a response
is sent. IDs are made from the request's number, so the same requests give the same bytes. They
contain the number of messages too, so that a session resumed with a fresh server gets no duplicate
ID.
"""

import json
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from clew.core.json_object import Json
from clew.testing.scenario import (
    Defaults,
    ScriptedAnswer,
    ScriptedBlock,
    ScriptedFault,
    Send,
    unbase64,
)
from clew.testing.scenario_rules import ESTIMATE, Chosen, Facts, NoAnswer

DEFAULT_DELTA_CHARS = 12
INPUT_TOKENS = 100
CHARS_PER_TOKEN = 4
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
MESSAGES = {
    401: "invalid x-api-key",
    429: "This request would exceed the rate limit of your organization",
    500: "Internal server error",
    529: "Overloaded",
}
EVENT_STREAM = "text/event-stream; charset=utf-8"
JSON = "application/json"


class ScriptedResponse(Struct, frozen=True, kw_only=True):
    """A complete response without faults applied. `parts` are its events, or a single body."""

    status: int
    headers: list[tuple[str, str]]
    parts: list[bytes]
    send: Send
    faults: list[ScriptedFault]
    # Raw bytes instead of the status line, headers and body.
    http: bytes | None = None


class Renderer:
    """Renders the answers of one scenario. It caches their deltas, which never change."""

    __slots__ = ("_defaults", "_deltas")

    def __init__(self, defaults: Defaults) -> None:
        self._defaults = defaults
        self._deltas: dict[str, list[bytes]] = {}

    def reply(self, choice: Chosen | NoAnswer) -> ScriptedResponse:
        """Return the response to a message request."""
        if isinstance(choice, NoAnswer):
            return refusal(choice)
        answer, facts = choice.answer, choice.facts
        if answer.text is None and answer.content is None:
            return as_it_stands(answer, facts, self._defaults)
        message = message_of(answer, facts, self._defaults)
        if facts.stream:
            parts, kind = self._event_parts(answer, message, choice.place), EVENT_STREAM
        else:
            parts, kind = [msgspec.json.encode(message)], JSON
        return _reply(answer, facts, self._defaults, parts, kind)

    def count(self, choice: Chosen | NoAnswer) -> ScriptedResponse:
        """Return the response to a token count request."""
        if isinstance(choice, NoAnswer):
            return refusal(choice)
        answer, facts = choice.answer, choice.facts
        if answer.input_tokens is None and answer is not ESTIMATE:
            return as_it_stands(answer, facts, self._defaults)
        tokens = estimate(facts) if answer.input_tokens is None else answer.input_tokens
        body = msgspec.json.encode({"input_tokens": tokens})
        return _reply(answer, facts, self._defaults, [body], JSON)

    def _event_parts(self, answer: ScriptedAnswer, message: Json, place: str) -> list[bytes]:
        size = answer.delta_chars or self._defaults.delta_chars or DEFAULT_DELTA_CHARS
        usage = message["usage"]
        opening = dict(message, content=[], stop_reason=None, stop_sequence=None)
        opening["usage"] = dict(usage, output_tokens=min(1, usage.get("output_tokens", 0)))
        parts = [encode_event({"type": "message_start", "message": opening})]
        for index, (scripted_block, block) in enumerate(
            zip(_blocks(answer), message["content"], strict=True)
        ):
            start = {"type": "content_block_start", "index": index, "content_block": _opened(block)}
            parts.append(encode_event(start))
            if index == 0:
                parts.append(encode_event({"type": "ping"}))
            key = f"{place}.{index}"
            if key not in self._deltas:
                deltas = deltas_of(scripted_block, block, size)
                self._deltas[key] = [
                    encode_event({"type": "content_block_delta", "index": index, "delta": delta})
                    for delta in deltas
                ]
            parts += self._deltas[key]
            parts.append(encode_event({"type": "content_block_stop", "index": index}))
        stop = {"stop_reason": message["stop_reason"], "stop_sequence": message["stop_sequence"]}
        parts.append(encode_event({"type": "message_delta", "delta": stop, "usage": usage}))
        parts.append(encode_event({"type": "message_stop"}))
        return parts


def message_of(answer: ScriptedAnswer, facts: Facts, defaults: Defaults) -> Json:
    """Return the finished message as a JSON value. Its events add up to exactly this message."""
    content = [_block_value(b, facts, i) for i, b in enumerate(_blocks(answer))]
    calls = any(block.get("type") == "tool_use" for block in content)
    usage = {
        "input_tokens": INPUT_TOKENS,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": max(1, len(json.dumps(content)) // CHARS_PER_TOKEN) if content else 0,
        **(defaults.usage or {}),
        **(answer.usage or {}),
    }
    return {
        "id": answer.id or f"msg_{facts.messages:03}_{facts.number:04}",
        "type": "message",
        "role": "assistant",
        "model": answer.model or defaults.model or facts.model,
        "content": content,
        "stop_reason": answer.stop_reason or ("tool_use" if calls else "end_turn"),
        "stop_sequence": answer.stop_sequence,
        "usage": usage,
        **(answer.message or {}),
    }


def estimate(facts: Facts) -> int:
    """Return a rough number of tokens that grows with the request."""
    fields = {key: facts.body.get(key) for key in ("system", "tools", "messages")}
    return max(1, len(json.dumps(fields)) // CHARS_PER_TOKEN)


def _blocks(answer: ScriptedAnswer) -> list[ScriptedBlock]:
    if answer.content is None:
        return [ScriptedBlock(text=answer.text)]
    return [ScriptedBlock(text=b) if isinstance(b, str) else b for b in answer.content]


def _block_value(block: ScriptedBlock, facts: Facts, index: int) -> Json:
    if block.block is not None:
        return block.block
    if block.text is not None:
        cited = {"citations": block.citations} if block.citations else {}
        return {"type": "text", "text": _joined(block.text), **cited}
    if block.thinking is not None:
        signature = block.signature if block.signature is not None else "c2NlbmFyaW8="
        return {"type": "thinking", "thinking": _joined(block.thinking), "signature": signature}
    if block.redacted_thinking is not None:
        return {"type": "redacted_thinking", "data": block.redacted_thinking}
    kind, prefix = (
        ("tool_use", "toolu") if block.tool is not None else ("server_tool_use", "srvtoolu")
    )
    return {
        "type": kind,
        "id": block.id or f"{prefix}_{facts.messages:03}_{facts.number:04}_{index:02}",
        "name": block.tool or block.server_tool,
        "input": _input_value(block),
    }


def _input_value(block: ScriptedBlock) -> Any:
    """Return a tool's input as a value.

    Invalid JSON, which can only be streamed, becomes a string.
    """
    if block.input_json is None:
        return {} if block.input is UNSET else block.input
    text = _joined(block.input_json)
    try:
        return json.loads(text) if text else {}
    except ValueError:
        return text


def _opened(block: Json) -> Json:
    """Return a block as in `content_block_start`. The fields that deltas fill are empty."""
    match block.get("type"):
        case "text":
            return {**block, "text": ""} | ({"citations": []} if block.get("citations") else {})
        case "thinking":
            return {**block, "thinking": "", "signature": ""}
        case "tool_use" | "server_tool_use":
            return {**block, "input": {}}
        case _:
            return block


def deltas_of(scripted_block: ScriptedBlock, block: Json, size: int) -> list[Json]:
    """Return the deltas of a block. A list in the scenario defines their boundaries."""
    if scripted_block.text is not None:
        texts = [{"type": "text_delta", "text": t} for t in _pieces(scripted_block.text, size)]
        cited = [{"type": "citations_delta", "citation": c} for c in scripted_block.citations or []]
        return texts + cited
    if scripted_block.thinking is not None:
        thoughts = [
            {"type": "thinking_delta", "thinking": t}
            for t in _pieces(scripted_block.thinking, size)
        ]
        return [*thoughts, {"type": "signature_delta", "signature": block["signature"]}]
    if scripted_block.tool is None and scripted_block.server_tool is None:
        return []
    written = scripted_block.input_json
    if written is None:
        written = json.dumps(block["input"], ensure_ascii=False, separators=(",", ":"))
        written = "" if written == "{}" else written
    pieces = _pieces(written, size)
    return [{"type": "input_json_delta", "partial_json": p} for p in pieces or [""]]


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


def _pieces(text: str | list[str], size: int) -> list[str]:
    if isinstance(text, list):
        return text
    return [text[i : i + size] for i in range(0, len(text), size)]


def encode_event(event: Json | str) -> bytes:
    """Encode a server-sent event. A string is sent verbatim, including the blank line."""
    if isinstance(event, str):
        return event.encode("utf-8")
    kind = str(event.get("type", "message")).encode("utf-8")
    return b"event: %b\ndata: %b\n\n" % (kind, msgspec.json.encode(event))


def as_it_stands(answer: ScriptedAnswer, facts: Facts, defaults: Defaults) -> ScriptedResponse:
    """Return the response for an answer that is not a message: an error or a raw body."""
    if answer.http is not None:
        reply = _reply(answer, facts, defaults, [], JSON)
        return msgspec.structs.replace(reply, http=answer.http.encode("utf-8"))
    if answer.events is not None:
        parts = [encode_event(event) for event in answer.events]
        return _reply(answer, facts, defaults, parts, EVENT_STREAM)
    if answer.body is not None:
        return _reply(answer, facts, defaults, [answer.body.encode("utf-8")], "text/plain")
    if answer.body_base64 is not None:
        body = unbase64(answer.body_base64)
        return _reply(answer, facts, defaults, [body], "application/octet-stream")
    if answer.body_json is not UNSET:
        return _reply(answer, facts, defaults, [msgspec.json.encode(answer.body_json)], JSON)
    status = answer.status or 200
    body = error_body(status, facts.number, answer.error)
    return _reply(answer, facts, defaults, [body], JSON)


def error_body(status: int, number: int, error: Json | None = None) -> bytes:
    usual = {
        "type": ERROR_TYPES.get(status, "api_error"),
        "message": MESSAGES.get(status, f"scripted status {status}"),
    }
    value = {"type": "error", "error": {**usual, **(error or {})}, "request_id": request_id(number)}
    return msgspec.json.encode(value)


def request_id(number: int) -> str:
    return f"req_{number:04}"


def refusal(choice: NoAnswer) -> ScriptedResponse:
    """Return a response with status 400, which no client retries, so that its message is shown."""
    error = {"type": "invalid_request_error", "message": choice.message}
    body = error_body(400, choice.facts.number, error)
    return _reply(ScriptedAnswer(status=400), choice.facts, Defaults(), [body], JSON)


def _reply(
    answer: ScriptedAnswer, facts: Facts, defaults: Defaults, parts: list[bytes], kind: str
) -> ScriptedResponse:
    send = answer.send or defaults.send or Send()
    headers = {"content-type": kind, "request-id": request_id(facts.number)}
    if send.gzip:
        headers["content-encoding"] = "gzip"
    for name, value in (answer.headers or {}).items():
        headers.pop(name.lower(), None)
        if value is not None:
            headers[name.lower()] = str(value)
    return ScriptedResponse(
        status=answer.status or 200,
        headers=list(headers.items()),
        parts=parts,
        send=send,
        faults=answer.faults,
    )

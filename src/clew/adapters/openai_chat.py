"""Convert messages from and to OpenAI's chat completions; they may be dicts or SDK objects."""

from collections.abc import Iterable
from typing import Any

from clew.adapters.api_messages import (
    join_answers,
    make_picture,
    make_use,
    make_valid,
    plain,
    refuse,
)
from clew.core.json_object import Json, list_of, text_of
from clew.core.normalize.dialects import for_chat, to_openai
from clew.core.normalize.target import Target


def read(messages: Iterable[Any]) -> list[Json]:
    """Return chat messages as Messages API messages, without system prompts."""
    converted = (_convert(plain(message)) for message in messages)
    return join_answers(message for message in converted if message is not None)


def write(entries: Iterable[Json]) -> list[Json]:
    """Return entries or Messages API messages as valid chat messages."""
    target = for_chat(Target())
    chat: list[Json] = to_openai(make_valid(entries, target))["messages"]
    return chat


def _convert(message: Json) -> Json | None:
    match message.get("role"):
        case "system" | "developer":
            return None
        case "tool":
            result = {"tool_use_id": message["tool_call_id"], "content": _blocks(message)}
            return {"role": "user", "content": [{"type": "tool_result", **result}]}
        case "user":
            return {"role": "user", "content": _blocks(message)}
        case "assistant":
            calls = [_call(call) for call in list_of(message.get("tool_calls"))]
            return {"role": "assistant", "content": [*_blocks(message), *calls]}
        case role:
            raise refuse(f"a message with the role {role!r}")


def _call(call: Json) -> Json:
    if "function" not in call:
        raise refuse(f"a call of type {call.get('type')!r}")
    return make_use(call["id"], call["function"]["name"], call["function"]["arguments"])


def _blocks(message: Json) -> list[Json]:
    content = message.get("content")
    parts = (
        list_of(content) if not isinstance(content, str) else [{"type": "text", "text": content}]
    )
    if refusal := text_of(message.get("refusal")):
        parts = [*parts, {"type": "text", "text": refusal}]
    return [block for block in map(_block, parts) if block.get("text") != ""]


def _block(part: Json) -> Json:
    match part.get("type"):
        case "text":
            return {"type": "text", "text": part["text"]}
        case "refusal":
            return {"type": "text", "text": part["refusal"]}
        case "image_url":
            return make_picture(part["image_url"]["url"])
        case kind:
            raise refuse(f"a part of type {kind!r}")

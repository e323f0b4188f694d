"""Convert items from and to OpenAI's Responses API; they may be dicts or SDK objects."""

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
from clew.core.normalize.responses import for_responses, to_responses
from clew.core.normalize.target import Target


def read(items: Iterable[Any]) -> list[Json]:
    """Return items as Messages API messages, without system prompts and reasoning."""
    converted = (_convert(plain(item)) for item in items)
    return join_answers(message for message in converted if message is not None)


def write(entries: Iterable[Json]) -> list[Json]:
    """Return entries or Messages API messages as valid input items."""
    target = for_responses(Target())
    items: list[Json] = to_responses(make_valid(entries, target))["input"]
    return items


def _convert(item: Json) -> Json | None:
    match item.get("type", "message"):
        case "message" if item.get("role") in ("system", "developer"):
            return None
        case "message" if item.get("role") in ("user", "assistant"):
            return {"role": item["role"], "content": _blocks(item.get("content"))}
        case "function_call":
            use = make_use(item["call_id"], item["name"], item["arguments"])
            return {"role": "assistant", "content": [use]}
        case "function_call_output":
            result = {"tool_use_id": item["call_id"], "content": _blocks(item["output"])}
            return {"role": "user", "content": [{"type": "tool_result", **result}]}
        case "reasoning":  # Encrypted for the service, or a summary that other services can't use.
            return None
        case kind:
            raise refuse(f"an item of type {kind!r}")


def _blocks(content: Any) -> list[Json]:
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list_of(content)
    return [block for block in map(_block, parts) if block.get("text") != ""]


def _block(part: Json) -> Json:
    match part.get("type"):
        case "text" | "input_text" | "output_text":
            return {"type": "text", "text": part["text"]}
        case "refusal":
            return {"type": "text", "text": part["refusal"]}
        case "input_image" if text_of(part.get("image_url")):
            return make_picture(part["image_url"])
        case kind:
            raise refuse(f"a part of type {kind!r}")

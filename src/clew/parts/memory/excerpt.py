"""A part of a conversation as plain text, for a model that reads it as data."""

from collections.abc import Sequence
from typing import Any

from clew.core.json_object import Json
from clew.core.messages.messages import UserMessage

EXCERPT_CHARS = 400_000
RESULT_CHARS = 4_000


def is_prompt(entry: Json) -> bool:
    return entry.get("type") == "user" and UserMessage(entry).face == "typed"


def make_excerpt(entries: Sequence[Json]) -> str:
    """Return a part of the conversation as text.

    Both the length of each result and the total length are limited.
    """
    parts: list[str] = []
    for entry in entries:
        message = entry.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        who = "agent" if entry.get("type") == "assistant" else "user"
        for block in content if isinstance(content, list) else [{"type": "text", "text": content}]:
            words = _words(block)
            if words:
                kind = block.get("type") if isinstance(block, dict) else None
                name = "result" if kind == "tool_result" else who
                parts.append(f"{name}: {words}")
    return "\n\n".join(parts)[:EXCERPT_CHARS]


def _words(block: Any) -> str:
    if not isinstance(block, dict):
        return ""
    match block.get("type"):
        case "text":
            return str(block.get("text") or "")
        case "tool_use":
            return f"calls {block.get('name')} with {str(block.get('input'))[:RESULT_CHARS]}"
        case "tool_result":
            content = block.get("content")
            if isinstance(content, list):
                content = "\n".join(_words(item) for item in content)
            return str(content or "")[:RESULT_CHARS]
        case _:
            return ""

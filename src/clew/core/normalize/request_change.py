"""What of a request's beginning is another than in the request before, in words.

The service caches a request from its beginning on: model, tools, system prompt, then messages. The
first of these that changed is why the rest was not read from the cache. PURE: compares values, keeps
none.
"""

from collections.abc import Sequence
from operator import is_
from typing import Any

from msgspec import Struct

from clew.core.json_object import Json
from clew.core.normalize.target import MARK

SHOWN_TOOLS = 3


class CachedParts(Struct, frozen=True, kw_only=True):
    """The parts of a request that the service caches, in its order."""

    model: str
    tools: Sequence[Json]
    system: Sequence[Json] | str | None
    messages: Sequence[Json]


def describe_change(before: CachedParts, after: CachedParts) -> str:
    """Say what changed first; empty if the later request only continues the earlier one."""
    if before.model != after.model:
        return f"the model changed from {before.model} to {after.model}"
    return (
        _tools_change(_by_name(before.tools), _by_name(after.tools))
        or ("the system prompt changed" if before.system != after.system else "")
        or _messages_change(before.messages, after.messages)
    )


def _by_name(tools: Sequence[Json]) -> dict[str, Json]:
    """The definitions that are sent in full; a deferred one is no part of the cached beginning."""
    return {str(tool.get("name")): tool for tool in tools if not tool.get(MARK)}


def _tools_change(before: dict[str, Json], after: dict[str, Json]) -> str:
    parts = (
        ("added", [name for name in after if name not in before]),
        ("removed", [name for name in before if name not in after]),
        ("changed", [n for n in after if n in before and after[n] != before[n]]),
    )
    told = "; ".join(f"{_listed(names)} {what}" for what, names in parts if names)
    if told:
        return f"tools: {told}"
    return "the order of the tools changed" if list(before) != list(after) else ""


def _listed(names: list[str]) -> str:
    more = len(names) - SHOWN_TOOLS
    return ", ".join(names[:SHOWN_TOOLS]) + (f" and {more} more" if more > 0 else "")


def _messages_change(before: Sequence[Json], after: Sequence[Json]) -> str:
    for number, (old, new) in enumerate(zip(before, after, strict=False), 1):
        if is_(old, new) or old == new:
            continue
        if number == len(before) and _continues(old, new):
            continue
        role = str(new.get("role"))
        return f"message {number} of {len(after)} changed ({role})"
    if len(after) < len(before):
        return f"the conversation is shorter: {len(after)} messages instead of {len(before)}"
    return ""


def _continues(old: Json, new: Json) -> bool:
    """Whether the last message of a request only grew: results and words join the same message."""
    said, now = _blocks(old), _blocks(new)
    return old.get("role") == new.get("role") and now[: len(said)] == said


def _blocks(message: Json) -> list[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else [{"type": "text", "text": content}]

"""Break down the context window: the tokens of a request by source.

Each part is estimated on its own. If the service has counted the tokens, the estimates are then
scaled to add up to its last count.
"""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from clew.core.normalize.select import find_references
from clew.core.normalize.tokens import (
    estimate_block_tokens,
    estimate_content_tokens,
    estimate_tool_tokens,
)


class WindowPart(Struct, frozen=True, kw_only=True):
    """One source of tokens; `name` distinguishes parts of the same kind."""

    kind: str
    name: str
    tokens: int


_MEMORY = frozenset({"instructions", "nested_memory", "memory_folder"})


def break_down(
    entries: Iterable[dict[str, Any]],
    *,
    system: Iterable[dict[str, Any]] = (),
    tools: Iterable[dict[str, Any]] = (),
    counted: int | None = None,
) -> list[WindowPart]:
    """Return the parts of a request, largest first; if `counted` is given, they add up to it."""
    sums: dict[tuple[str, str], int] = {}

    def put(kind: str, name: str, tokens: int) -> None:
        sums[kind, name] = sums.get((kind, name), 0) + tokens

    put("system prompt", "", estimate_content_tokens(list(system)))
    for tool in tools:
        name = str(tool.get("name"))
        put("mcp tools" if name.startswith("mcp__") else "tools", name, estimate_tool_tokens(tool))
    names: dict[str, str] = {}
    all_entries = list(entries)
    gone = find_references(all_entries)
    for entry in all_entries:
        _put_entry(entry, names, gone, put)
    parts = _scaled({key: tokens for key, tokens in sums.items() if tokens}, counted)
    window_parts = [WindowPart(kind=kind, name=name, tokens=n) for (kind, name), n in parts.items()]
    return sorted(window_parts, key=lambda part: -part.tokens)


def _put_entry(
    entry: dict[str, Any], names: dict[str, str], gone: dict[str, str], put: Any
) -> None:
    if entry.get("type") == "attachment":
        payload = entry.get("attachment")
        name = str(payload.get("type")) if type(payload) is dict else ""
        rendered = entry.get("rendered")
        for piece in rendered if type(rendered) is list else ():
            content = piece.get("content") if type(piece) is dict else None
            put(
                "memory files" if name in _MEMORY else "context",
                name,
                estimate_content_tokens(content),
            )
        return
    message = entry.get("message")
    if type(message) is not dict or entry.get("isApiErrorMessage") is True:
        return
    content = message.get("content")
    for block in content if type(content) is list else [content]:
        who = "user" if entry.get("type") == "user" else "assistant"
        words = gone.get(str(block.get("tool_use_id"))) if type(block) is dict else None
        tokens = estimate_block_tokens(block) if words is None else estimate_content_tokens(words)
        put(*_source(block, names, who), tokens)


def _source(block: Any, names: dict[str, str], who: str) -> tuple[str, str]:
    """Return the kind and name of the part that a message block belongs to.

    Note the name of a call in `names`, for its result.
    """
    if type(block) is not dict:
        return who, ""
    kind = block.get("type")
    if kind == "tool_use":
        name = names[str(block.get("id"))] = str(block.get("name"))
        return "tool calls", name
    if kind == "tool_result":
        return "tool results", names.get(str(block.get("tool_use_id")), "")
    return who, "" if kind == "text" else str(kind)


def _scaled(sums: dict[tuple[str, str], int], counted: int | None) -> dict[tuple[str, str], int]:
    """Scale the parts to add up to `counted`; the largest part absorbs the rounding."""
    total = sum(sums.values())
    if counted is None or not total:
        return sums
    scaled = {key: tokens * counted // total for key, tokens in sums.items()}
    scaled[max(scaled, key=lambda key: scaled[key])] += counted - sum(scaled.values())
    return scaled

"""What the model reads of a result that a hook replaced. Pure.

Built-in tools give structured results; a replacement counts if it has the shape of what it replaces.
"""

from typing import Any

import msgspec


def rewritten(raw: Any, new: Any, *, is_mcp: bool) -> str | list[dict[str, Any]] | None:
    """The replacement as the content of a result; None if it is no result of this tool."""
    if not is_mcp and not fits(raw, new):
        return None
    if isinstance(new, str):
        return new
    if isinstance(new, list) and all(isinstance(b, dict) and "type" in b for b in new):
        return new
    if isinstance(new, dict):
        said = words(new)
        if said is not None:
            return said
    return msgspec.json.encode(new).decode()


def fits(raw: Any, new: Any) -> bool:
    if isinstance(raw, dict):
        return isinstance(new, dict) and bool(new) and new.keys() <= raw.keys()
    return isinstance(new, str | list)


def words(new: dict[str, Any]) -> str | None:
    """The text in a structured result, where the tools of the house keep it."""
    if "stdout" in new:
        return "\n".join(str(new[name]) for name in ("stdout", "stderr") if new.get(name))
    file = new.get("file")
    held = file if isinstance(file, dict) else new
    content = held.get("content")
    return content if isinstance(content, str) else None

"""Which tools a request offers: all of them, or without those that nobody has looked for yet.

A definition marked `defer_loading` costs nothing until a result refers to it. A receiver that knows the
mark is sent every definition, so that the request's beginning never changes; to one that does not,
deferred tools are offered from the first reference on, behind those that were offered before.

Decision: docs/decisions/120-deferred-tools.md
"""

from collections.abc import Iterable, Iterator
from typing import Any

MARK = "defer_loading"


def references(entries: Iterable[dict[str, Any]]) -> Iterator[str]:
    """The tools that results refer to, in the order of the conversation."""
    for entry in entries:
        message = entry.get("message") if entry.get("type") == "user" else None
        content = message.get("content") if type(message) is dict else None
        for block in content if type(content) is list else ():
            inside = block.get("content") if type(block) is dict else None
            for part in inside if type(inside) is list else ():
                if type(part) is dict and part.get("type") == "tool_reference":
                    yield str(part.get("tool_name"))


def offered(
    definitions: Iterable[dict[str, Any]], revealed: Iterable[str], *, takes_deferred: bool
) -> list[dict[str, Any]]:
    """The `tools` of a request; `revealed` are the names that results refer to, in their order."""
    if takes_deferred:
        return list(definitions)
    known = {definition["name"]: definition for definition in definitions}
    shown = [one for one in known.values() if not one.get(MARK)]
    found = [known[name] for name in dict.fromkeys(revealed) if known.get(name, {}).get(MARK)]
    plain = [{key: value for key, value in one.items() if key != MARK} for one in found]
    return [*shown, *plain]

"""Which tools can be loaded, told by name alone, and again whenever that changes.

What was told is read off the conversation itself, so that a session that goes on tells what is new
and nothing twice.

Decision: docs/decisions/120-deferred-tools.md
"""

from collections.abc import Collection, Iterable
from typing import Any

from clew.context.facts import Fact

KIND = "deferred_tools_delta"
SEPARATOR = "__"


def told(entries: Iterable[dict[str, Any]]) -> set[str]:
    """The names that the model knows of."""
    names: set[str] = set()
    for entry in entries:
        payload = entry.get("attachment") if entry.get("type") == "attachment" else None
        if type(payload) is dict and payload.get("type") == KIND:
            names -= _names(payload.get("removedNames"))
            names |= _names(payload.get("addedNames"))
    return names


def _names(value: Any) -> set[str]:
    return {name for name in value if type(name) is str} if type(value) is list else set()


def listing_fact(known: Collection[str], names: Collection[str]) -> Fact | None:
    """What to say so that the model knows of `names`; nothing if it does."""
    added, removed = sorted(set(names) - set(known)), sorted(set(known) - set(names))
    lines = []
    if added:
        lines += ["Tools that ToolSearch can load:", *grouped(added)]
    if removed:
        lines += ["Tools that are gone:", *grouped(removed)]
    if not lines:
        return None
    payload = {"type": KIND, "addedNames": added, "removedNames": removed}
    return Fact(payload=payload, rendered=("\n".join(lines),), role="system")


def grouped(names: Iterable[str]) -> list[str]:
    """Names in lines; those of one server share its name, which is most of their length."""
    alone: list[str] = []
    groups: dict[str, list[str]] = {}
    for name in names:
        group, separator, rest = name.rpartition(SEPARATOR)
        if separator:
            groups.setdefault(group + separator, []).append(rest)
        else:
            alone.append(name)
    lines = [", ".join(alone)] if alone else []
    return lines + [f"{group}* with * one of: {', '.join(rest)}" for group, rest in groups.items()]

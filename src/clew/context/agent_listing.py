"""Which kinds of agents there are, told by name and use, and again whenever that changes.

What was told is read off the conversation itself, as with tools that can be loaded.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from clew.context.facts import Fact

KIND = "agent_listing_delta"
SHOWN_CHARACTERS = 400


def told(entries: Iterable[dict[str, Any]]) -> dict[str, str]:
    """What the model was told of each kind that it knows."""
    known: dict[str, str] = {}
    for entry in entries:
        payload = entry.get("attachment") if entry.get("type") == "attachment" else None
        if type(payload) is not dict or payload.get("type") != KIND:
            continue
        removed, added = payload.get("removedTypes"), payload.get("addedTypes")
        lines = payload.get("addedLines")
        for name in removed if type(removed) is list else ():
            known.pop(name, None) if type(name) is str else None
        if type(added) is list and type(lines) is list:
            pairs = zip(added, lines, strict=False)
            known |= {n: line for n, line in pairs if type(n) is str and type(line) is str}
    return known


def listing_fact(known: Mapping[str, str], kinds: Mapping[str, str]) -> Fact | None:
    """What to say so that the model knows of `kinds`, name to use; nothing if it does."""
    lines = {name: line_of(name, use) for name, use in kinds.items()}
    added = sorted(name for name, line in lines.items() if known.get(name) != line)
    removed = sorted(set(known) - set(kinds))
    if not added and not removed:
        return None
    words = (
        ["Kinds of agents for the Agent tool:", *(lines[name] for name in added)] if added else []
    )
    if removed:
        words.append(f"Kinds of agents that are gone: {', '.join(removed)}")
    payload = {
        "type": KIND,
        "addedTypes": added,
        "addedLines": [lines[name] for name in added],
        "removedTypes": removed,
    }
    return Fact(payload=payload, rendered=("\n".join(words),), role="system")


def line_of(name: str, use: str) -> str:
    words = " ".join(use.split())
    if len(words) > SHOWN_CHARACTERS:
        words = f"{words[:SHOWN_CHARACTERS]}…"
    return f"- {name}: {words}"

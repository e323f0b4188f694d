"""Which entries of a chain are before the model, and what kind of thing each is.

The loader gives the chain in order; here the part before the last compaction falls away. A compaction
counts once its summary is there: a boundary alone, left by a crash, hides nothing.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from clew.messages import kinds

Entry: TypeAlias = dict[str, Any]
Role: TypeAlias = Literal["answer", "talk", "note", "context", "never"]

# What each kind of entry is to the model. Kinds beside the chain never go; a test holds this complete.
ROLES: dict[str, Role] = dict.fromkeys(kinds.KINDS, "never")
ROLES |= {"assistant": "answer", "user": "talk", "system": "note", "attachment": "context"}


def is_summary(entry: Entry) -> bool:
    return entry.get("isCompactSummary") is True and entry.get("type") == "user"


def is_boundary(entry: Entry) -> bool:
    return entry.get("subtype") == "compact_boundary" and entry.get("type") == "system"


def visible(entries: Sequence[Entry]) -> Sequence[Entry]:
    """The entries from the last finished compaction on: its summary, what it kept, what followed."""
    for at in range(len(entries) - 1, -1, -1):
        if is_summary(entries[at]):
            boundary = _boundary_before(entries, at)
            if boundary is not None:
                kept = _preserved(entries[boundary], entries[:boundary])
                return [entries[at], *kept, *entries[at + 1 :]]
    return entries


def _boundary_before(entries: Sequence[Entry], summary: int) -> int | None:
    """Where the boundary of this summary is; nothing anybody said stands between them."""
    for at in range(summary - 1, -1, -1):
        if is_boundary(entries[at]):
            return at
        if entries[at].get("type") in ("user", "assistant"):
            return None
    return None


def _preserved(boundary: Entry, before: Sequence[Entry]) -> list[Entry]:
    """What the compaction kept word for word; a loader may have put it behind the summary already."""
    metadata = boundary.get("compactMetadata")
    named = metadata.get("preservedMessages") if type(metadata) is dict else None
    uuids = named.get("uuids") if type(named) is dict else None
    wanted = {u for u in uuids if type(u) is str} if type(uuids) is list else set()
    if not wanted:
        return []
    return [e for e in before if type(e.get("uuid")) is str and e["uuid"] in wanted]

"""Which entries of a chain are before the model, and what kind of thing each is.

The loader gives the chain in order; here the part before the last compaction falls away. A compaction
counts once its summary is there: a boundary alone, left by a crash, hides nothing.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from clew.messages import kinds

Entry: TypeAlias = dict[str, Any]
MICRO = "microcompact_boundary"
# For a result whose taking out says nothing of where it is now.
TAKEN_OUT = "[Old result, taken out]"
Role: TypeAlias = Literal["answer", "talk", "note", "context", "never"]

# What each kind of entry is to the model. Kinds beside the chain never go; a test holds this complete.
ROLES: dict[str, Role] = dict.fromkeys(kinds.KINDS, "never")
ROLES |= {"assistant": "answer", "user": "talk", "system": "note", "attachment": "context"}


class Entries(Protocol):
    """Entries by their place; a history is one."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: int, /) -> Entry: ...


def is_summary(entry: Entry) -> bool:
    return entry.get("isCompactSummary") is True and entry.get("type") == "user"


def is_boundary(entry: Entry) -> bool:
    return entry.get("subtype") == "compact_boundary" and entry.get("type") == "system"


def is_micro(entry: Entry) -> bool:
    return entry.get("subtype") == MICRO and entry.get("type") == "system"


def references(entries: Iterable[Entry]) -> dict[str, str]:
    """The results of tools that were taken out, and what stands in the place of each."""
    found: dict[str, str] = {}
    for entry in entries:
        metadata = entry.get("microcompactMetadata") if is_micro(entry) else None
        if type(metadata) is dict:
            gone, told = metadata.get("compactedToolIds"), metadata.get("references")
            words = told if type(told) is dict else {}
            for call in gone if type(gone) is list else ():
                if type(call) is str:
                    said = words.get(call)
                    found[call] = said if type(said) is str else TAKEN_OUT
    return found


def begun_at(entries: Entries) -> int:
    """Where what was said since the last compaction begins, in a history that begins with its
    boundary; 0 in any other."""
    if not len(entries) or not is_boundary(entries[0]):
        return 0
    kept = kept_uuids(entries[0])
    place = 0
    for at in range(len(entries)):
        entry = entries[at]
        uuid = entry.get("uuid")
        if type(uuid) is str and uuid in kept:
            kept.discard(uuid)
            place = at + 1 if place else 0
        elif is_summary(entry):
            place = at + 1
        if place and not kept:
            break
    return place


def visible(entries: Sequence[Entry]) -> Sequence[Entry]:
    """The entries from the last finished compaction on: what it tells again, its summary, what it
    kept, what followed."""
    for at in range(len(entries) - 1, -1, -1):
        if is_summary(entries[at]):
            boundary = _boundary_before(entries, at)
            if boundary is not None:
                kept = _preserved(entries[boundary], entries[:boundary])
                return [*entries[boundary + 1 : at + 1], *kept, *entries[at + 1 :]]
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
    wanted = kept_uuids(boundary)
    if not wanted:
        return []
    return [e for e in before if type(e.get("uuid")) is str and e["uuid"] in wanted]


def kept_uuids(boundary: Entry) -> set[str]:
    """The entries that a compaction kept word for word."""
    metadata = boundary.get("compactMetadata")
    named = metadata.get("preservedMessages") if type(metadata) is dict else None
    uuids = named.get("uuids") if type(named) is dict else None
    return {u for u in uuids if type(u) is str} if type(uuids) is list else set()

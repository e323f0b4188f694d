"""Select the entries of a chain that the model sees, and assign each a role.

The loader provides the chain in order, and the part before the last compaction is removed here. A
compaction is ignored if it has no summary: a boundary alone, left by a crash, hides nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Literal, Protocol, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import replace

from clew.core.messages import kinds
from clew.core.normalize import shapes

Entry: TypeAlias = dict[str, Any]
MICRO = "microcompact_boundary"
# The replacement for a cleared result without a reference.
TAKEN_OUT = "[Old tool result cleared]"
Role: TypeAlias = Literal["answer", "talk", "note", "context", "never"]

# The role of each entry type for the model. Types off the chain are never sent. A test checks that
# the table is complete.
ROLES: dict[str, Role] = dict.fromkeys(kinds.KINDS, "never")
ROLES |= {"assistant": "answer", "user": "talk", "system": "note", "attachment": "context"}


class Entries(Protocol):
    """Entries that can be accessed by index, such as those of a history."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: int, /) -> Entry: ...


def is_summary(entry: Entry) -> bool:
    return entry.get("isCompactSummary") is True and entry.get("type") == "user"


def is_boundary(entry: Entry) -> bool:
    return entry.get("subtype") == "compact_boundary" and entry.get("type") == "system"


def is_micro(entry: Entry) -> bool:
    return entry.get("subtype") == MICRO and entry.get("type") == "system"


def find_references(entries: Iterable[Entry]) -> dict[str, str]:
    """Return the cleared tool results by call ID, with the text that replaces each."""
    texts: dict[str, str] = {}
    for entry in entries:
        metadata = entry.get("microcompactMetadata") if is_micro(entry) else None
        if type(metadata) is dict:
            gone, raw_references = metadata.get("compactedToolIds"), metadata.get("references")
            words = raw_references if type(raw_references) is dict else {}
            for call in gone if type(gone) is list else ():
                if type(call) is str:
                    text = words.get(call)
                    texts[call] = text if type(text) is str else TAKEN_OUT
    return texts


def find_beginning(entries: Entries) -> int:
    """Return the index of the first entry after the last compaction.

    The index is 0 if the history does not start with a compaction boundary.
    """
    if not len(entries) or not is_boundary(entries[0]):
        return 0
    kept_ids = find_kept_uuids(entries[0])
    place = 0
    for at in range(len(entries)):
        entry = entries[at]
        uuid = entry.get("uuid")
        if type(uuid) is str and uuid in kept_ids:
            kept_ids.discard(uuid)
            place = at + 1 if place else 0
        elif is_summary(entry):
            place = at + 1
        if place and not kept_ids:
            break
    return place


def select_visible(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the entries that remain after the last complete compaction, or all if there was none.

    These are the compaction's summary, the entries that it preserved, and all later entries.
    """
    for at in range(len(entries) - 1, -1, -1):
        if is_summary(entries[at]):
            boundary = _boundary_before(entries, at)
            if boundary is not None:
                preserved_entries = _preserved(entries[boundary], entries[:boundary])
                return [*entries[boundary + 1 : at + 1], *preserved_entries, *entries[at + 1 :]]
    return entries


def _boundary_before(entries: Sequence[Entry], summary: int) -> int | None:
    """Return the index of the boundary before a summary, or None if a message separates them."""
    for at in range(summary - 1, -1, -1):
        if is_boundary(entries[at]):
            return at
        if entries[at].get("type") in ("user", "assistant"):
            return None
    return None


def _preserved(boundary: Entry, before: Sequence[Entry]) -> list[Entry]:
    """Return the preserved entries; a loader may already have moved them after the summary."""
    wanted = find_kept_uuids(boundary)
    if not wanted:
        return []
    return [e for e in before if type(e.get("uuid")) is str and e["uuid"] in wanted]


def find_kept_uuids(boundary: Entry) -> set[str]:
    """Return the uuids of the entries that a compaction preserved verbatim."""
    metadata = boundary.get("compactMetadata")
    preserved_messages = metadata.get("preservedMessages") if type(metadata) is dict else None
    uuids = preserved_messages.get("uuids") if type(preserved_messages) is dict else None
    return {u for u in uuids if type(u) is str} if type(uuids) is list else set()


# Identifies the thinking blocks of a model.


Block: TypeAlias = dict[str, Any]
# Hexadecimal digits of a hash that suffice to be unique within one conversation.
SHORT = 16


def identify_thought(block: Block) -> str:
    """Return an identifier for a thinking block; copies of the block have the same identifier."""
    signed = block.get("signature" if block.get("type") == "thinking" else "data")
    return sha256(str(signed).encode("utf-8", "surrogatepass")).hexdigest()[:SHORT]


def thoughts_of(content: Any) -> Iterator[Block]:
    for block in content if type(content) is list else ():
        if type(block) is dict and block.get("type") in shapes.THINKING:
            yield block


# The user's edits of a conversation: excluded, summarized and pinned ranges of entries.


Kind: TypeAlias = Literal["exclude", "summarise", "pin"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class RangeEdit(Struct, frozen=True, kw_only=True):
    """An edit of one range of entries; `words` is the summary if the range was summarized."""

    number: int
    kind: Kind
    uuids: tuple[str, ...]
    words: str = ""

    def as_json(self) -> dict[str, Any]:
        fields = {"number": self.number, "kind": self.kind, "uuids": list(self.uuids)}
        return fields | {"words": self.words} if self.words else fields


class Edits(Struct, frozen=True, kw_only=True):
    """All edits of a conversation; for an entry in several ranges, the latest edit applies."""

    edits: tuple[RangeEdit, ...] = ()

    def with_one(self, kind: Kind, uuids: Sequence[str], words: str = "") -> "Edits":
        number = max((edit.number for edit in self.edits), default=0) + 1
        edit = RangeEdit(number=number, kind=kind, uuids=tuple(uuids), words=words)
        return replace(self, edits=(*self.edits, edit))

    def without(self, number: int) -> "Edits":
        return replace(self, edits=tuple(e for e in self.edits if e.number != number))

    def find(self, number: int) -> RangeEdit | None:
        return next((edit for edit in self.edits if edit.number == number), None)

    @property
    def by_uuid(self) -> dict[str, RangeEdit]:
        """The effective edit of each entry."""
        return {uuid: edit for edit in self.edits for uuid in edit.uuids}

    @property
    def pinned(self) -> frozenset[str]:
        return frozenset(uuid for uuid, edit in self.by_uuid.items() if edit.kind == "pin")

    def as_json(self) -> list[dict[str, Any]]:
        return [edit.as_json() for edit in self.edits]

    def apply(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return the entries from which a request is built, with the edits applied."""
        by_uuid = self.by_uuid
        if not by_uuid:
            return list(entries)
        return list(_left(entries, by_uuid))


NO_EDITS = Edits()


def _left(entries: Iterable[Entry], by_uuid: dict[str, RangeEdit]) -> Iterator[Entry]:
    numbers: set[int] = set()
    for entry in entries:
        edit = by_uuid.get(entry["uuid"]) if type(entry.get("uuid")) is str else None
        if edit is None or edit.kind == "pin":
            yield entry
        elif edit.kind == "summarise" and edit.number not in numbers:
            numbers.add(edit.number)
            yield _summary(entry, edit)


def _summary(entry: Entry, edit: RangeEdit) -> Entry:
    """Return an entry with a range's summary, to replace `entry`, the first one in the range."""
    words = (
        "<system-reminder>The user had this part of the conversation summarized:\n"
        f"{edit.words}\n</system-reminder>"
    )
    return {
        "type": "user",
        "uuid": entry["uuid"],
        "isMeta": True,
        "timestamp": entry.get("timestamp"),
        "message": {"role": "user", "content": words},
    }


def from_record(line: dict[str, Any]) -> Edits:
    """Return the edits recorded in a transcript line, ignoring invalid ones."""
    listed = line.get("edits")
    read = [_edit(value) for value in listed] if type(listed) is list else []
    return Edits(edits=tuple(edit for edit in read if edit is not None))


def _edit(value: Any) -> RangeEdit | None:
    if type(value) is not dict or value.get("kind") not in KINDS:
        return None
    number, uuids, words = value.get("number"), value.get("uuids"), value.get("words", "")
    if type(number) is not int or type(uuids) is not list or type(words) is not str:
        return None
    valid_uuids = tuple(uuid for uuid in uuids if type(uuid) is str)
    return RangeEdit(number=number, kind=value["kind"], uuids=valid_uuids, words=words)


def widen_range(entries: Sequence[Entry], first: int, last: int) -> tuple[int, int]:
    """Widen a range until it splits no response and separates no call from its result."""
    spans = _spans(entries)
    begin, end = min(first, last), max(first, last)
    while True:
        wider = [(low, high) for low, high in spans if low <= end and high >= begin and low != high]
        low = min([begin, *(span[0] for span in wider)])
        high = max([end, *(span[1] for span in wider)])
        if (low, high) == (begin, end):
            return begin, end
        begin, end = low, high


def _spans(entries: Sequence[Entry]) -> list[tuple[int, int]]:
    """Return the first and last index of each response and of each call with its result."""
    spans: dict[tuple[str, str], tuple[int, int]] = {}
    for at, entry in enumerate(entries):
        for key in _bonds(entry):
            first = spans.get(key, (at, at))[0]
            spans[key] = (first, at)
    return list(spans.values())


def _bonds(entry: Entry) -> Iterator[tuple[str, str]]:
    message = entry.get("message")
    if type(message) is not dict:
        return
    if entry.get("type") == "assistant" and type(message.get("id")) is str:
        yield "answer", message["id"]
    content = message.get("content")
    for block in content if type(content) is list else ():
        if type(block) is dict:
            call = block.get("id" if block.get("type") == "tool_use" else "tool_use_id")
            if block.get("type") in ("tool_use", "tool_result") and type(call) is str:
                yield "call", call

"""Which entries of a chain are before the model, and what kind of thing each is.

The loader gives the chain in order; here the part before the last compaction falls away. A compaction
counts once its summary is there: a boundary alone, left by a crash, hides nothing.
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


def find_references(entries: Iterable[Entry]) -> dict[str, str]:
    """The results of tools that were taken out, and what stands in the place of each."""
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
    """Where what was said since the last compaction begins, in a history that begins with its
    boundary; 0 in any other."""
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
    """The entries from the last finished compaction on: what it tells again, its summary, what it
    kept, what followed."""
    for at in range(len(entries) - 1, -1, -1):
        if is_summary(entries[at]):
            boundary = _boundary_before(entries, at)
            if boundary is not None:
                preserved_entries = _preserved(entries[boundary], entries[:boundary])
                return [*entries[boundary + 1 : at + 1], *preserved_entries, *entries[at + 1 :]]
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
    wanted = find_kept_uuids(boundary)
    if not wanted:
        return []
    return [e for e in before if type(e.get("uuid")) is str and e["uuid"] in wanted]


def find_kept_uuids(boundary: Entry) -> set[str]:
    """The entries that a compaction kept word for word."""
    metadata = boundary.get("compactMetadata")
    preserved_messages = metadata.get("preservedMessages") if type(metadata) is dict else None
    uuids = preserved_messages.get("uuids") if type(preserved_messages) is dict else None
    return {u for u in uuids if type(u) is str} if type(uuids) is list else set()


# A thought of a model as a block: which one it is, and which blocks are thoughts. Pure.


Block: TypeAlias = dict[str, Any]
# Hexadecimal digits of a hash: enough to tell apart what stands in one conversation.
SHORT = 16


def identify_thought(block: Block) -> str:
    """Which thought a block is, wherever it was copied to."""
    signed = block.get("signature" if block.get("type") == "thinking" else "data")
    return sha256(str(signed).encode("utf-8", "surrogatepass")).hexdigest()[:SHORT]


def thoughts_of(content: Any) -> Iterator[Block]:
    for block in content if type(content) is list else ():
        if type(block) is dict and block.get("type") in shapes.THINKING:
            yield block


# What a person took out of a conversation, or holds fast in it: ranges of entries, and what stands for them. Pure.


Kind: TypeAlias = Literal["exclude", "summarise", "pin"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class RangeEdit(Struct, frozen=True, kw_only=True):
    """One range. `uuids` are its entries; `words` stand for them where they are summarised."""

    number: int
    kind: Kind
    uuids: tuple[str, ...]
    words: str = ""

    def as_json(self) -> dict[str, Any]:
        fields = {"number": self.number, "kind": self.kind, "uuids": list(self.uuids)}
        return fields | {"words": self.words} if self.words else fields


class Edits(Struct, frozen=True, kw_only=True):
    """All edits of a conversation; where two speak of an entry, the later one counts."""

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
        """For each entry the edit that counts."""
        return {uuid: edit for edit in self.edits for uuid in edit.uuids}

    @property
    def pinned(self) -> frozenset[str]:
        return frozenset(uuid for uuid, edit in self.by_uuid.items() if edit.kind == "pin")

    def as_json(self) -> list[dict[str, Any]]:
        return [edit.as_json() for edit in self.edits]

    def apply(self, entries: Iterable[Entry]) -> list[Entry]:
        """What a request is built from."""
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
    """What stands for a range, in the place of its first entry that is left."""
    words = (
        "<system-reminder>A part of the conversation stood here; the person had it summarised:\n"
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
    """The edits of a line; what of it cannot be read is as if it were not there."""
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
    """The least range around two places that parts no answer and no call from its result."""
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
    """From where to where each answer with its calls and their results reaches."""
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

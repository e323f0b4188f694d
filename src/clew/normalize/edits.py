"""What a person took out of a conversation, or holds fast in it: ranges of entries, and what stands for them. Pure.

Nothing of the conversation changes: a request is built from what these leave of it, and without them it is
as before. The line that says them is described in docs/requests.md.

Decision: docs/decisions/080-requests-by-exchange.md
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import replace

Entry: TypeAlias = dict[str, Any]
Kind: TypeAlias = Literal["exclude", "summarise", "pin"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Edit(Struct, frozen=True, kw_only=True):
    """One range. `uuids` are its entries; `words` stand for them where they are summarised."""

    number: int
    kind: Kind
    uuids: tuple[str, ...]
    words: str = ""

    def as_json(self) -> dict[str, Any]:
        said = {"number": self.number, "kind": self.kind, "uuids": list(self.uuids)}
        return said | {"words": self.words} if self.words else said


class Edits(Struct, frozen=True, kw_only=True):
    """All edits of a conversation; where two speak of an entry, the later one counts."""

    edits: tuple[Edit, ...] = ()

    def with_one(self, kind: Kind, uuids: Sequence[str], words: str = "") -> "Edits":
        number = max((edit.number for edit in self.edits), default=0) + 1
        edit = Edit(number=number, kind=kind, uuids=tuple(uuids), words=words)
        return replace(self, edits=(*self.edits, edit))

    def without(self, number: int) -> "Edits":
        return replace(self, edits=tuple(e for e in self.edits if e.number != number))

    def find(self, number: int) -> Edit | None:
        return next((edit for edit in self.edits if edit.number == number), None)

    @property
    def by_uuid(self) -> dict[str, Edit]:
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


def _left(entries: Iterable[Entry], by_uuid: dict[str, Edit]) -> Iterator[Entry]:
    told: set[int] = set()
    for entry in entries:
        edit = by_uuid.get(entry["uuid"]) if type(entry.get("uuid")) is str else None
        if edit is None or edit.kind == "pin":
            yield entry
        elif edit.kind == "summarise" and edit.number not in told:
            told.add(edit.number)
            yield _summary(entry, edit)


def _summary(entry: Entry, edit: Edit) -> Entry:
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


def _edit(value: Any) -> Edit | None:
    if type(value) is not dict or value.get("kind") not in KINDS:
        return None
    number, uuids, words = value.get("number"), value.get("uuids"), value.get("words", "")
    if type(number) is not int or type(uuids) is not list or type(words) is not str:
        return None
    named = tuple(uuid for uuid in uuids if type(uuid) is str)
    return Edit(number=number, kind=value["kind"], uuids=named, words=words)


def whole(entries: Sequence[Entry], first: int, last: int) -> tuple[int, int]:
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

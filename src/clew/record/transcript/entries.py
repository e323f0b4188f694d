"""The codec of transcript lines: bytes to entries and back, without losing a byte.

A line that nobody changed is written back as it came; a change splices one top-level member. A line
that cannot be read is a value with its number and reason. Knows nothing of files or of order.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from clew.core.messages.encoding import decode, encode
from clew.core.messages.kinds import KINDS, TAGS, view_entry
from clew.core.regex import lazy_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from clew.core.messages.views import View


__all__ = ["Keys", "RejectedLine", "TranscriptLine", "encode", "parse", "scan", "scan_block"]


class RejectedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that is not an entry; `reason` says why without quoting it."""

    number: int
    reason: str
    raw: bytes


class TranscriptLine:
    """One line and what it says. `raw` is the truth: changing `data` changes no file."""

    __slots__ = ("_data", "_view", "number", "raw")

    def __init__(self, raw: bytes, number: int = 0, data: dict[str, Any] | None = None) -> None:
        self.raw = raw
        self.number = number
        self._data = data
        self._view: View | None = None

    @property
    def data(self) -> dict[str, Any]:
        if self._data is None:
            self._data = decode(self.raw)
        return self._data

    @property
    def view(self) -> View:
        if self._view is None:
            self._view = view_entry(self.data)
        return self._view

    def replaced(self, key: str, value: Any) -> TranscriptLine:
        """This entry with one top-level member set; every other byte stays as it is."""
        changed = _with_member(self.raw, key, encode(value), present=key in self.data)
        return TranscriptLine(changed, self.number)

    def __repr__(self) -> str:
        return f"<Entry {self.number}, {len(self.raw)} bytes>"


class Keys(msgspec.Struct, kw_only=True, gc=False, rename="camel"):
    """What the chain is built from, read without decoding the rest of a line."""

    type: str | None = None
    uuid: str | None = None
    # null says "the first"; absent says nothing.
    parent_uuid: str | msgspec.UnsetType | None = msgspec.UNSET
    logical_parent_uuid: str | None = None
    session_id: str | None = None
    is_sidechain: bool = False
    timestamp: str | None = None
    subtype: str | None = None
    agent_id: str | None = None
    team_name: str | None = None
    prompt_source: str | None = None
    is_meta: bool = False
    is_compact_summary: bool = False


_scan = msgspec.json.Decoder(Keys).decode
_scan_all = msgspec.json.Decoder(Keys).decode_lines
_OPENS, _CLOSES = b"{}"


def parse(line: bytes, number: int = 0) -> TranscriptLine | RejectedLine:
    """The entry written in `line` (without its line end), or why there is none."""
    try:
        data = decode(line)
    except ValueError as error:
        return RejectedLine(number=number, reason=f"not JSON: {error}", raw=line)
    if type(data) is not dict:
        return RejectedLine(number=number, reason="not a JSON object", raw=line)
    return TranscriptLine(line, number, data)


def scan(line: bytes, number: int = 0) -> Keys | RejectedLine:
    """The keys of `line`, or why there are none; agrees with `parse` on which lines are entries."""
    try:
        keys = _scan(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        entry = parse(line, number)
        if isinstance(entry, RejectedLine):
            return entry
        keys = _keys_of(entry.data)
    if keys.type is not None:
        keys.type = TAGS.get(keys.type, keys.type)
    return keys


def scan_block(block: bytes, number: int) -> Iterator[tuple[int, int, Keys | RejectedLine]]:
    """Where each line of `block` begins and ends, the first being line `number`, and its keys."""
    ends = _line_ends(block)
    keys = _scan_at_once(block, ends)
    start = 0
    for place, end in enumerate(ends):
        yield start, end, scan(block[start:end], number + place) if keys is None else keys[place]
        start = end + 1


def _line_ends(block: bytes) -> list[int]:
    """The positions of the line feeds; of a last line without one, the end."""
    ends: list[int] = []
    at, size = 0, len(block)
    while at < size:
        at = block.find(b"\n", at)
        if at < 0:
            at = size
        ends.append(at)
        at += 1
    return ends


def _scan_at_once(block: bytes, ends: list[int]) -> list[Keys] | None:
    """The keys of every line in one go; None unless each line is one object and nothing else.

    A value over two lines, the first ending with a brace, would need a comma or a bracket to go on;
    a brace begins the next. So no value is over two lines, and as many values as lines are one each.
    """
    start = 0
    for end in ends:
        if start == end or block[start] != _OPENS or block[end - 1] != _CLOSES:
            return None
        start = end + 1
    try:
        keyses = _scan_all(block)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if len(keyses) != len(ends):
        return None
    for keys in keyses:
        if keys.type is not None:
            keys.type = TAGS.get(keys.type, keys.type)
    return keyses


def _keys_of(data: dict[str, Any]) -> Keys:
    """Keys from an object any of whose members may have an unexpected type."""
    keys = Keys()
    for field in msgspec.structs.fields(Keys):
        value = data.get(field.encode_name)
        if type(value) is (bool if field.default is False else str):
            setattr(keys, field.name, value)
        elif value is None and field.default is msgspec.UNSET and field.encode_name in data:
            keys.parent_uuid = None
    return keys


_SPACE = lazy_pattern(rb"[ \t\r\n]*")
_STRING = lazy_pattern(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR = lazy_pattern(rb"[^ \t\r\n,}]*")
# Up to the next bracket outside a string. Possessive, so that no string is too long for it.
_BRACKET = lazy_pattern(
    rb'[^"{}\[\]]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}\[\]]*+)*+([{}\[\]])', re.DOTALL
)


def _with_member(raw: bytes, key: str, value: bytes, *, present: bool) -> bytes:
    """`raw` with the top-level member `key` set: in its place, or behind the last member."""
    if present:
        start, end = _place(raw, key)
        return raw[:start] + value + raw[end:]
    end = raw.rindex(b"}")
    comma = b"," if raw[raw.index(b"{") + 1 : end].strip() else b""
    return raw[:end] + comma + encode(key) + b":" + value + raw[end:]


def _place(raw: bytes, key: str) -> tuple[int, int]:
    """Where the value of `key` begins and ends; of several the last, which is the one that counts."""
    spelled = encode(key)
    position = raw.find(spelled)
    if (
        key.isidentifier()
        and key.isascii()
        and b"\\u" not in raw
        and raw.find(spelled, position + 1) == -1
    ):
        # Only `\\u` spells such a key in another way, so the one place where it stands is the place.
        start = _past(_SPACE, raw, raw.index(b":", position) + 1)
        return start, _end_of_value(raw, start)
    return [(start, end) for name, start, end in _members(raw) if name == key][-1]


def _members(raw: bytes) -> Iterator[tuple[str, int, int]]:
    """Each top-level member of a line that `parse` reads: its key, and its value's begin and end."""
    position = _past(_SPACE, raw, raw.index(b"{") + 1)
    while raw[position : position + 1] == b'"':
        end_of_key = _past(_STRING, raw, position)
        key = decode(raw[position:end_of_key])
        start = _past(_SPACE, raw, raw.index(b":", end_of_key) + 1)
        end = _end_of_value(raw, start)
        yield key, start, end
        position = _past(_SPACE, raw, end)
        position = _past(_SPACE, raw, position + 1)


def _past(pattern: re.Pattern[bytes], raw: bytes, start: int) -> int:
    match = pattern.match(raw, start)
    return len(raw) if match is None else match.end()


def _end_of_value(raw: bytes, start: int) -> int:
    first = raw[start : start + 1]
    if first == b'"':
        return _past(_STRING, raw, start)
    if first not in (b"{", b"["):
        return _past(_SCALAR, raw, start)
    depth = 0
    end = start
    while True:
        end = _past(_BRACKET, raw, end)
        depth += 1 if raw[end - 1] in b"{[" else -1
        if depth == 0:
            return end


# Entries inside a line that is none: two writers' lines in one, a line behind a torn one. Pure.


# How an entry's object begins, whoever wrote it; what is found must prove to be one.
_BEGINNING = lazy_pattern(
    rb'\{\s*"(?:parentUuid|logicalParentUuid|type|uuid|sessionId|isSidechain|message|timestamp)"\s*:'
)
# A line of megabytes of garbage is not searched to its end.
_TRIES = 256
_decoder = json.JSONDecoder(strict=False)


def find_entries(raw: bytes) -> list[tuple[int, int]]:
    """Where whole entries begin and end inside `raw`, one after another."""
    spans: list[tuple[int, int]] = []
    done = tries = 0
    for beginning in _BEGINNING.finditer(raw):
        start = beginning.start()
        if start < done:
            continue
        tries += 1
        if tries > _TRIES:
            break
        end = _end_of_entry(raw, start)
        if end is not None:
            spans.append((start, end))
            done = end
    return spans


def _end_of_entry(raw: bytes, start: int) -> int | None:
    text = raw[start:].decode("utf-8", "surrogateescape")
    try:
        value, length = _decoder.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    if not is_entry(value):
        return None
    return start + len(text[:length].encode("utf-8", "surrogateescape"))


def is_entry(value: Any) -> bool:
    """Whether an object is an entry and not a part of one: a known kind that names its session."""
    if not isinstance(value, dict) or value.get("type") not in KINDS:
        return False
    return isinstance(value.get("sessionId"), str) or isinstance(value.get("uuid"), str)

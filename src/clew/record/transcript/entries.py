"""The codec of transcript lines: bytes to entries and back, without losing a byte.

An unchanged line is written back as it was read; a change replaces or adds one top-level field. An
unreadable line becomes a value with its line number and the reason. This module knows nothing about
files or the order of lines.
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
    """A line that is not an entry; `reason` does not quote the line."""

    number: int
    reason: str
    raw: bytes


class TranscriptLine:
    """A transcript line and its decoded object.

    `raw` is authoritative: changing `data` changes no file.
    """

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
        """Return this entry with one top-level field set and every other byte unchanged."""
        changed = _with_member(self.raw, key, encode(value), present=key in self.data)
        return TranscriptLine(changed, self.number)

    def __repr__(self) -> str:
        return f"<Entry {self.number}, {len(self.raw)} bytes>"


class Keys(msgspec.Struct, kw_only=True, gc=False, rename="camel"):
    """The fields needed to build the chain, read without decoding the rest of a line."""

    type: str | None = None
    uuid: str | None = None
    # null marks a root; UNSET means the key is missing.
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
    """Parse a line (without its line ending) into an entry, or return why it is not one."""
    try:
        data = decode(line)
    except ValueError as error:
        return RejectedLine(number=number, reason=f"not JSON: {error}", raw=line)
    if type(data) is not dict:
        return RejectedLine(number=number, reason="not a JSON object", raw=line)
    return TranscriptLine(line, number, data)


def scan(line: bytes, number: int = 0) -> Keys | RejectedLine:
    """Return the keys of a line, or why it is not an entry; `parse` rejects the same lines."""
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
    """Yield the start, end and keys of each line in a block.

    `number` is the number of the first line.
    """
    ends = _line_ends(block)
    keys = _scan_at_once(block, ends)
    start = 0
    for place, end in enumerate(ends):
        yield start, end, scan(block[start:end], number + place) if keys is None else keys[place]
        start = end + 1


def _line_ends(block: bytes) -> list[int]:
    """Return the offsets of the line feeds, and the end of the block if the last line has none."""
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
    """Scan all lines of a block at once. Return None unless each line is exactly one object.

    A value that spans two lines, the first of which ends with a brace, would need a comma or a
    bracket to continue, but the next line begins with a brace. So no value spans two lines, and if
    the counts match, each line is one value.
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
    """Return the keys of an object whose fields may have unexpected types."""
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
# Matches up to the next bracket outside a string. Possessive, so that strings of any length match.
_BRACKET = lazy_pattern(
    rb'[^"{}\[\]]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}\[\]]*+)*+([{}\[\]])', re.DOTALL
)


def _with_member(raw: bytes, key: str, value: bytes, *, present: bool) -> bytes:
    """Return `raw` with the top-level field `key` replaced, or appended if it is absent."""
    if present:
        start, end = _place(raw, key)
        return raw[:start] + value + raw[end:]
    end = raw.rindex(b"}")
    comma = b"," if raw[raw.index(b"{") + 1 : end].strip() else b""
    return raw[:end] + comma + encode(key) + b":" + value + raw[end:]


def _place(raw: bytes, key: str) -> tuple[int, int]:
    """Return the start and end of the value of `key`; if the key is repeated, of the last value."""
    spelled = encode(key)
    position = raw.find(spelled)
    if (
        key.isidentifier()
        and key.isascii()
        and b"\\u" not in raw
        and raw.find(spelled, position + 1) == -1
    ):
        # Only `\\u` could spell such a key differently, so the only occurrence of the key is the
        # field itself.
        start = _past(_SPACE, raw, raw.index(b":", position) + 1)
        return start, _end_of_value(raw, start)
    return [(start, end) for name, start, end in _members(raw) if name == key][-1]


def _members(raw: bytes) -> Iterator[tuple[str, int, int]]:
    """Yield each top-level field of a valid line: its key, and where its value starts and ends."""
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


# Entries inside an invalid line: merged lines of two writers, or a line after an incomplete one.
# No I/O.


# The possible starts of an entry's object, by any writer; each match is verified.
_BEGINNING = lazy_pattern(
    rb'\{\s*"(?:parentUuid|logicalParentUuid|type|uuid|sessionId|isSidechain|message|timestamp)"\s*:'
)
# Limits the search in a line with megabytes of garbage.
_TRIES = 256
_decoder = json.JSONDecoder(strict=False)


def find_entries(raw: bytes) -> list[tuple[int, int]]:
    """Return the start and end of each complete entry inside `raw`, without overlaps."""
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
    """Return whether an object is a complete entry: a known type with a session ID or UUID."""
    if not isinstance(value, dict) or value.get("type") not in KINDS:
        return False
    return isinstance(value.get("sessionId"), str) or isinstance(value.get("uuid"), str)

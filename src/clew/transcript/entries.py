"""The codec of transcript lines: bytes to entries and back, without losing a byte.

A line that nobody changed is written back as it came; a change splices one top-level member. A line
that cannot be read is a value with its number and reason. Knows nothing of files or of order.
"""

from __future__ import annotations

import re

import msgspec

from clew.messages.encoding import decode, encode
from clew.messages.errors import MisuseError
from clew.messages.kinds import CHAIN, KINDS, TAGS, view

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from typing import Any

    from clew.messages.views import View

__all__ = [
    "CLEANED",
    "Entry",
    "Keys",
    "Rejected",
    "Writer",
    "cleaned",
    "encode",
    "is_chain_participant",
    "is_ephemeral_progress",
    "is_transcript_message",
    "parse",
    "placed",
    "scan",
]


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """A line that is not an entry; `reason` says why without quoting it."""

    number: int
    reason: str
    raw: bytes


class Entry:
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
            self._view = view(self.data)
        return self._view

    def replaced(self, key: str, value: Any) -> Entry:
        """This entry with one top-level member set; every other byte stays as it is."""
        return Entry(spliced(self.raw, key, encode(value)), self.number)

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


def parse(line: bytes, number: int = 0) -> Entry | Rejected:
    """The entry written in `line` (without its line end), or why there is none."""
    try:
        data = decode(line)
    except ValueError as error:
        return Rejected(number=number, reason=f"not JSON: {error}", raw=line)
    if type(data) is not dict:
        return Rejected(number=number, reason="not a JSON object", raw=line)
    return Entry(line, number, data)


def scan(line: bytes, number: int = 0) -> Keys | Rejected:
    """The keys of `line`, or why there are none; agrees with `parse` on which lines are entries."""
    try:
        keys = _scan(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        entry = parse(line, number)
        if isinstance(entry, Rejected):
            return entry
        keys = _keys_of(entry.data)
    if keys.type is not None:
        keys.type = TAGS.get(keys.type, keys.type)
    return keys


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


def is_transcript_message(kind: str | None) -> bool:
    """Whether entries of this kind are the conversation; the only filter of what is loaded."""
    return kind in KINDS and KINDS[kind].place == CHAIN if kind is not None else False


def is_chain_participant(kind: str | None) -> bool:
    """Whether a new entry may name one of this kind as its parent. Progress may not, and nothing
    off the chain: readers of other programs lose the history above a kind they do not know."""
    return is_transcript_message(kind)


def is_ephemeral_progress(data: dict[str, Any]) -> bool:
    """Whether an entry only says how far a tool is: shown, never recorded. Old files hold some,
    even inside the chain; there it is a bridge to its own parent."""
    return data.get("type") == "progress"


# What is taken out of a message before it is recorded, and why. A pointer is taken out only when
# the history no longer holds what it points at.
CLEANED = {
    "display": "display only: how the screen draws the message",
    "progressMessages": "progress data of a tool that runs or ran",
    "liveHandle": "what reaches the running task; means nothing to the next process",
    "isReplay": "a host's note to itself",
    "sourceToolAssistantUUID": "points at a withdrawn message",
}
_POINTERS = frozenset({"sourceToolAssistantUUID"})


def cleaned(message: dict[str, Any], history: Container[str]) -> dict[str, Any]:
    """`message` as it is recorded; `history` are the uuids of the messages that stand."""
    return {
        key: value
        for key, value in message.items()
        if key not in CLEANED or (key in _POINTERS and value in history)
    }


class Writer(msgspec.Struct, frozen=True, kw_only=True):
    """Who writes an entry and where; what each line of the chain says about its origin."""

    session_id: str
    cwd: str
    version: str
    git_branch: str = "HEAD"
    entrypoint: str = "cli"
    agent_id: str | None = None
    team_name: str | None = None
    agent_name: str | None = None


def placed(message: dict[str, Any], *, parent_uuid: str | None, writer: Writer) -> dict[str, Any]:
    """A message as a line of the chain: behind `parent_uuid`, with every key readers insist on."""
    if not is_chain_participant(message.get("type")):
        raise MisuseError(f"{message.get('type')!r} does not stand on the chain")
    place: dict[str, Any] = {
        "parentUuid": parent_uuid,
        "isSidechain": writer.agent_id is not None,
        "userType": "external",
        "entrypoint": writer.entrypoint,
        "cwd": writer.cwd,
        "sessionId": writer.session_id,
        "version": writer.version,
        "gitBranch": writer.git_branch,
    }
    for key, value in (
        ("agentId", writer.agent_id),
        ("teamName", writer.team_name),
        ("agentName", writer.agent_name),
    ):
        if value is not None:
            place[key] = value
    return place | message


_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR = re.compile(rb"[^ \t\r\n,}]*")
# Up to the next bracket outside a string. Possessive, so that no string is too long for it.
_BRACKET = re.compile(rb'(?:[^"{}\[\]]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+([{}\[\]])', re.DOTALL)


def spliced(raw: bytes, key: str, value: bytes) -> bytes:
    """`raw` with the member `key` set to `value`: in place of the one that counts (of several the
    last), or behind the last member."""
    place: tuple[int, int] | None = None
    last = raw.index(b"{") + 1
    before = b""
    for name, start, end in members(raw):
        last, before = end, b","
        if name == key:
            place = (start, end)
    if place is None:
        value = before + encode(key) + b":" + value
        place = (last, last)
    return raw[: place[0]] + value + raw[place[1] :]


def members(raw: bytes) -> Iterator[tuple[str, int, int]]:
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
    found = pattern.match(raw, start)
    return len(raw) if found is None else found.end()


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

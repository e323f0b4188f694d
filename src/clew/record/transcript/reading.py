"""Read a transcript's lines into entries, from a file or from bytes.

The source is passed in. Damaged lines never raise; complete entries inside of them are kept, and a
note says so. The rules are in docs/internals/transcript.md.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeAlias

import msgspec

from clew.core.messages.encoding import decode, decode_lines, encode
from clew.core.messages.text import format_count
from clew.record.transcript.chain import build
from clew.record.transcript.entries import Keys, RejectedLine, find_entries, scan, scan_block
from clew.record.transcript.leaf import CURRENT, Side, is_written_ahead
from clew.record.transcript.links import LinkNote, Node
from clew.record.transcript.policy import CONVERSATION
from clew.record.transcript.replacements import apply_replacements

# If a file is read from its last boundary on, titles and tags are also read from its first bytes.
HEAD_SIZE_BYTES = 65536
# The maximum number of bytes of adjacent lines that are read together.
ROW_SIZE_BYTES = 1 << 17


# Maps each string to itself, so that equal strings are one object.
_Shared: TypeAlias = dict[str | None, str | None]


class LineSource(Protocol):
    """The bytes of a transcript, by offset."""

    def part(self, at: int, size: int) -> bytes: ...
    def read(self, at: int, size: int) -> bytes: ...
    def lines(self, start: int, end: int | None = None) -> Iterator[tuple[int, int, bytes]]: ...
    def blocks(self, start: int, end: int | None = None) -> Iterator[tuple[int, bytes]]: ...


class DataSource:
    """A transcript held entirely in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def part(self, at: int, size: int) -> bytes:
        return self._data[at : at + size]

    def read(self, at: int, size: int) -> bytes:
        return self.part(at, size)

    def lines(self, start: int, end: int | None = None) -> Iterator[tuple[int, int, bytes]]:
        at = start
        for number, line in enumerate(self._data[start:end].split(b"\n"), 1):
            yield number, at, line
            at += len(line) + 1

    def blocks(self, start: int, end: int | None = None) -> Iterator[tuple[int, bytes]]:
        if block := self._data[start:end]:
            yield start, block


def read_transcript(data: bytes) -> list[dict[str, Any]]:
    """Return the entries of the conversation in a transcript, from its last compaction on.

    These are the entries that a session would send: abandoned branches, and lines without an entry,
    are omitted. `for_api` converts them to a request, and `find_charges` returns their costs.
    """
    if not isinstance(data, bytes | bytearray):
        raise TypeError(f"data: expected the bytes of a transcript, got {type(data).__name__}")
    source = DataSource(data)
    lines = read_lines(source, 0)
    bodies: dict[int, dict[str, Any]] = {}

    def body(node: Node) -> dict[str, Any]:
        if node.at not in bodies:
            bodies[node.at] = read_body(source, node)
        return bodies[node.at]

    side = lines.side
    nodes = place_owed(source, lines)
    chain = build(nodes, markers=side.markers, withdrawn=side.withdrawn, body=body)
    messages = read_messages(source, chain.nodes(), bodies)
    return apply_replacements(messages, side.replacements) if side.replacements else messages


class TranscriptLines(msgspec.Struct, kw_only=True):
    """The lines of a file, divided into tree entries, side lines and notes on invalid lines."""

    nodes: list[Node]
    side: Side
    notes: list[LinkNote]


def read_lines(source: LineSource, start: int) -> TranscriptLines:
    lines = TranscriptLines(nodes=[], side=Side(), notes=[])
    if start:
        for number, at, raw in source.lines(0, HEAD_SIZE_BYTES):
            keys = scan(raw, number)
            if isinstance(keys, Keys) and keys.type in CURRENT:
                lines.side.feed(keys.type, raw, number, at)
    nodes, side = lines.nodes, lines.side
    number, previous = 1, None
    shared: _Shared = {}
    for at, block in source.blocks(start):
        for begin, end, keys in scan_block(block, number):
            if isinstance(keys, RejectedLine):
                if not _is_blank(keys.raw):
                    _salvage(lines, keys, number, at + begin, keys.raw)
                number += 1
                continue
            keys.type = shared.setdefault(keys.type, keys.type)
            keys.session_id = shared.setdefault(keys.session_id, keys.session_id)
            if keys.parent_uuid == previous:
                keys.parent_uuid = previous
            previous = keys.uuid
            if keys.type in CONVERSATION or (keys.uuid is not None and keys.type is not None):
                nodes.append(Node(keys=keys, number=number, at=at + begin, size=end - begin))
                if keys.type in CURRENT:
                    # Some writers give side lines a UUID.
                    side.feed(keys.type, block[begin:end], number, at + begin)
            else:
                side.feed(keys.type, block[begin:end], number, at + begin)
            number += 1
    return lines


def _share(entry: dict[str, Any], node: Node, shared: _Shared) -> None:
    """Make an entry share the strings of its keys, and strings that other entries contain.

    The entries of a file repeat most of their short strings. Sharing them saves a fifth of the
    memory of a long session.
    """
    keys = node.keys
    same: dict[str, Any] = {"uuid": keys.uuid, "type": keys.type}
    if type(keys.parent_uuid) is str:
        same["parentUuid"] = keys.parent_uuid
    if keys.session_id is not None:
        same["sessionId"] = keys.session_id
    if keys.timestamp is not None:
        same["timestamp"] = keys.timestamp
    entry.update(same)  # Equal values, which are in memory already.
    _share_texts(entry, ("cwd", "version", "gitBranch", "userType"), shared)
    if type(message := entry.get("message")) is dict:
        _share_texts(message, ("role", "type", "model"), shared)


def _share_texts(data: dict[str, Any], names: tuple[str, ...], shared: _Shared) -> None:
    """Replace strings with equal ones that are already in memory."""
    for name in names:
        if type(value := data.get(name)) is str:
            data[name] = shared.setdefault(value, value)


def _salvage(lines: TranscriptLines, line: RejectedLine, number: int, at: int, raw: bytes) -> None:
    """Extract the complete entries from an invalid line, and add a note on the line."""
    parts = find_entries(raw)
    # Entries in an incomplete written-ahead line are not part of the chain: they follow later or
    # are owed.
    is_ahead = is_written_ahead(raw)
    lines.notes.append(
        LinkNote(
            rule="spliced" if parts and not is_ahead else "not-an-entry",
            number=number,
            at=at,
            detail=f"contains {format_count(len(parts), 'entry', 'entries')}"
            if parts
            else line.reason,
        )
    )
    for start, end in parts:
        keys = scan(raw[start:end], number)
        if isinstance(keys, Keys):
            if is_ahead and keys.uuid is not None:
                lines.side.owe_part(keys.uuid, number, at + start, end - start)
            elif keys.type in CONVERSATION:
                lines.nodes.append(Node(keys=keys, number=number, at=at + start, size=end - start))
            else:
                lines.side.feed(keys.type, raw[start:end], number, at + start)


def _is_blank(raw: bytes) -> bool:
    return not raw.strip(b" \t\r\n\0")


def read_messages(
    source: LineSource, nodes: Iterable[Node], bodies: dict[int, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the entries of the nodes; adjacent lines are read together."""
    messages: list[dict[str, Any]] = []
    shared: _Shared = {}
    row: list[Node] = []
    begin = end = -1
    for node in nodes:
        if node.at != end + 1 or end - begin > ROW_SIZE_BYTES:
            messages += _row(source, row, shared)
            row, begin = [], node.at
        entry = bodies.get(node.at, node.data)
        if entry is None and node.keys.uuid is not None:
            row.append(node)
            end = node.at + node.size
        else:
            messages += _row(source, row, shared)
            row, end = [], -1
            messages.append(entry or read_body(source, node))
    return messages + _row(source, row, shared)


def _row(source: LineSource, row: list[Node], shared: _Shared) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] | None = None
    if len(row) > 1:
        begin, end = row[0].at, row[-1].at + row[-1].size
        entries = decode_lines(source.read(begin, end - begin), len(row))
    if entries is None:
        entries = [read_body(source, node) for node in row]
    for entry, node in zip(entries, row, strict=True):
        _share(entry, node, shared)
    return entries


def read_body(source: LineSource, node: Node) -> dict[str, Any]:
    """Return a node's entry. If the entry has no ID, its derived ID is added."""
    data: dict[str, Any] = node.data or decode(source.part(node.at, node.size))
    return data if node.keys.uuid is not None else data | {"uuid": node.uuid}


def place_owed(source: LineSource, lines: TranscriptLines) -> list[Node]:
    """Return the tree's nodes, with the entries that were only written ahead in their places."""
    if not lines.side.owed:
        return lines.nodes
    known_ids = {node.keys.uuid for node in lines.nodes}
    ahead: list[Node] = []
    for owed in lines.side.owed:
        if not known_ids.issuperset(owed.uuids):
            line = decode(source.read(owed.at, owed.size))
            for place, entry in enumerate([line] if owed.is_part else line["owed"]):
                keys = scan(encode(entry), owed.number)
                if isinstance(keys, Keys) and keys.uuid not in known_ids:
                    known_ids.add(keys.uuid)
                    at = owed.at + place
                    ahead.append(Node(keys=keys, number=owed.number, at=at, size=0, data=entry))
    return sorted([*lines.nodes, *ahead], key=lambda node: node.at) if ahead else lines.nodes

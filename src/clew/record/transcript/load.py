"""Load a session's file, of any version and with any damage, into its conversation.

Keys and offsets are read first, and then only the bodies of live entries. Of a compacted session
only the end is read, from the last boundary on, if that end is self-contained. Loading never raises
because of a file's content: lines that are not entries, and entries that are not live, are listed
in the report. The rules are in docs/internals/transcript.md. This module must never write.

Decision: docs/decisions/052-transcript-loading.md
"""

import gc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from clew.core.json_object import object_of
from clew.core.messages.encoding import decode, decode_lines, encode
from clew.core.messages.text import format_count
from clew.record.transcript.chain import build
from clew.record.transcript.entries import Keys, RejectedLine, find_entries, scan, scan_block
from clew.record.transcript.leaf import CURRENT, Side, is_written_ahead
from clew.record.transcript.links import ROOT, LinkNote, Node
from clew.record.transcript.loaded import LoadedSession
from clew.record.transcript.policy import CONVERSATION, NOBODY
from clew.record.transcript.replacements import apply_replacements
from clew.record.transcript.source import READ_AHEAD_BYTES, TranscriptSource, open_source

# Titles and tags of a file that is read from its last boundary on may also be in this head.
HEAD_SIZE_BYTES = 65536
_BOUNDARY = b'"compact_boundary"'


def load(path: Path, *, reads_all: bool = False, copies: Iterable[Path] = ()) -> LoadedSession:
    """Load the conversation in `path`; with `reads_all`, read compacted history too.

    `copies` hold lines that could not be written to the file. They are read after the file, or
    alone if the file is missing. Raises `OSError` only if nothing can be read.
    """
    was_enabled = gc.isenabled()
    gc.disable()  # Loaded objects all stay alive, so a collection would only double the cost.
    try:
        copies = tuple(copies)
        with open_source(path, copies) as source:
            below = _from_last_boundary(path, source)
            loaded = below if below and not reads_all else _from(path, source, 0, below)
            loaded.copies = copies
            if loaded.side.replacements:
                loaded.messages = apply_replacements(loaded.messages, loaded.side.replacements)
            return loaded
    finally:
        if was_enabled:
            gc.enable()


def _from_last_boundary(path: Path, source: TranscriptSource) -> LoadedSession | None:
    """Load the session from its last boundary on; None if that part is not self-contained."""
    start = source.last_line_with(_BOUNDARY, source.size, _is_boundary)
    if not start:
        return None
    boundary = decode(source.line_at(start))
    kept_id = _oldest_kept(boundary)
    if kept_id is not None:
        begin = source.last_line_with(f'"uuid":"{kept_id}"'.encode(), start)
        if begin is None:
            return None
        start = begin
    loaded = _from(path, source, start)
    if not loaded.uuids.issuperset(_listed(boundary)):
        return None
    if loaded.messages and loaded.messages[0].get("uuid") != boundary.get("uuid"):
        return None  # That boundary was withdrawn, so an earlier one counts, with what it kept.
    return loaded if _stands_alone(loaded, has_kept=kept_id is not None) else None


def _stands_alone(loaded: LoadedSession, *, has_kept: bool) -> bool:
    """Return whether no relevant entry refers to anything before the part that was read."""
    chain = loaded.chain
    links = chain.links
    if chain.boundary == ROOT:
        return False
    after = links.nodes[chain.boundary].at
    # Only the boundary and the first kept entry may have a parent in the part that was not read.
    if not {chain.boundary, 0}.issuperset(links.loose):
        return False
    if has_kept and links.nodes[chain.live[-1]].at < after:
        return False
    below = [marker for marker in loaded.side.markers if marker.at > after]
    return not any(
        (m.leaf_uuid not in links.index and m.leaf_uuid != NOBODY)
        or (isinstance(m.boundary, str) and m.boundary not in links.index)
        for m in below
    )


def _is_boundary(line: bytes) -> bool:
    keys = scan(line)
    return isinstance(keys, Keys) and keys.type == "system" and keys.subtype == "compact_boundary"


def _oldest_kept(boundary: dict[str, Any]) -> str | None:
    """Return the first entry that a compaction kept, from its segment or else its list."""
    segment = _metadata(boundary).get("preservedSegment")
    head: Any = next(iter(_listed(boundary)), None)
    if isinstance(segment, dict):
        head = segment.get("headUuid")
    return head if isinstance(head, str) else None


def _listed(boundary: dict[str, Any]) -> list[str]:
    """Return the entries that a compaction without a segment lists as kept.

    Some of them may precede an earlier compaction.
    """
    metadata = _metadata(boundary)
    listed = metadata.get("preservedMessages")
    uuids = listed.get("uuids") if isinstance(listed, dict) else None
    if isinstance(metadata.get("preservedSegment"), dict) or not isinstance(uuids, list):
        return []
    return [uuid for uuid in uuids if isinstance(uuid, str)]


def _metadata(boundary: dict[str, Any]) -> dict[str, Any]:
    return object_of(boundary.get("compactMetadata"))


class _Lines(msgspec.Struct, kw_only=True):
    """The lines of a file, divided into tree entries, side lines and notes on invalid lines."""

    nodes: list[Node]
    side: Side
    notes: list[LinkNote]


def read_lines(source: TranscriptSource, start: int) -> _Lines:
    lines = _Lines(nodes=[], side=Side(), notes=[])
    if start:
        for number, at, raw in source.lines(0, HEAD_SIZE_BYTES):
            keys = scan(raw, number)
            if isinstance(keys, Keys) and keys.type in CURRENT:
                lines.side.feed(keys.type, raw, number, at)
    nodes, side = lines.nodes, lines.side
    number = 1
    for at, block in source.blocks(start):
        for begin, end, keys in scan_block(block, number):
            if isinstance(keys, RejectedLine):
                if not _is_blank(keys.raw):
                    _salvage(lines, keys, number, at + begin, keys.raw)
            elif keys.type in CONVERSATION or (keys.uuid is not None and keys.type is not None):
                nodes.append(Node(keys=keys, number=number, at=at + begin, size=end - begin))
                if keys.type in CURRENT:
                    # Some writers give side lines a UUID.
                    side.feed(keys.type, block[begin:end], number, at + begin)
            else:
                side.feed(keys.type, block[begin:end], number, at + begin)
            number += 1
    return lines


def _salvage(lines: _Lines, line: RejectedLine, number: int, at: int, raw: bytes) -> None:
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
            detail=f"holds {format_count(len(parts), 'entry', 'entries')}"
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


def _from(
    path: Path, source: TranscriptSource, start: int, below: LoadedSession | None = None
) -> LoadedSession:
    """Load the file from `start` on.

    `below` is the self-contained end that was loaded before.
    """
    lines = read_lines(source, start)
    bodies: dict[int, dict[str, Any]] = {}

    def body(node: Node) -> dict[str, Any]:
        entry = bodies.get(node.at)
        if entry is None:
            entry = bodies[node.at] = _body(source, node)
        return entry

    side = lines.side
    nodes = _with_owed(source, lines)
    if below is None:
        chain = build(
            nodes,
            markers=side.markers,
            withdrawn=side.withdrawn,
            body=body,
            is_agent_file=path.name.startswith("agent-"),
        )
    else:
        chain = below.chain.within(
            nodes, markers=side.markers, withdrawn=side.withdrawn, floor=below.read_from, body=body
        )
    return LoadedSession(
        path=path,
        messages=below.messages if below else _messages(source, chain.nodes(), bodies),
        leaf_uuid=chain.leaf_uuid,
        side=side,
        chain=chain,
        line_notes=lines.notes,
        owed=below.owed if below else [n.data for n in chain.nodes() if n.data is not None],
        read_from=start,
        size_bytes=source.size,
    )


def _messages(
    source: TranscriptSource, nodes: Iterable[Node], bodies: dict[int, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the entries of the nodes; adjacent lines are read together."""
    messages: list[dict[str, Any]] = []
    row: list[Node] = []
    begin = end = -1
    for node in nodes:
        if node.at != end + 1 or end - begin > READ_AHEAD_BYTES:
            messages += _row(source, row)
            row, begin = [], node.at
        entry = bodies.get(node.at, node.data)
        if entry is None and node.keys.uuid is not None:
            row.append(node)
            end = node.at + node.size
        else:
            messages += _row(source, row)
            row, end = [], -1
            messages.append(entry or _body(source, node))
    return messages + _row(source, row)


def _row(source: TranscriptSource, row: list[Node]) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] | None = None
    if len(row) > 1:
        begin, end = row[0].at, row[-1].at + row[-1].size
        entries = decode_lines(source.read(begin, end - begin), len(row))
    return [_body(source, node) for node in row] if entries is None else entries


def _body(source: TranscriptSource, node: Node) -> dict[str, Any]:
    """Return a node's entry. If the entry has no ID, its derived ID is added."""
    data: dict[str, Any] = node.data or decode(source.part(node.at, node.size))
    return data if node.keys.uuid is not None else data | {"uuid": node.uuid}


def _with_owed(source: TranscriptSource, lines: _Lines) -> list[Node]:
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

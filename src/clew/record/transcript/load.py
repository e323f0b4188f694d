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

from clew.core.json_object import object_of
from clew.core.messages.encoding import decode
from clew.record.transcript.chain import build
from clew.record.transcript.entries import Keys, scan
from clew.record.transcript.links import ROOT, Node
from clew.record.transcript.loaded import LoadedSession
from clew.record.transcript.policy import NOBODY
from clew.record.transcript.reading import (
    place_owed,
    read_body,
    read_lines,
    read_messages,
)
from clew.record.transcript.replacements import apply_replacements
from clew.record.transcript.source import TranscriptSource, open_source

_BOUNDARY = b'"compact_boundary"'


def load(path: Path, *, reads_all: bool = False, copies: Iterable[Path] = ()) -> LoadedSession:
    """Load the conversation in `path`; with `reads_all`, read compacted history too.

    `copies` hold lines that could not be written to the file. They are read after the file, or
    alone if the file is missing. Raise `OSError` only if nothing can be read.
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
        return None  # That boundary was withdrawn, so an earlier one applies, with what it kept.
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
    """Return the first entry that a compaction kept, from its segment or else its list, or None."""
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
            entry = bodies[node.at] = read_body(source, node)
        return entry

    side = lines.side
    nodes = place_owed(source, lines)
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
        messages=below.messages if below else read_messages(source, chain.nodes(), bodies),
        leaf_uuid=chain.leaf_uuid,
        side=side,
        chain=chain,
        line_notes=lines.notes,
        owed=below.owed if below else [n.data for n in chain.nodes() if n.data is not None],
        read_from=start,
        size_bytes=source.size,
    )

"""The conversation in a file: the chain from the leaf to the root, with its siblings. Does no I/O.

The walk starts at the leaf, stops at a compaction that has its summary, and restores what the
compaction kept. The parallel tool calls and results of each response on the path are added. The
rules are described in docs/internals/transcript.md. Bodies are decoded only where a decision needs
them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from clew.record.transcript.leaf import Marker, choose, find_leaf_place
from clew.record.transcript.links import ROOT, LinkNote, Links, Node, link
from clew.record.transcript.siblings import with_siblings

Body = Callable[[Node], dict[str, Any]]


class Chain(msgspec.Struct, kw_only=True):
    """The live entries in conversation order, as positions in `links.nodes`.

    If the conversation begins with a compaction, `boundary` is the first entry of `live`; otherwise
    it is ROOT.
    """

    links: Links
    leaf: int
    live: list[int]
    boundary: int
    is_kept_missing: bool
    notes: list[LinkNote]
    ways: "_Ways"

    @property
    def leaf_uuid(self) -> str | None:
        return None if self.leaf == ROOT else self.links.nodes[self.leaf].uuid

    @property
    def boundary_uuid(self) -> str | None:
        return None if self.boundary == ROOT else self.links.nodes[self.boundary].uuid

    def boundary_before(self, uuid: str) -> str | None:
        """Return the compaction boundary that precedes an entry, or None."""
        i = self.links.index[uuid]
        _, boundary = self.ways.walk(i, self.links.nodes[i].at, [])
        return None if boundary == ROOT else self.links.nodes[boundary].uuid

    def nodes(self) -> Iterator[Node]:
        return (self.links.nodes[i] for i in self.live)

    def within(
        self,
        nodes: Sequence[Node],
        *,
        markers: Sequence[Marker],
        withdrawn: Mapping[str, int],
        floor: int,
        body: Body,
    ) -> "Chain":
        """Return this chain with its positions in the tree of the entire file.

        This chain was built only from the part of the file from offset `floor` on.
        """
        links = link(nodes, withdrawn=withdrawn, floor=floor)
        numbers = {node.at: node.number for node in links.nodes}

        def place(i: int) -> int:
            return ROOT if i == ROOT else links.index[self.links.nodes[i].uuid]

        return Chain(
            links=links,
            leaf=place(self.leaf),
            live=[place(i) for i in self.live],
            boundary=place(self.boundary),
            is_kept_missing=self.is_kept_missing,
            notes=[msgspec.structs.replace(n, number=numbers[n.at]) for n in self.notes],
            ways=_Ways(links, markers, body),
        )

    def left_out(self) -> Iterator[LinkNote]:
        """Yield every conversation entry that is not live, with the reason."""
        links, live = self.links, set(self.live)
        behind = set(self._behind_boundary())
        summarized = _summarized(links)
        for node in links.superseded:
            if node.is_conversation:
                yield LinkNote(rule="superseded", number=node.number, at=node.at)
        for i, node in enumerate(links.nodes):
            if not node.is_conversation or i in live:
                continue
            if not links.is_shown(i):
                rule = "withdrawn"
            elif node.keys.is_sidechain:
                rule = "sidechain"
            elif i in behind:
                rule = "compacted"
            elif node.is_boundary and i not in summarized:
                rule = "boundary-without-summary"
            else:
                rule = "other-branch"
            yield LinkNote(rule=rule, number=node.number, at=node.at)

    def _behind_boundary(self) -> Iterator[int]:
        i, seen = self.boundary, set[int]()
        while i != ROOT and i not in seen:
            seen.add(i)
            yield i
            i = self.links.past_boundary(i) if self.links.nodes[i].is_boundary else ROOT
            while i != ROOT and i not in seen and not self.links.nodes[i].is_boundary:
                seen.add(i)
                yield i
                i = self.links.parents[i]


class _Kept(msgspec.Struct, frozen=True):
    """The entries that a compaction kept verbatim, oldest first, and the entry they follow."""

    entries: list[int]
    anchor: int
    is_named: bool = False


def build(
    nodes: Sequence[Node],
    *,
    markers: Sequence[Marker] = (),
    withdrawn: Mapping[str, int] = MappingProxyType({}),
    body: Body,
    is_agent_file: bool = False,
) -> Chain:
    links = link(nodes, withdrawn=withdrawn)
    ways = _Ways(links, markers, body)
    leaf = choose(links, markers, ways.ends, is_agent_file=is_agent_file)
    notes: list[LinkNote] = []
    path, boundary = ways.walk(leaf, find_leaf_place(links, markers, leaf), notes)
    segment = ways.kept[boundary] if boundary != ROOT else _Kept([], ROOT)
    return Chain(
        links=links,
        leaf=leaf,
        live=with_siblings(links, path, body),
        boundary=boundary,
        is_kept_missing=segment.is_named and not segment.entries,
        notes=notes,
        ways=ways,
    )


class _Ways:
    """The paths from any entry to the root, through the compactions that precede it."""

    def __init__(self, links: Links, markers: Sequence[Marker], body: Body) -> None:
        self._links = links
        self._summaries = _summarized(links)
        self.kept = {b: _kept(links, b, s, body) for b, s in self._summaries.items()}
        # If the kept entries precede their summary, later entries name the summary as their parent.
        tails = {b: k.entries[-1] for b, k in self.kept.items() if k.entries and k.anchor != b}
        # Maps the last entry that a compaction kept to the summaries of all compactions with this
        # last entry.
        self.ends: dict[int, list[int]] = {}
        for b, tail in tails.items():
            self.ends.setdefault(tail, []).append(self._summaries[b])
        # For each such entry, pairs of an offset and the compaction to which the entry belongs from
        # that offset on.
        self._turns: dict[int, list[tuple[int, int]]] = {}
        if tails:
            self._find_turns(tails, markers)

    def _find_turns(self, tails: dict[int, int], markers: Sequence[Marker]) -> None:
        nodes, index = self._links.nodes, self._links.index
        marker_turns = [(m.at, index.get(m.leaf_uuid, ROOT), m.boundary) for m in markers]
        tail_turns = [(nodes[b].at, tail, nodes[b].uuid) for b, tail in tails.items()]
        for at, tail, turn_boundary in sorted(
            [*marker_turns, *tail_turns], key=lambda turn: turn[0]
        ):
            if tail not in self.ends or turn_boundary is msgspec.UNSET:
                continue
            boundary = ROOT if turn_boundary is None else index.get(turn_boundary)
            if boundary is None:
                continue
            if boundary != ROOT and boundary not in self._summaries:
                # That compaction was withdrawn later, so the boundary that preceded it applies.
                boundary = self._owner(tail, nodes[boundary].at)
            elif tails.get(boundary) != tail:
                boundary = ROOT
            self._turns.setdefault(tail, []).append((at, boundary))

    def _owner(self, i: int, at: int) -> int:
        """Return the compaction to which entry `i` belongs for a child written at offset `at`.

        ROOT means that the entry belongs to none. Each compaction that keeps the entry, and each
        marker that names it, can change the result for children written later.
        """
        owner = ROOT
        for since, boundary in self._turns.get(i, ()):
            if since > at:
                break
            owner = boundary
        return owner

    def walk(self, leaf: int, stood_at: int, notes: list[LinkNote]) -> tuple[list[int], int]:
        """Return the path from the root to the leaf, and the boundary it begins with (or ROOT).

        `stood_at` is the last offset at which the file names this leaf as the end of the
        conversation (see `find_leaf_place`). Entries after a compaction continue from the last
        entry it kept.
        """
        links = self._links
        upward: list[int] = []
        seen = bytearray(len(links.nodes))
        placed: set[int] = set()
        i, child_at = leaf, stood_at
        while i != ROOT and not seen[i]:
            seen[i] = 1
            node = links.nodes[i]
            owner = self._owner(i, child_at) if i in self._turns else ROOT
            if i in self._summaries:
                path = [i, *reversed(upward)]
                if i not in placed:
                    _place_kept(links, path, self.kept[i])
                return path, i
            if node.is_boundary:
                notes.append(
                    LinkNote(rule="boundary-without-summary", number=node.number, at=node.at)
                )
                i = links.past_boundary(i)
            elif owner != ROOT:
                # Entries after the compaction name the last entry it kept as their parent.
                upward += reversed(self.kept[owner].entries)
                for entry in self.kept[owner].entries:
                    seen[entry] = 1
                placed.add(owner)
                i = self._summaries[owner]
            else:
                upward.append(i)
                child_at = node.at
                i = links.parents[i]
        return upward[::-1], ROOT


def _summarized(links: Links) -> dict[int, int]:
    """Return the summary of each boundary that has one."""
    positions: dict[int, int] = {}
    for i, node in enumerate(links.nodes):
        if node.keys.is_compact_summary and links.is_shown(i):
            parent = links.parents[i]
            while parent != ROOT and links.nodes[parent].keys.type in ("attachment", "progress"):
                parent = links.parents[parent]
            if parent != ROOT and links.nodes[parent].is_boundary:
                positions.setdefault(parent, i)
    return positions


def _kept(links: Links, boundary: int, summary: int, body: Body) -> _Kept:
    """Return the entries that a compaction kept, which never include its boundary or summary."""
    own = (ROOT, boundary, summary)
    meta = body(links.nodes[boundary]).get("compactMetadata")
    meta = meta if isinstance(meta, dict) else {}
    segment, listed = meta.get("preservedSegment"), meta.get("preservedMessages")
    if isinstance(segment, dict):
        anchor = _position(links, segment.get("anchorUuid"))
        head = _position(links, segment.get("headUuid"))
        tail = _position(links, segment.get("tailUuid"))
        entries = _between(links, head, tail)
        return _Kept([] if set(own) & set(entries) else entries, anchor, is_named=True)
    if isinstance(listed, dict) and isinstance(listed.get("uuids"), list):
        positions = [_position(links, uuid) for uuid in listed["uuids"]]
        anchor = _position(links, listed.get("anchorUuid"))
        visible_positions = [i for i in positions if i not in own and links.is_shown(i)]
        return _Kept(visible_positions, anchor, is_named=bool(positions))
    return _Kept([], ROOT)


def _between(links: Links, head: int, tail: int) -> list[int]:
    """Return the path from `head` to `tail`, or an empty list if they are not connected."""
    path: list[int] = []
    i = tail
    while i != ROOT and head != ROOT:
        path.append(i)
        if i == head:
            return path[::-1]
        i = links.parents[i]
    return []


def _place_kept(links: Links, path: list[int], segment: _Kept) -> None:
    """Insert the kept entries after their anchor, which is usually the summary."""
    on_path = set(path)
    entries = [i for i in segment.entries if i not in on_path]
    after = 0
    if segment.anchor in path:
        after = path.index(segment.anchor)
    else:
        for place, i in enumerate(path):
            after = place if links.nodes[i].keys.is_compact_summary else after
    path[after + 1 : after + 1] = entries


def _position(links: Links, uuid: object) -> int:
    return links.index.get(uuid, ROOT) if isinstance(uuid, str) else ROOT

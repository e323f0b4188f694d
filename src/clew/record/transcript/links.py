"""Link each conversation entry to its parent, whatever the damage to the file. Does no I/O.

Each entry gets the parent that it names or, if that is impossible, the parent that the order of
lines suggests. The rules are numbered in check.py and described in docs/internals/transcript.md. No
body is decoded.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import msgspec

from clew.core.messages.text import format_count
from clew.record.transcript.entries import Keys
from clew.record.transcript.policy import CONVERSATION

ROOT = -1
# Marks an entry from which no walk has started yet, and an entry on the current walk.
_UNSEEN, _ON_WALK = -2, -3


class Node(msgspec.Struct, kw_only=True, gc=False):
    """A line with a place in the tree: its position and keys.

    An entry that does not have a line of its own has `data` instead.
    """

    keys: Keys
    number: int
    at: int
    size: int
    data: dict[str, Any] | None = None

    @property
    def uuid(self) -> str:
        """The entry's ID or, if the entry has none, an ID derived from its offset."""
        return self.keys.uuid or f"00000000-0000-4000-8000-{self.at:012x}"

    @property
    def is_conversation(self) -> bool:
        return self.keys.type in CONVERSATION

    @property
    def is_boundary(self) -> bool:
        return self.keys.type == "system" and self.keys.subtype == "compact_boundary"


class LinkNote(msgspec.Struct, frozen=True, kw_only=True):
    """A remark about one line that a reader of the file should know."""

    rule: str
    number: int
    at: int
    detail: str = ""


class Links(msgspec.Struct, kw_only=True):
    """The tree over `nodes`, with each UUID once, in the order of first occurrence.

    `parents[i]` is the nearest shown ancestor of `nodes[i]`, or ROOT. `loose` lists the entries
    that do not name a parent above them in the file.
    """

    nodes: list[Node]
    index: dict[str, int]
    parents: list[int]
    notes: list[LinkNote]
    superseded: list[Node]
    shown: bytearray
    loose: list[int] = []

    def is_shown(self, i: int) -> bool:
        return self.shown[i] == 1

    def before(self, i: int) -> int:
        """Return the last entry written before this one in the same kind of chain."""
        side = self.nodes[i].keys.is_sidechain
        for j in range(i - 1, -1, -1):
            if self.nodes[j].keys.is_sidechain == side and self.is_shown(j):
                return j
        return ROOT

    def past_boundary(self, i: int) -> int:
        """Return the entry before a boundary: the one that it names, or else the previous one."""
        keys = self.nodes[i].keys
        for uuid in (keys.logical_parent_uuid, keys.parent_uuid):
            position = self.index.get(uuid) if isinstance(uuid, str) else None
            if position is not None and position != i and self.is_shown(position):
                return position
        return self.parents[i] if self.parents[i] != ROOT else self.before(i)


def link(
    nodes: Sequence[Node],
    *,
    withdrawn: Mapping[str, int] = MappingProxyType({}),
    floor: int = 0,
) -> Links:
    """Build the tree.

    `withdrawn` maps a UUID to the offset of its tombstone; an entry written after that offset is
    live. `floor` is the start of the part that can be read without the rest: if an entry is written
    again after `floor`, its occurrences before `floor` are ignored.
    """
    unique, index, superseded, notes = _unique(nodes, floor)
    links = Links(
        nodes=unique,
        index=index,
        parents=[],
        notes=notes,
        superseded=superseded,
        shown=bytearray([n.keys.type in CONVERSATION for n in unique]),
    )
    for uuid in index.keys() & withdrawn.keys():
        if unique[index[uuid]].at < withdrawn[uuid]:
            links.shown[index[uuid]] = 0
    has_forward = _find_parents(links)
    if has_forward:
        _break_cycles(links)
    _bridge(links)
    return links


def _unique(
    nodes: Sequence[Node], floor: int
) -> tuple[list[Node], dict[str, int], list[Node], list[LinkNote]]:
    """Keep each UUID once, with its last content at its first position."""
    of_all = {node.keys.uuid: i for i, node in enumerate(nodes)}
    if len(of_all) == len(nodes) and None not in of_all:
        return list(nodes), cast("dict[str, int]", of_all), [], []
    unique: list[Node] = []
    index: dict[str, int] = {}
    superseded: list[Node] = []
    notes: list[LinkNote] = []
    below = {node.uuid: node for node in reversed(nodes) if node.at >= floor}
    for node in nodes:
        uuid = node.uuid
        again = below.get(uuid) if node.at < floor else None
        first = len(unique) if again else index.setdefault(uuid, len(unique))
        if again is None and first == len(unique):
            unique.append(node)
            continue
        old, later = (unique[first], node) if again is None else (node, again)
        superseded.append(old)
        notes.append(_note("duplicate-uuid", old, f"line {later.number} has the same uuid"))
        if again is None:
            unique[first] = node
    return unique, index, superseded, notes


def _find_parents(links: Links) -> bool:
    """Fill `parents` from the keys. Return whether any parent lies after its child in the file."""
    has_forward = False
    last = {False: ROOT, True: ROOT}
    parents, index = links.parents, links.index
    for i, node in enumerate(links.nodes):
        keys = node.keys
        parent_uuid = keys.parent_uuid
        if parent_uuid is None and node.is_boundary and not links.shown[i]:
            # A compaction that was withdrawn: the conversation passes through it again.
            parent_uuid = keys.logical_parent_uuid
        if parent_uuid is None:
            parent = ROOT
        elif parent_uuid is msgspec.UNSET:
            parent = last[keys.is_sidechain]
            links.loose.append(i)
            if node.is_conversation:
                links.notes.append(_note("no-parent-key", node))
        else:
            position = index.get(parent_uuid)
            if position is None or position == i:
                parent = last[keys.is_sidechain]
                links.loose.append(i)
                rule = "own-parent" if position == i else "missing-parent"
                if node.is_conversation:
                    links.notes.append(_note(rule, node, str(parent_uuid)))
            else:
                parent = position
                if position > i:
                    has_forward = True
                    links.loose.append(i)
        if keys.uuid is None:
            links.notes.append(_note("no-uuid", node))
        parents.append(parent)
        if links.shown[i]:
            last[keys.is_sidechain] = i
    return has_forward


def _break_cycles(links: Links) -> None:
    """Attach the first entry of each cycle to the entry written before it."""
    parents = links.parents
    # The end of the walk up from each entry: ROOT, or the number of the cycle it leads into.
    ends = [_UNSEEN] * len(parents)
    cycles: list[list[int]] = []
    for start in range(len(parents)):
        path: list[int] = []
        i = start
        while i != ROOT and ends[i] == _UNSEEN:
            ends[i] = _ON_WALK
            path.append(i)
            i = parents[i]
        end = ROOT if i == ROOT else ends[i]
        if end == _ON_WALK:
            end = len(cycles)
            cycles.append(path[path.index(i) :])
        for i in path:
            ends[i] = end
    # A broken cycle leads where its new parent leads.
    leads = list(range(len(cycles)))
    for number, cycle in enumerate(cycles):
        first = min(cycle)
        links.notes.append(
            _note("cycle", links.nodes[first], format_count(len(cycle), "entry", "entries"))
        )
        before = links.before(first)
        end = ROOT if before == ROOT else _end_of(leads, ends[before])
        parents[first] = ROOT if end == number else before
        leads[number] = ROOT if end == number else end


def _end_of(leads: list[int], number: int) -> int:
    """Return what a cycle leads to: ROOT, or a cycle that is not yet broken.

    The path is compressed for later calls.
    """
    way: list[int] = []
    while number != ROOT and leads[number] != number:
        way.append(number)
        number = leads[number]
    for passed in way:
        leads[passed] = number
    return number


def _bridge(links: Links) -> None:
    """Skip progress, unknown types and withdrawn entries.

    The parent of a skipped entry becomes the parent of that entry's children.
    """
    skipped = [i for i, is_shown in enumerate(links.shown) if not is_shown]
    if not skipped:
        return
    parents = links.parents
    hidden = set(skipped)
    for i, parent in enumerate(parents):
        if parent in hidden:
            node, over = links.nodes[i], links.nodes[parent]
            if node.is_conversation and not over.is_conversation:
                links.notes.append(_note("bridged", node, f"over {over.keys.type}"))
            while parent in hidden:
                parent = parents[parent]
            parents[i] = parent


def _note(rule: str, node: Node, detail: str = "") -> LinkNote:
    return LinkNote(rule=rule, number=node.number, at=node.at, detail=detail)

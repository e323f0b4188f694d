"""The current leaf of a conversation, from which the walk to the root begins. Does no I/O.

The rules, in this order (docs/internals/transcript.md gives the reasons):

1. The newest marker (`last-prompt` with a known leaf) determines the leaf, unless a newer entry
   contradicts it.
2. An explicit marker (a rewind) means exactly the entry that it names. After it, only descendants
   of that entry, or a prompt that the user typed later, move the leaf. A summary descends from the
   entries that it closed.
3. A marker that is not explicit is contradicted by anything that was written later in another
   place: a crash left such a marker behind. If nothing contradicts it, the leaf is the newest one
   below its entry.
4. Without a marker, the leaf is the newest one.

Newest means last in the file; timestamps are ignored.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from clew.core.messages.encoding import decode, encode
from clew.record.transcript.links import ROOT, Links
from clew.record.transcript.policy import NOBODY


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """A `last-prompt` line: the leaf it names, and the line's offset in the file.

    `boundary` is the compaction with which the conversation then begins, or None. Lines that older
    versions wrote do not record it.
    """

    leaf_uuid: str
    is_explicit: bool
    at: int
    # Only clew writes this field, as `atStart`: the conversation was rewound to before its first
    # message. Other programs write an explicit all-zero leaf to withdraw the marker of a rewind
    # once a prompt follows.
    is_start: bool = False
    boundary: str | msgspec.UnsetType | None = msgspec.UNSET


def choose(
    links: Links,
    markers: Sequence[Marker],
    ends: Mapping[int, Sequence[int]],
    *,
    is_agent_file: bool = False,
) -> int:
    """Return the leaf, or ROOT for a conversation that is empty or was rewound to its beginning.

    `ends` maps the last entry that compactions kept to the summaries of those compactions. A marker
    at that entry also covers the summaries written before the marker.
    """
    leaves = _leaves(links, is_agent_file=is_agent_file or _is_fragment(links))
    marker = _newest_known(links, markers)
    if marker is None:
        return next(iter(leaves), ROOT)
    stands_at = links.index.get(marker.leaf_uuid, ROOT)
    while stands_at != ROOT and not links.is_shown(stands_at):
        stands_at = links.parents[stands_at]
    stands = {end for end in ends.get(stands_at, ()) if links.nodes[end].at < marker.at}
    stands.add(stands_at)
    for leaf in leaves:
        if _counts(links, leaf, marker, stands):
            return leaf
    if marker.is_explicit:
        return stands_at
    return next(_below(links, leaves, stands_at), leaves[0] if leaves else ROOT)


def find_leaf_place(links: Links, markers: Sequence[Marker], leaf: int) -> int:
    """Return the last offset at which the file makes this entry the leaf; 0 for ROOT.

    This is the offset of the entry itself or, if the newest known marker names the entry and comes
    later, the offset of the marker.
    """
    if leaf == ROOT:
        return 0
    marker = _newest_known(links, markers)
    is_marked = marker is not None and links.index.get(marker.leaf_uuid) == leaf
    return max(links.nodes[leaf].at, marker.at if marker is not None and is_marked else 0)


def _counts(links: Links, leaf: int, marker: Marker, stands: Collection[int]) -> bool:
    """Return whether a leaf written after the marker replaces the entry that the marker names.

    After an explicit marker, it does so only if it continues from an entry in `stands`, or if the
    user typed a prompt in between.
    """
    first_new = None
    has_prompt = False
    i, seen = leaf, set[int]()
    # The entries that a boundary closed may follow that boundary in the file. Stop where the walk
    # repeats itself.
    while i != ROOT and i not in seen and links.nodes[i].at > marker.at:
        seen.add(i)
        first_new = i
        has_prompt = has_prompt or _is_prompt(links, i)
        i = _above(links, i)
    if first_new is None:
        return False
    return not marker.is_explicit or i in stands or has_prompt


def _above(links: Links, i: int) -> int:
    """Return the entry that this one continues; for a boundary, the last entry that it closed."""
    if not links.nodes[i].is_boundary:
        return links.parents[i]
    closed = links.past_boundary(i)
    return closed if closed != ROOT and links.nodes[closed].at < links.nodes[i].at else ROOT


def _is_prompt(links: Links, i: int) -> bool:
    keys = links.nodes[i].keys
    return keys.type == "user" and keys.prompt_source is not None


def _newest_known(links: Links, markers: Sequence[Marker]) -> Marker | None:
    for marker in reversed(markers):
        if marker.leaf_uuid == NOBODY and marker.is_explicit:
            return marker if marker.is_start else None
        if marker.leaf_uuid in links.index:
            return marker
    return None


def _below(links: Links, leaves: Sequence[int], ancestor: int) -> Iterator[int]:
    """Yield the leaves that descend from `ancestor`; no entry is visited twice."""
    elsewhere: set[int] = {ROOT}
    for leaf in leaves:
        i, path = leaf, []
        while i != ancestor and i not in elsewhere:
            path.append(i)
            i = links.parents[i]
        if i == ancestor:
            yield leaf
        elsewhere.update(path)


def _leaves(links: Links, *, is_agent_file: bool) -> list[int]:
    """Return the shown entries without children that end a conversation, newest first."""
    nodes = links.nodes
    of_chain = [
        i
        for i, node in enumerate(nodes)
        if links.shown[i] and (is_agent_file or not node.keys.is_sidechain)
    ]
    has_child = bytearray(len(nodes))
    for i in of_chain:
        if links.parents[i] != ROOT:
            has_child[links.parents[i]] = 1
    return [i for i in reversed(of_chain) if not has_child[i] and _talks(links, i)]


def _is_fragment(links: Links) -> bool:
    """Return whether a file that is read as a session contains only a subagent's entries."""
    spoken = [n for n in links.nodes if n.keys.type in ("user", "assistant")]
    return bool(spoken) and all(node.keys.is_sidechain for node in spoken)


def _talks(links: Links, i: int) -> bool:
    while i != ROOT:
        if links.nodes[i].keys.type in ("user", "assistant"):
            return True
        i = links.parents[i]
    return False


# The lines next to the conversation: titles, tags, markers, tombstones, entries written ahead.


# The kinds of lines whose state a resumed session restores. The last line of each kind applies;
# request repairs accumulate.
CURRENT = frozenset(
    {
        "custom-title", "ai-title", "tag", "mode", "permission-mode", "agent-name", "agent-color",
        "agent-setting", "worktree-state", "cost-state", "prompt-hashes", "request-repairs", "context-edits",
        "clew-session",
    }
)  # fmt: skip
OWED = frozenset({"tool-started", "tool-finished"})
_OWED_SIGNS = tuple(f'{{"type":"{kind}"'.encode() for kind in sorted(OWED))
# Of the request costs, a resumed session restores those that belong to no response but count
# toward a budget.
_WARMING = b'"purpose":"warming"'
_WANTED = CURRENT | {"last-prompt", "tombstone", "content-replacement"}


class _Owed(msgspec.Struct, gc=False):
    uuid: str | None = None


class _Ahead(msgspec.Struct, gc=False):
    owed: list[_Owed] = []


_read_ahead = msgspec.json.Decoder(_Ahead).decode


class OwedEntries(msgspec.Struct, frozen=True, kw_only=True):
    """A line with entries written ahead of their place in the chain, or one of those entries."""

    uuids: tuple[str, ...]
    number: int
    at: int
    size: int
    is_part: bool = False


class Side(msgspec.Struct, kw_only=True):
    """The current state of the side lines, which are not part of the conversation."""

    current: dict[str, dict[str, Any]] = {}
    # The offset of the current line of each kind.
    current_at: dict[str, int] = {}
    markers: list[Marker] = []
    last_prompt: str | None = None
    # The UUIDs that tombstones name, with the offset of the last tombstone for each.
    withdrawn: dict[str, int] = {}
    owed: list[OwedEntries] = []
    replacements: list[dict[str, Any]] = []
    # The encoded request repairs in `current`, so that each is added once.
    mended: set[bytes] = set()
    # The cost of keeping the prompt cache warm, with the offset of each line.
    warming: list[tuple[int, dict[str, Any]]] = []
    kinds: dict[str, int] = {}

    def feed(self, kind: str | None, raw: bytes, number: int, at: int) -> None:
        """Process a line that is not part of the chain and that `entries.scan` has read."""
        self.kinds[kind or ""] = self.kinds.get(kind or "", 0) + 1
        if kind in OWED:
            self._owe(raw, number, at)
        elif kind == "request-cost":
            if _WARMING in raw:
                self.warming.append((at, decode(raw)))
        elif kind in _WANTED:
            self._keep(kind, decode(raw), at)

    def _owe(self, raw: bytes, number: int, at: int) -> None:
        try:
            ahead = _read_ahead(raw)
        except msgspec.MsgspecError:
            return
        uuids = tuple(owed.uuid for owed in ahead.owed if owed.uuid)
        self.owed.append(OwedEntries(uuids=uuids, number=number, at=at, size=len(raw)))

    def owe_part(self, uuid: str, number: int, at: int, size: int) -> None:
        """Process one entry from an incomplete line of entries written ahead."""
        self.owed.append(OwedEntries(uuids=(uuid,), number=number, at=at, size=size, is_part=True))

    def _keep(self, kind: str, data: dict[str, Any], at: int) -> None:
        match kind:
            case "last-prompt":
                self._mark(data, at)
            case "tombstone":
                if isinstance(data.get("messageUuid"), str):
                    self.withdrawn[data["messageUuid"]] = at
            case "content-replacement":
                self.replacements.append(data)
            case "request-repairs":
                self._mend(data)
                self.current_at[kind] = at
            case _:
                self.current[kind] = data
                self.current_at[kind] = at

    def _mend(self, data: dict[str, Any]) -> None:
        """Add the repairs in a line.

        The line lists only new repairs or, in older transcripts, all repairs so far.
        """
        repairs = data.get("repairs")
        all_of_them = self.current.get("request-repairs", {}).get("repairs", [])
        for repair in repairs if isinstance(repairs, list) else ():
            written = encode(repair)
            if written not in self.mended:
                self.mended.add(written)
                all_of_them.append(repair)
        self.current["request-repairs"] = {**data, "repairs": all_of_them}

    def _mark(self, data: dict[str, Any], at: int) -> None:
        leaf = data.get("leafUuid")
        if isinstance(data.get("lastPrompt"), str):
            self.last_prompt = data["lastPrompt"]
        if isinstance(leaf, str):
            explicit = data.get("explicit") is True
            boundary = data.get("boundaryUuid", msgspec.UNSET)
            if not isinstance(boundary, str | None):
                boundary = msgspec.UNSET
            self.markers.append(
                Marker(
                    leaf_uuid=leaf,
                    is_explicit=explicit,
                    at=at,
                    is_start=data.get("atStart") is True,
                    boundary=boundary,
                )
            )


def is_written_ahead(raw: bytes) -> bool:
    """Return whether a line, complete or not, holds entries written ahead."""
    return raw.startswith(_OWED_SIGNS)

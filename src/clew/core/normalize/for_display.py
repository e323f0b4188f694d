"""A history as a screen shows it: one item per block, a call together with what belongs to it.

Nothing is dropped and nothing derived: an item's id is the uuid of its entry and the place of its block,
the same whatever else was split, compacted or rewound. Two passes over the entries, whatever their order.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from clew.core.messages import kinds

Entry: TypeAlias = dict[str, Any]
Cut: TypeAlias = Literal["blocks", "whole"]

# Which entries are shown block by block; a test holds this complete.
CUTS: dict[str, Cut] = dict.fromkeys(kinds.KINDS, "whole")
CUTS |= {"user": "blocks", "assistant": "blocks"}

_BEFORE = frozenset({"PreToolUse", "PermissionRequest"})
_AFTER = frozenset({"PostToolUse", "PostToolUseFailure"})


class DisplayItem(Struct, frozen=True, kw_only=True):
    """One thing on the screen: a block of an entry, or (`block` None) the entry as a whole."""

    uuid: str
    index: int
    entry: Entry
    block: Any = None

    @property
    def id(self) -> tuple[str, int]:
        return self.uuid, self.index


def split(entries: Iterable[Entry]) -> Iterator[DisplayItem]:
    """The items of the entries, in their order."""
    for entry in entries:
        uuid = str(entry.get("uuid", ""))
        kind = entry.get("type")
        cut = CUTS.get(kind, "whole") if type(kind) is str else "whole"
        content = _content(entry) if cut == "blocks" else []
        for index, block in enumerate(content):
            yield DisplayItem(uuid=uuid, index=index, entry=entry, block=block)
        if not content:
            yield DisplayItem(uuid=uuid, index=0, entry=entry)


def _content(entry: Entry) -> Sequence[Any]:
    message = entry.get("message")
    content = message.get("content") if type(message) is dict else None
    if type(content) is str:
        return ({"type": "text", "text": content},) if content else ()
    return content if type(content) is list else ()


class _Group:
    """What belongs to one call, each part in the order it came."""

    __slots__ = ("after", "before", "results")

    def __init__(self) -> None:
        self.before: list[DisplayItem] = []
        self.results: list[DisplayItem] = []
        self.after: list[DisplayItem] = []

    def __iter__(self) -> Iterator[DisplayItem]:
        yield from self.before
        yield from self.results
        yield from self.after


def for_display(entries: Iterable[Entry]) -> list[DisplayItem]:
    """All items; behind each call come its hooks from before, its result and its hooks from after.

    What belongs to no call that is here stays where it is.
    """
    items = list(split(entries))
    groups = {_call_id(item): _Group() for item in items if _call_id(item)}
    alone: list[DisplayItem] = []
    for item in items:
        if not _join(item, groups):
            alone.append(item)
    output: list[DisplayItem] = []
    for item in alone:
        output.append(item)
        output += groups.pop(_call_id(item), ())
    return output


def _kind(item: DisplayItem) -> Any:
    return item.block.get("type") if type(item.block) is dict else None


def _call_id(item: DisplayItem) -> str:
    """The id of the call that an item is; empty if it is none."""
    value = item.block.get("id") if _kind(item) == "tool_use" else None
    return value if type(value) is str else ""


def _join(item: DisplayItem, groups: dict[str, _Group]) -> bool:
    """Puts an item where it belongs to; False if it stands for itself."""
    if _kind(item) == "tool_result":
        return _put(item, groups, item.block.get("tool_use_id"), "results")
    if item.block is not None:
        return False
    payload = item.entry.get("attachment", item.entry.get("data"))
    if type(payload) is not dict:
        return False
    use_id = payload.get("toolUseID", item.entry.get("toolUseID"))
    event = payload.get("hookEvent")
    if event in _BEFORE:
        return _put(item, groups, use_id, "before")
    return event in _AFTER and _put(item, groups, use_id, "after")


def _put(item: DisplayItem, groups: dict[str, _Group], use_id: Any, part: str) -> bool:
    group = groups.get(use_id) if type(use_id) is str else None
    if group is None:
        return False
    getattr(group, part).append(item)
    return True

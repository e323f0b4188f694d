"""Order a history for the screen: one item per block, with each call's results and hooks after it.

Nothing is dropped. An item's ID is the uuid of its entry and the index of its block, so splitting,
compacting or rewinding does not change it. Takes two passes over the entries, which may be in any
order.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from clew.core.messages import kinds

Entry: TypeAlias = dict[str, Any]
Cut: TypeAlias = Literal["blocks", "whole"]

# The entry types that are shown block by block. A test checks that the table is complete.
CUTS: dict[str, Cut] = dict.fromkeys(kinds.KINDS, "whole")
CUTS |= {"user": "blocks", "assistant": "blocks"}

_BEFORE = frozenset({"PreToolUse", "PermissionRequest"})
_AFTER = frozenset({"PostToolUse", "PostToolUseFailure"})


class DisplayItem(Struct, frozen=True, kw_only=True):
    """One item on the screen: a block of an entry, or the entire entry if `block` is None."""

    uuid: str
    index: int
    entry: Entry
    block: Any = None

    @property
    def id(self) -> tuple[str, int]:
        return self.uuid, self.index


def split(entries: Iterable[Entry]) -> Iterator[DisplayItem]:
    """Yield the items of the entries in order."""
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
    """The items that belong to one call, in their order of arrival."""

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
    """Return all items; each call is followed by its pre hooks, its result and its post hooks.

    Items without a matching call stay in place.
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
    """Return the call ID of an item, or an empty string if it is not a call."""
    value = item.block.get("id") if _kind(item) == "tool_use" else None
    return value if type(value) is str else ""


def _join(item: DisplayItem, groups: dict[str, _Group]) -> bool:
    """Add an item to the group of the call it belongs to; return False if there is no such call."""
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

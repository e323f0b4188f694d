"""Records of origin: the original items of responses, for returning them to their service.

An assistant entry of a response from any wire but the Messages API has the field `origin` next to
its message: the service, the wire, the model, the items of its block and a digest of the block. The
service gets the items of a response back only if nothing of the response was removed or edited. All
other services get the canonical blocks. Must never interpret the items.

Decision: docs/decisions/331-wires.md
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from clew.core.normalize.shapes import THINKING
from clew.core.normalize.target import Reader

Entry = dict[str, Any]
_encode = msgspec.json.Encoder().encode


def seal_origin(origin: Any, block: Any) -> Entry | None:
    """Return the record of origin for a block's entry, or None if the block has no origin."""
    return origin | {"digest": _digest(block)} if type(origin) is dict else None


def _digest(block: Any) -> str:
    try:
        return sha256(_encode(block)).hexdigest()[:16]
    except (UnicodeEncodeError, RecursionError, TypeError):
        return ""


def with_origins(entries: list[Entry], origins: Sequence[Any]) -> list[Entry]:
    """Return the entries of a response, each with the record of its block."""
    if not any(origins):
        return entries
    sealed: list[Entry] = []
    for entry, origin in zip(entries, [*origins, *[None] * len(entries)], strict=False):
        (block,) = entry["message"]["content"]
        record = seal_origin(origin, block)
        sealed.append(entry if record is None else entry | {"origin": record})
    return sealed


def find_own_items(entries: Sequence[Entry], reader: Reader) -> list[Any] | None:
    """Return the items of a response that is entirely the reader's own and unchanged, or None."""
    items: list[Any] = []
    last: object = ""
    for place, entry in enumerate(entries):
        origin, message = entry.get("origin"), entry.get("message")
        content = message.get("content") if type(message) is dict else None
        if not reader.wrote(origin) or entry.get("isAbortedMidStream") is True:
            return None
        if entry.get("apiBlockIndex") != place or type(content) is not list or len(content) != 1:
            return None
        assert type(origin) is dict
        if not origin.get("digest") or origin["digest"] != _digest(content[0]):
            return None
        last = content[0].get("type") if type(content[0]) is dict else ""
        items += origin["items"]
    # Reasoning is never sent without the item that follows it.
    return None if last in THINKING else items or None


def count_calls(entries: Iterable[Entry]) -> int:
    """Return the number of tool calls in the entries of a response."""
    return sum(
        type(block) is dict and block.get("type") == "tool_use"
        for entry in entries
        for block in entry["message"]["content"]
    )

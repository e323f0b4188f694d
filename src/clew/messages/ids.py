"""Ids made from ids: of the parts of a message, on the screen and for older readers."""

from __future__ import annotations


def derive_uuid(parent: str, index: int) -> str:
    """The id older programs give to part `index` of a message.

    Kept for reading what they wrote: parts of parts collide (`derive(derive(p, 1), 0)` equals
    `derive(p, 0)`), so nothing of clew's identifies anything by it.
    """
    return f"{parent[:24]}{index:012x}"


def screen_id(uuid: str, block: int) -> tuple[str, int]:
    """The id of a block on the screen: the same before and after its message's neighbours were
    split, compacted or rewound, because nothing but the message and the block goes into it."""
    return (uuid, block)

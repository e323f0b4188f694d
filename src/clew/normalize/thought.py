"""A thought of a model as a block: which one it is, and which blocks are thoughts. Pure."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, TypeAlias

from clew.normalize import shapes

Block: TypeAlias = dict[str, Any]
# Hexadecimal digits of a hash: enough to tell apart what stands in one conversation.
SHORT = 16


def thought_id(block: Block) -> str:
    """Which thought a block is, wherever it was copied to."""
    signed = block.get("signature" if block.get("type") == "thinking" else "data")
    return sha256(str(signed).encode("utf-8", "surrogatepass")).hexdigest()[:SHORT]


def thoughts_of(content: Any) -> Iterator[Block]:
    for block in content if type(content) is list else ():
        if type(block) is dict and block.get("type") in shapes.THINKING:
            yield block

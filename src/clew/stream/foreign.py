"""Blocks that a model has no business to send, made into something every reader bears.

A gateway may put a picture, a tool's result or a bare string into an answer. No reader of logs and
no request takes those from a model, and a result would pass for the answer to a call. So the block
becomes a text that says what came, with the whole of it beside the words.
"""

from typing import Any

from clew.messages.blocks import block as view_of
from clew.stream.events import Json, StreamFault, excerpt

KEPT_UNDER = "unexpected"


def acceptable(index: int, block: Json) -> tuple[Json, list[StreamFault]]:
    """The block as a model may say it, and what was wrong if it is another than before."""
    if "assistant" in view_of(block).roles:
        return block, []
    kind = excerpt(str(block.get("type")))
    fault = StreamFault(kind="foreign_block", message=f"a {kind} block in an answer", index=index)
    return told(block, kind), [fault]


def told(value: Any, kind: str) -> Json:
    words = f"(The answer held a block of kind {kind} here. It is kept, and not sent back.)"
    return {"type": "text", "text": words, KEPT_UNDER: value}


def brought_along(content: Any) -> list[Json]:
    """The content of a message_start, where none should be. A call in it was never judged, so it
    must not look like one that waits for its result."""
    found: list[Json] = []
    for value in content if isinstance(content, list) else [content]:
        if isinstance(value, str):
            found.append({"type": "text", "text": value})
        elif not isinstance(value, dict):
            found.append(told(value, type(value).__name__))
        elif view_of(value).type == "tool_use" or "assistant" not in view_of(value).roles:
            found.append(told(value, excerpt(str(value.get("type")))))
        else:
            found.append(value)
    return found

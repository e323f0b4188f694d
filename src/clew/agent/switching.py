"""Describe in one line what a session loses when it switches to another model.

The loss is temporary: the transcript keeps everything that a service attached to its responses, and
a later request to that service contains it again.
"""

from collections.abc import Iterable

from clew.agent.requests import anchored
from clew.core.catalog.models import Model
from clew.core.json_object import Json, list_of, object_of
from clew.core.messages.history import History
from clew.core.messages.text import format_count, format_tokens
from clew.core.normalize.select import find_beginning
from clew.core.normalize.shapes import THINKING
from clew.core.normalize.target import Target, family_of


def describe_switch(history: History, target: Target, model: Model) -> str:
    """Return what the new model will not receive, and how much of its window is in use.

    Return an empty string for an empty history.
    """
    entries = [history[place] for place in range(find_beginning(history), len(history))]
    if not entries:
        return ""
    parts = []
    if thoughts := sum(_count_lost_thoughts(entry, target) for entry in entries):
        parts.append(f"{format_count(thoughts, 'thinking block')} not sent")
    images = sum(block.get("type") == "image" for block in _all_blocks(entries))
    if images and not target.images:
        parts.append(f"{format_count(images, 'image')} not sent")
    documents = sum(block.get("type") == "document" for block in _all_blocks(entries))
    if documents and not target.documents:
        parts.append(f"{format_count(documents, 'document')} not sent")
    counts, _, _ = anchored(history)
    if counts is not None and model.context_window is not None:
        window, used = format_tokens(model.context_window), format_tokens(counts.total)
        parts.append(f"context window {window}, about {used} in use")
    return "; ".join(parts)


def _count_lost_thoughts(entry: Json, target: Target) -> int:
    """Return how many thinking blocks of a response the next model does not receive."""
    message = object_of(entry.get("message"))
    if entry.get("type") != "assistant":
        return 0
    thoughts = [
        b for b in map(object_of, list_of(message.get("content"))) if b.get("type") in THINKING
    ]
    if target.reader is not None and target.reader.wrote(entry.get("origin")):
        return 0
    if target.reader is None or target.family == "claude":
        is_same = family_of(message.get("model")) == target.family
        return sum(not is_same or not (b.get("signature") or b.get("data")) for b in thoughts)
    return len(thoughts)


def _all_blocks(entries: Iterable[Json]) -> Iterable[Json]:
    """Yield all blocks of messages, including those inside results."""
    for entry in entries:
        for block in map(object_of, list_of(object_of(entry.get("message")).get("content"))):
            yield block
            if block.get("type") == "tool_result":
                yield from map(object_of, list_of(block.get("content")))

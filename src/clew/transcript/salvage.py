"""Entries inside a line that is none: two writers' lines in one, a line behind a torn one. Pure."""

import json
import re
from typing import Any

from clew.messages.kinds import KINDS

# How an entry's object begins, whoever wrote it; what is found must prove to be one.
_BEGINNING = re.compile(
    rb'\{\s*"(?:parentUuid|logicalParentUuid|type|uuid|sessionId|isSidechain|message|timestamp)"\s*:'
)
# A line of megabytes of garbage is not searched to its end.
_TRIES = 256
_decoder = json.JSONDecoder(strict=False)


def entries_in(raw: bytes) -> list[tuple[int, int]]:
    """Where whole entries begin and end inside `raw`, one after another."""
    found: list[tuple[int, int]] = []
    done = tries = 0
    for beginning in _BEGINNING.finditer(raw):
        start = beginning.start()
        if start < done:
            continue
        tries += 1
        if tries > _TRIES:
            break
        end = _end_of_entry(raw, start)
        if end is not None:
            found.append((start, end))
            done = end
    return found


def _end_of_entry(raw: bytes, start: int) -> int | None:
    text = raw[start:].decode("utf-8", "surrogateescape")
    try:
        value, length = _decoder.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    if not is_entry(value):
        return None
    return start + len(text[:length].encode("utf-8", "surrogateescape"))


def is_entry(value: Any) -> bool:
    """Whether an object is an entry and not a part of one: a known kind that names its session."""
    if not isinstance(value, dict) or value.get("type") not in KINDS:
        return False
    return isinstance(value.get("sessionId"), str) or isinstance(value.get("uuid"), str)

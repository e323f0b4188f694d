"""No frame is longer than a host can take: the longest texts in it are shortened, and it is said where.

Owns the limit. A frame that fits is the same bytes as without this module.

Decision: docs/decisions/140-host-protocol.md
"""

from typing import Any, TypeAlias

import msgspec

from clew.messages.unseen import spelled

Json: TypeAlias = dict[str, Any]

# Hosts end a session at a line of 1,048,576 characters.
MAX_FRAME_BYTES = 512 * 1024
# A copy of a transcript's lines is worth more than a limit with room: short of what ends a session.
MAX_COPY_BYTES = 1_000_000
LIMITS = {"transcript_mirror": MAX_COPY_BYTES}
# What is left of a text that is shortened, at first; less if that is still too much.
KEPT = 64 * 1024
LEAST = 64

_encode = msgspec.json.Encoder().encode


def encode(frame: Json) -> bytes:
    """As JSON that may be looked at on a terminal, and cut into lines by anybody's idea of them."""
    return spelled(_encode(frame))


def framed(frame: Json, limit: int = 0) -> bytes:
    """A frame as one line, without its line end, within the limit: its kind's, if none is given."""
    limit = limit or LIMITS.get(frame.get("type", ""), MAX_FRAME_BYTES)
    line = encode(frame)
    kept = KEPT
    while len(line) > limit and kept >= LEAST:
        line = encode(shortened(frame, kept))
        kept //= 4
    if len(line) <= limit:
        return line
    return encode(emptied(frame))


def shortened(value: Any, kept: int) -> Any:
    """The value with longer texts cut in their middle, longer arrays and objects after their beginning."""
    if isinstance(value, str):
        return value if len(value) <= kept else cut(value, kept)
    if isinstance(value, dict):
        return {key: shortened(each, kept) for key, each in list(value.items())[:kept]}
    if isinstance(value, list):
        return [shortened(each, kept) for each in value[:kept]]
    return value


def cut(text: str, kept: int) -> str:
    head, tail = text[: kept * 3 // 4], text[len(text) - kept // 4 :]
    return f"{head}\n[... {len(text) - kept} characters are left out of this line ...]\n{tail}"


def emptied(frame: Json) -> Json:
    """What is left of a frame that no shortening brings below the limit: its flat members."""
    flat = {
        key: value
        for key, value in frame.items()
        if value is None or isinstance(value, bool | int | float | str)
    }
    few: Json = shortened(flat, LEAST)
    return few | {"truncated": True}

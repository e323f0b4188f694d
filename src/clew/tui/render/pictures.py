"""A picture on a terminal that can show it, in its own protocol; a line about it elsewhere. Pure.

The rows for it are made first and the picture is put over them from below, so that it scrolls with
the text around it. The bytes are checked: nothing but base64 goes into a sequence.
"""

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator
from typing import Any

from clew.tui.render.abilities import Pictures
from clew.tui.render.rows import Line

ROWS_MOST = 14
# The height of a cell in pixels, about; it is twice as high as wide.
CELL_PIXELS = 20
# A larger one takes too long over a slow line.
PICTURE_MAX_CHARACTERS = 4_000_000
_CHUNK = 4096
# The segments of a JPEG that begin a frame: all of 0xC0 to 0xCF that are no tables.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}\Z")


def drawn(source: Any, protocol: Pictures, width: int) -> list[Line]:
    """The picture of a content block's source; nothing where it cannot be shown."""
    data = source.get("data") if isinstance(source, dict) else None
    if not protocol or not isinstance(data, str) or len(data) > PICTURE_MAX_CHARACTERS:
        return []
    if not _BASE64.match(data) or width < 4:
        return []
    size = size_of(data, protocol)
    if size is None:
        return []
    columns, rows = fitted(*size, width)
    sent = "".join(
        _kitty(data, columns, rows) if protocol == "kitty" else _iterm(data, columns, rows)
    )
    up = f"\x1b[{rows - 1}A" if rows > 1 else ""
    return [""] * (rows - 1) + [f"\x1b7{up}{sent}\x1b8"]


def size_of(data: str, protocol: Pictures) -> tuple[int, int] | None:
    """The size in pixels of a picture that the protocol shows: PNG, in iTerm2's JPEG and GIF too."""
    try:
        head = b64decode(data[:32])
        if head.startswith(b"\x89PNG\r\n\x1a\n") and len(head) == 24:
            size = int.from_bytes(head[16:20]), int.from_bytes(head[20:24])
        elif protocol == "iterm2" and head.startswith((b"GIF87a", b"GIF89a")) and len(head) > 10:
            size = int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
        elif protocol == "iterm2" and head.startswith(b"\xff\xd8\xff"):
            size = _of_jpeg(b64decode(data))
        else:
            return None
    except NotBase64:
        return None
    return size if all(size) else None


def _of_jpeg(data: bytes) -> tuple[int, int]:
    """Its frame says it, behind any number of other segments; zero if there is none."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        kind = data[at + 1]
        if kind in _FRAMES:
            return int.from_bytes(data[at + 7 : at + 9]), int.from_bytes(data[at + 5 : at + 7])
        at += 2 + int.from_bytes(data[at + 2 : at + 4])
    return 0, 0


def fitted(wide: int, high: int, width: int) -> tuple[int, int]:
    """Columns and rows: the picture's own size if there is room, its shape in any case."""
    rows = max(1, min(ROWS_MOST, -(-high // CELL_PIXELS)))
    columns = max(1, round(rows * 2 * wide / high))
    if columns > width:
        columns, rows = width, max(1, min(rows, round(width * high / wide / 2)))
    return columns, rows


def _kitty(data: str, columns: int, rows: int) -> Iterator[str]:
    for at in range(0, len(data), _CHUNK):
        more = int(at + _CHUNK < len(data))
        keys = f"a=T,f=100,q=2,C=1,c={columns},r={rows}," if at == 0 else ""
        yield f"\x1b_G{keys}m={more};{data[at : at + _CHUNK]}\x1b\\"


def _iterm(data: str, columns: int, rows: int) -> Iterator[str]:
    size = len(data) * 3 // 4
    yield f"\x1b]1337;File=inline=1;size={size};width={columns};height={rows}:{data}\x07"

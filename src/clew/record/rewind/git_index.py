"""Read git's index: the content's name and the file's metadata for each tracked file. Does no I/O.

The format is git's own (gitformat-index), versions 2 to 4 with SHA-1 names. Split, sparse and other
kinds of index are not supported.

Decision: docs/decisions/126-file-history.md
"""

from __future__ import annotations

import struct
from typing import TypeAlias

from msgspec import Struct

from clew.system.config.git_config import read_offset

# Size, mtime and ctime in nanoseconds, inode; each as precise as in the index.
Stamp: TypeAlias = tuple[int, int, int, int]

_HEADER = struct.Struct(">4sII")
_ENTRY = struct.Struct(">10I20sH")
_EXTENDED = 0x4000
_WORD = 0xFFFFFFFF
_REGULAR, _LINK = 0o100, 0o120


class Tracked(Struct, frozen=True, gc=False):
    """A tracked file: the name of its content, and its metadata when git last compared the two."""

    oid: bytes
    stamp: Stamp
    is_link: bool


def read_tracked(data: bytes) -> dict[bytes, Tracked] | None:
    """Return the files by path from the top of the repository; None if the index is unreadable."""
    try:
        signature, version, count = _HEADER.unpack_from(data)
        if signature != b"DIRC" or version not in (2, 3, 4):
            return None
        files, end = _entries(data, version, count)
    except (ValueError, IndexError, OverflowError, struct.error):
        return None
    return None if _is_partial(data, end) else files


def _entries(data: bytes, version: int, count: int) -> tuple[dict[bytes, Tracked], int]:
    files: dict[bytes, Tracked] = {}
    at, name = _HEADER.size, b""
    for _ in range(count):
        ctime_s, ctime, mtime_s, mtime, _, inode, mode, _, _, size, oid, flags = _ENTRY.unpack_from(
            data, at
        )
        begin = at + _ENTRY.size + (2 if flags & _EXTENDED and version > 2 else 0)
        if version == 4:
            dropped, begin = read_offset(data, begin)
            end = data.index(b"\0", begin)
            name = name[: len(name) - dropped] + data[begin:end]
            at = end + 1
        else:
            end = data.index(b"\0", begin)
            name = data[begin:end]
            at += (end - at + 8) // 8 * 8
        kind = mode >> 9
        if kind in (_REGULAR, _LINK) and not flags & 0x3000:
            stamp = (size, mtime_s * 10**9 + mtime, ctime_s * 10**9 + ctime, inode)
            files[name] = Tracked(oid, stamp, kind == _LINK)
    return files, at


def _is_partial(data: bytes, at: int) -> bool:
    """Return whether the index is incomplete because it is split or sparse.

    Some files are then listed in a shared index, or only as part of a folder.
    """
    while at + 8 <= len(data) - 20:
        if data[at : at + 4] in (b"link", b"sdir"):
            return True
        at += 8 + int.from_bytes(data[at + 4 : at + 8], "big")
    return False


def same_look(stamp: Stamp, seen: Stamp) -> bool:
    """Return whether the metadata matches, as far as the 32-bit values of the index can tell."""
    size, mtime_ns, ctime_ns, inode = seen
    return stamp == (size & _WORD, mtime_ns, ctime_ns, inode & _WORD)

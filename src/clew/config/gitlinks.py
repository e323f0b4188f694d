"""The submodules that git's index names. Pure.

The format is git's own (gitformat-index), versions 2 to 4, with names of contents in either length. What
cannot be read is a `ValueError`: a submodule must never be overlooked.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mmap import mmap

MODE = 0o160000
_MODE_BYTES = MODE.to_bytes(4, "big")
_KINDS = frozenset({0o040000, 0o100000, 0o120000, MODE})
_HEADER = struct.Struct(">4sII")
# Times, device and inode; then the mode; owner, group and size. The name of the content comes after.
_FRONT_BYTES = 40
_EXTENDED, _LENGTH = 0x4000, 0x0FFF


def offset_number(data: bytes | mmap, at: int) -> tuple[int, int]:
    """A number as git writes distances, and where it ends."""
    byte = data[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, at + 1


def submodules(index: bytes) -> tuple[bytes, ...]:
    """Return the paths of submodules, from the top of the working tree."""
    if _MODE_BYTES not in index:
        return ()
    readings: list[list[bytes]] = []
    for oid_bytes in (20, 32):
        try:
            readings.append(list(_submodules(index, oid_bytes)))
        except (ValueError, IndexError, struct.error):
            continue
    if not readings:
        raise ValueError("the index cannot be read")
    return tuple(path for reading in readings for path in reading)


def _submodules(index: bytes, oid_bytes: int) -> Iterator[bytes]:
    signature, version, count = _HEADER.unpack_from(index)
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise ValueError(version)
    at, name = _HEADER.size, b""
    for _ in range(count):
        mode = int.from_bytes(index[at + 24 : at + 28], "big")
        if mode & 0o170000 not in _KINDS:
            raise ValueError(mode)
        flags_at = at + _FRONT_BYTES + oid_bytes
        flags = int.from_bytes(index[flags_at : flags_at + 2], "big")
        begin = flags_at + (4 if flags & _EXTENDED else 2)
        if version == 4:
            dropped, begin = offset_number(index, begin)
            end = index.index(b"\0", begin)
            name = name[: max(len(name) - dropped, 0)] + index[begin:end]
            at = end + 1
        else:
            end = index.index(b"\0", begin)
            name = index[begin:end]
            at += (end - at + 8) // 8 * 8
        if flags & _LENGTH != min(len(name), _LENGTH):
            raise ValueError(name)
        if mode == MODE:
            yield name

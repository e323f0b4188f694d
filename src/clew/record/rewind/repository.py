"""Read-only access to the contents in a working folder's git repository, without running git."""

import mmap
import os
import zlib
from collections.abc import Iterator
from hashlib import sha1
from pathlib import Path

from msgspec import Struct

from clew.record.rewind.disk import Look, look_of
from clew.record.rewind.git_index import Tracked, read_tracked, same_look
from clew.system.config.git_config import read_offset
from clew.system.files import is_file, is_folder, open_only_files, read_content

# Contents from a repository's object store: loose objects, packs, and alternate stores.


MAX_BYTES = 64 << 20
_MAX_CHAIN = 200
_INDEX_MAGIC = b"\xfftOc\x00\x00\x00\x02"
_FANOUT_AT, _NAMES_AT = 8, 8 + 1024
_BLOB, _BY_OFFSET, _BY_NAME = 3, 6, 7


class _Pack(Struct):
    index: mmap.mmap
    data: mmap.mmap


class Objects:
    """The object store of a repository. Opened packs stay open until `close`."""

    def __init__(self, folder: Path) -> None:
        self._folders = tuple(_stores(folder))
        self._packs: dict[Path, _Pack | None] = {}

    def blob(self, oid: bytes) -> bytes | None:
        """Return the content with the name `oid`.

        Return None if the content is missing or too large, or does not match its name.
        """
        try:
            data = self._loose(oid)
            if data is None:
                data = self._packed(oid)
        except (OSError, ValueError, IndexError, zlib.error):
            return None
        if data is None or sha1(b"blob %d\0" % len(data) + data).digest() != oid:
            return None
        return data

    def close(self) -> None:
        for pack in self._packs.values():
            if pack is not None:
                pack.index.close()
                pack.data.close()
        self._packs = {}

    def _loose(self, oid: bytes) -> bytes | None:
        name = oid.hex()
        for folder in self._folders:
            try:
                raw = read_content(folder / name[:2] / name[2:], MAX_BYTES)
            except OSError:
                continue
            head, _, data = _inflated(raw, MAX_BYTES + 32).partition(b"\0")
            return data if head.startswith(b"blob ") else None
        return None

    def _packed(self, oid: bytes) -> bytes | None:
        for folder in self._folders:
            for path in sorted(folder.glob("pack/pack-*.idx")):
                if path not in self._packs:
                    self._packs[path] = _opened(path)
                pack = self._packs[path]
                at = None if pack is None else _offset(pack.index, oid)
                if pack is not None and at is not None:
                    kind, data = self._entry(pack, at, 0)
                    return data if kind == _BLOB else None
        return None

    def _entry(self, pack: _Pack, at: int, depth: int) -> tuple[int, bytes]:
        """Return the object at an offset of a pack, with its deltas applied."""
        if depth > _MAX_CHAIN:
            raise ValueError("delta chain too long")
        byte = pack.data[at]
        kind, size, shift, begin = (byte >> 4) & 7, byte & 15, 4, at
        while byte & 0x80:
            at += 1
            byte = pack.data[at]
            size |= (byte & 0x7F) << shift
            shift += 7
        at += 1
        if size > MAX_BYTES:
            raise ValueError("object too large")
        if kind == _BY_OFFSET:
            back, at = read_offset(pack.data, at)
            kind, base = self._entry(pack, begin - back, depth + 1)
            return kind, _applied(base, _inflated(_deflated(pack, at, size), size))
        if kind == _BY_NAME:
            base_at = _offset(pack.index, pack.data[at : at + 20])
            if base_at is None:
                raise ValueError("delta base in another pack")
            kind, base = self._entry(pack, base_at, depth + 1)
            return kind, _applied(base, _inflated(_deflated(pack, at + 20, size), size))
        return kind, _inflated(_deflated(pack, at, size), size)


def _deflated(pack: _Pack, at: int, size: int) -> bytes:
    """Return a part of the pack that is certain to contain `size` bytes of data in deflated form.

    The part is long enough even for incompressible data.
    """
    return pack.data[at : at + size + size // 1000 + 4096]


def _stores(folder: Path) -> Iterator[Path]:
    """Yield a repository's object store and its alternate stores."""
    yield folder
    try:
        lines = read_content(folder / "info" / "alternates", MAX_BYTES).split(b"\n")
    except OSError:
        return
    for line in lines:
        if line and not line.startswith((b"#", b'"')):
            yield folder / os.fsdecode(line)


def _opened(path: Path) -> _Pack | None:
    try:
        with (
            open(path, "rb", opener=open_only_files) as index,
            open(path.with_suffix(".pack"), "rb", opener=open_only_files) as data,
        ):
            pack = _Pack(
                mmap.mmap(index.fileno(), 0, access=mmap.ACCESS_READ),
                mmap.mmap(data.fileno(), 0, access=mmap.ACCESS_READ),
            )
    except (OSError, ValueError):
        return None
    return pack if pack.index[:8] == _INDEX_MAGIC else None


def _offset(index: mmap.mmap, oid: bytes) -> int | None:
    """Return the offset of an object in the pack that the index describes, or None."""
    first = oid[0]
    low = 0 if not first else _number(index, _FANOUT_AT + 4 * (first - 1))
    high = _number(index, _FANOUT_AT + 4 * first)
    total = _number(index, _FANOUT_AT + 4 * 255)
    while low < high:
        middle = (low + high) // 2
        name = index[_NAMES_AT + 20 * middle : _NAMES_AT + 20 * middle + 20]
        if name == oid:
            places = _NAMES_AT + 24 * total
            at = _number(index, places + 4 * middle)
            if not at & 0x80000000:
                return at
            far = places + 4 * total + 8 * (at & 0x7FFFFFFF)
            return int.from_bytes(index[far : far + 8], "big")
        if name < oid:
            low = middle + 1
        else:
            high = middle
    return None


def _number(index: mmap.mmap, at: int) -> int:
    return int.from_bytes(index[at : at + 4], "big")


def _inflated(raw: bytes, most: int) -> bytes:
    """Return the inflated data; the deflated data may end before `raw` does."""
    reader = zlib.decompressobj()
    data = reader.decompress(raw, most + 1)
    if len(data) > most or not (reader.eof or reader.unconsumed_tail == b""):
        raise ValueError("data is longer than its recorded size")
    return data


def _applied(base: bytes, delta: bytes) -> bytes:
    """Apply a delta: each instruction copies part of the base or inserts bytes."""
    at = _past_size(delta, _past_size(delta, 0))
    parts: list[bytes] = []
    while at < len(delta):
        word = delta[at]
        at += 1
        if not word & 0x80:
            parts.append(delta[at : at + word])
            at += word
            continue
        numbers = [0] * 7
        for bit in range(7):
            if word & (1 << bit):
                numbers[bit] = delta[at]
                at += 1
        begin = int.from_bytes(bytes(numbers[:4]), "little")
        size = int.from_bytes(bytes(numbers[4:]), "little") or 0x10000
        parts.append(base[begin : begin + size])
    return b"".join(parts)


def _past_size(delta: bytes, at: int) -> int:
    while delta[at] & 0x80:
        at += 1
    return at + 1


MAX_INDEX_BYTES = 32 << 20
MAX_NAME_BYTES = 16 << 10


class Repository:
    """The files below `folder` that git tracks, as of the last `refresh`.

    Outside a repository, there are none.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._stamp: tuple[str, Look] | None = None
        self._written_ns = 0
        self._objects: Path | None = None
        self.tracked: dict[str, Tracked] = {}
        self.parents: frozenset[str] = frozenset()

    def refresh(self) -> bool:
        """Read the index again if it changed. Return whether it did."""
        git_folder = _git_folder(self._folder)
        stamp = None if git_folder is None else _stamp(git_folder[1])
        if stamp == self._stamp:
            return False
        self._stamp, self.tracked, self.parents = stamp, {}, frozenset()
        if git_folder is None or stamp is None or stamp[1][0] > MAX_INDEX_BYTES:
            return True
        top, git = git_folder
        common = _common(git)
        if _has_long_names(common):
            return True
        self._objects = common / "objects"
        self._written_ns = stamp[1][1]
        try:
            index = read_content(git / "index", MAX_INDEX_BYTES)
        except OSError:
            return True
        self._take(top, read_tracked(index) or {})
        return True

    def _take(self, top: str, files: dict[bytes, Tracked]) -> None:
        below = os.path.relpath(self._folder, top)
        prefix = b"" if below == "." else os.fsencode(below) + b"/"
        root = os.fsencode(top) + b"/"
        by_name = {
            os.fsdecode(root + path): file
            for path, file in files.items()
            if path.startswith(prefix)
        }
        parents: set[str] = set()
        for above in {os.path.dirname(path) for path in by_name}:
            folder = above
            while folder not in parents and len(folder) > len(self._folder):
                parents.add(folder)
                folder = os.path.dirname(folder)
        self.tracked, self.parents = by_name, frozenset(parents)

    def is_kept(self, path: str, look: Look) -> bool:
        """Return whether git has the content of a file with this metadata.

        A file written at the same time as the index may have changed since then without a visible
        difference, so the result for such a file is False.
        """
        file = self.tracked.get(path)
        return file is not None and same_look(file.stamp, look[:4]) and look[1] < self._written_ns

    def contents(self, paths: list[str]) -> Iterator[tuple[str, bytes, bool]]:
        """Yield each path, git's content for it, and whether the content is a symlink's target."""
        if self._objects is None:
            return
        objects = Objects(self._objects)
        try:
            for path in paths:
                file = self.tracked.get(path)
                data = None if file is None else objects.blob(file.oid)
                if file is not None and data is not None:
                    yield path, data, file.is_link
        finally:
            objects.close()


def _git_folder(folder: str) -> tuple[str, Path] | None:
    """Return the top of the working tree and its git folder, which a `.git` file may name.

    Return None if there is neither, or the file can't be read.
    """
    for top in (folder, *map(str, Path(folder).parents)):
        git = Path(top, ".git")
        if is_folder(git):
            return top, git
        if is_file(git):
            try:
                words = text(git)
            except OSError:
                return None
            return top, Path(top, words.removeprefix("gitdir:").strip())
    return None


def text(path: Path) -> str:
    return os.fsdecode(read_content(path, MAX_NAME_BYTES)).strip()


def _common(git: Path) -> Path:
    """Return the folder that all worktrees of a git folder share."""
    try:
        return git / text(git / "commondir")
    except OSError:
        return git


def _has_long_names(common: Path) -> bool:
    """Return whether the repository uses SHA-256 names; True if that is unknown."""
    try:
        return b"objectformat" in read_content(common / "config", MAX_INDEX_BYTES).lower()
    except OSError:
        return True


def _stamp(git: Path) -> tuple[str, Look] | None:
    try:
        return str(git), look_of(os.stat(git / "index"))
    except OSError:
        return None

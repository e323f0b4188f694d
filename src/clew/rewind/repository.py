"""What git keeps of a working folder's files, so that clew need not: read only, without running git."""

import os
from collections.abc import Iterator
from pathlib import Path

from clew.config.regular import content
from clew.config.there import is_file, is_folder
from clew.rewind.git_index import Tracked, same_look, tracked
from clew.rewind.git_objects import Objects
from clew.rewind.tree import Look, look_of

MAX_INDEX_BYTES = 32 << 20
MAX_NAME_BYTES = 16 << 10


class Repository:
    """The files that git tracks below `folder`, as of the last `refresh`; none if there is no git."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._stamp: tuple[str, Look] | None = None
        self._written_ns = 0
        self._objects: Path | None = None
        self.tracked: dict[str, Tracked] = {}
        self.parents: frozenset[str] = frozenset()

    def refresh(self) -> bool:
        """Reads the index again if it changed; whether it did."""
        found = _git_folder(self._folder)
        stamp = None if found is None else _stamp(found[1])
        if stamp == self._stamp:
            return False
        self._stamp, self.tracked, self.parents = stamp, {}, frozenset()
        if found is None or stamp is None or stamp[1][0] > MAX_INDEX_BYTES:
            return True
        top, git = found
        common = _common(git)
        if _has_long_names(common):
            return True
        self._objects = common / "objects"
        self._written_ns = stamp[1][1]
        try:
            index = content(git / "index", MAX_INDEX_BYTES)
        except OSError:
            return True
        self._take(top, tracked(index) or {})
        return True

    def _take(self, top: str, files: dict[bytes, Tracked]) -> None:
        below = os.path.relpath(self._folder, top)
        prefix = b"" if below == "." else os.fsencode(below) + b"/"
        root = os.fsencode(top) + b"/"
        named = {
            os.fsdecode(root + path): file
            for path, file in files.items()
            if path.startswith(prefix)
        }
        parents: set[str] = set()
        for above in {os.path.dirname(path) for path in named}:
            folder = above
            while folder not in parents and len(folder) > len(self._folder):
                parents.add(folder)
                folder = os.path.dirname(folder)
        self.tracked, self.parents = named, frozenset(parents)

    def is_kept(self, path: str, look: Look) -> bool:
        """Whether git has the content of a file that looks so.

        One written in the moment in which the index was may have changed since and look the same.
        """
        file = self.tracked.get(path)
        return file is not None and same_look(file.stamp, look[:4]) and look[1] < self._written_ns

    def contents(self, paths: list[str]) -> Iterator[tuple[str, bytes, bool]]:
        """What git has for each path, and whether it is where a link leads."""
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
    """The top of the working tree and its git folder, which a file may name."""
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
    return os.fsdecode(content(path, MAX_NAME_BYTES)).strip()


def _common(git: Path) -> Path:
    """Where a worktree's git folder keeps what all worktrees share."""
    try:
        return git / text(git / "commondir")
    except OSError:
        return git


def _has_long_names(common: Path) -> bool:
    """Whether contents have SHA-256 names here, or it cannot be told."""
    try:
        return b"objectformat" in content(common / "config", MAX_INDEX_BYTES).lower()
    except OSError:
        return True


def _stamp(git: Path) -> tuple[str, Look] | None:
    try:
        return str(git), look_of(os.stat(git / "index"))
    except OSError:
        return None

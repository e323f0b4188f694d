"""The folder structure as a fact, two levels deep, cached until one of its folders changes.

In a repository, git decides which files are listed; elsewhere, all files except hidden ones are
listed. Links must never be followed.
"""

import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from clew.agent.context.facts import Fact, make_tree_fact

# Lists a folder's files with git; None outside a repository.
Files: TypeAlias = Callable[[Path], Awaitable[list[str] | None]]
Stamp: TypeAlias = tuple[tuple[str, int], ...]

MOST_NAMES = 2_000


class Structure:
    """Lists the structure of folders and caches the result."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._known: dict[Path, tuple[Stamp, Fact | None]] = {}

    async def fact(self, folder: Path) -> Fact | None:
        """Return the current structure, or None if the folder is empty or can't be listed."""
        stamp = tuple(stamps(folder))
        cached = self._known.get(folder)
        if cached is not None and cached[0] == stamp:
            return cached[1]
        paths = await self._files(folder)
        if paths is None:
            paths = list(listed(folder))
        fact = make_tree_fact(paths) if paths else None
        self._known[folder] = (stamp, fact)
        return fact


def stamps(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the modification times of the folder and of its subfolders."""
    for path in (str(folder), *(entry.path for entry in folders_in(str(folder)))):
        try:
            yield path, Path(path).stat().st_mtime_ns
        except OSError:
            yield path, 0


def folders_in(folder: str) -> list[os.DirEntry[str]]:
    return [entry for entry in entries(folder) if entry.is_dir(follow_symlinks=False)]


def listed(folder: Path) -> Iterator[str]:
    """Yield the names in the folder and in its subfolders, about `MOST_NAMES` at most."""
    left = MOST_NAMES
    for entry in entries(str(folder)):
        inside = entries(entry.path) if entry.is_dir(follow_symlinks=False) else []
        for below in inside[:left]:
            ending = "/" if below.is_dir(follow_symlinks=False) else ""
            yield f"{entry.name}/{below.name}{ending}"
        if not inside and left > 0:
            yield entry.name
        left -= max(1, len(inside))


def entries(folder: str) -> list[os.DirEntry[str]]:
    """Return a folder's entries that are not hidden, sorted by name."""
    try:
        with os.scandir(folder) as scan:
            return sorted((e for e in scan if not e.name.startswith(".")), key=lambda e: e.name)
    except OSError:
        return []

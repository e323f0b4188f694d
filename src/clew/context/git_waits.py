"""Whether git would wait for ever in a repository: for a pipe or a device under a name that it opens.

A folder from elsewhere may hold such names, and git opens them as if they were files. Links count as
what they lead to. Must never open what it looks for.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISCHR, S_ISFIFO

from clew.config.regular import content
from clew.config.there import is_folder, is_there

# What git opens whatever it is asked.
FIRST = ("HEAD", "config", "config.worktree", "commondir", "index", "packed-refs", "shallow")
# In a working tree git itself opens files of such names alone, before it knows what they are.
READ = (".gitignore", ".gitattributes", ".gitmodules")
# A larger repository is looked through as far.
MOST_ENTRIES = 200_000
NAME_BYTES = 4_096


def waits_at(folder: Path, *, everywhere: bool = False) -> str | None:
    """The name at which git would wait: of those it opens first, or of all that it may open."""
    top = next((one for one in (folder, *folder.parents) if is_there(one / ".git")), None)
    if top is None:
        return None
    gits = list(_git_folders(top))
    names = (f"{git}/{name}" for git in gits for name in FIRST)
    found = next((name for name in names if _waits(name)), None)
    if found is None and everywhere:
        found = next((name for name in _below(top, gits) if _waits(name)), None)
    return found


def _git_folders(top: Path) -> Iterator[Path]:
    """Git's own folder of a working tree; of a linked one, the one that all share as well."""
    git = top / ".git"
    if is_folder(git):
        yield git
        return
    try:
        own = Path(top, os.fsdecode(content(git, NAME_BYTES)).removeprefix("gitdir:").strip())
        yield own
        yield Path(own, os.fsdecode(content(own / "commondir", NAME_BYTES)).strip())
    except OSError:
        return  # no link, or of a repository that shares nothing


def _below(top: Path, gits: list[Path]) -> Iterator[str]:
    seen = 0
    for root in (*gits, top):
        for folder, folders, files in os.walk(root):
            seen += len(folders) + len(files)
            if seen > MOST_ENTRIES:
                return
            if root is top and ".git" in folders:
                folders.remove(".git")
            yield from (f"{folder}/{name}" for name in files if root is not top or name in READ)


def _waits(name: str) -> bool:
    try:
        found = Path(name).stat()
    except (OSError, ValueError):
        return False
    if S_ISCHR(found.st_mode):
        # Walls put that one over names: it is an empty file for whoever reads it.
        return found.st_rdev != Path(os.devnull).stat().st_rdev
    return S_ISFIFO(found.st_mode)

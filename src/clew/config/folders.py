"""Looks for markdown files in folders that nobody vouches for: within bounds, and through no folder twice.

A link may lead to the folder it stands in, or to the root of everything.
"""

import os
import stat
from collections import deque
from collections.abc import Iterator
from pathlib import Path

MAX_FILES = 2_000
MAX_FOLDERS = 500
MAX_DEPTH = 5


def names_in(folder: Path, faults: list[str]) -> list[str]:
    """What lies in a folder, hidden names apart; none where there is no such folder."""
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        faults.append(f"{folder}: {error.strerror}")
        return []
    if len(names) > MAX_FILES:
        faults.append(f"{folder}: only the first {MAX_FILES} of {len(names)} are read")
    return [name for name in names[:MAX_FILES] if not name.startswith(".")]


def markdown_below(folder: Path, faults: list[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every markdown file, with the names of the folders it lies in and its own.

    What lies near goes before what lies deep, so that a folder without an end keeps nothing else out.
    """
    seen: set[tuple[int, int]] = set()
    waiting: deque[tuple[str, tuple[str, ...]]] = deque([(str(folder), ())])
    files = 0
    while waiting:
        here, above = waiting.popleft()
        place = _place(here)
        if place is None or place in seen:
            continue
        seen.add(place)
        if len(seen) > MAX_FOLDERS or files > MAX_FILES:
            faults.append(f"{folder}: too many folders or files; {here} and others are not read")
            return
        for name in names_in(Path(here), faults):
            path = f"{here}/{name}"
            if name.endswith(".md"):
                files += 1
                yield path, (*above, name.removesuffix(".md"))
            elif len(above) < MAX_DEPTH:
                waiting.append((path, (*above, name)))


def _place(path: str) -> tuple[int, int] | None:
    """Which folder this is, whatever it is called; None if it is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None

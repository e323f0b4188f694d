"""What lies in folders, remembered between commands for as long as a folder says that nothing changed.

Owns the rule when a listing may be used again: the folder's change time, which programs cannot set, is
what it was, and was not of the very moment of the look, in which more could have happened unseen.
"""

import os
import re
import time
from collections.abc import Collection, Iterator
from typing import Literal

# A change within this of a look may not move the change time: clocks of file systems tick.
TICK_NS = 50_000_000
MOST_REMEMBERED = 100_000

Kind = Literal["file", "folder", "link"]
Entries = tuple[tuple[str, Kind], ...]
NOTHING: Entries = ()


class Listing:
    """What lies in folders: names, and what each is. A link is not followed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int, int], Entries]] = {}

    def entries(self, folder: str) -> Entries:
        """What lies in a folder now; nothing where it cannot be looked into."""
        try:
            status = os.lstat(folder)
            stamp = (status.st_dev, status.st_ino, status.st_ctime_ns)
            known = self._known.get(folder)
            if known is not None and known[0] == stamp:
                return known[1]
            with os.scandir(folder) as found:
                entries = tuple((entry.name, kind(entry)) for entry in found)
        except OSError:
            return NOTHING
        if time.time_ns() - status.st_ctime_ns > TICK_NS:
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            self._known[folder] = (stamp, entries)
        return entries

    def named(self, top: str, names: re.Pattern[str], *, most: int | None = None) -> Iterator[str]:
        """What is named by a pattern at or below a folder; nothing is looked for in what is named."""
        if names.fullmatch(top):
            yield top
            return
        waiting, seen = [top], 0
        while waiting:
            folder = waiting.pop()
            entries = self.entries(folder)
            seen += len(entries)
            for name, what in entries:
                path = f"{folder.rstrip('/')}/{name}"
                if names.fullmatch(path):
                    yield path
                elif what == "folder":
                    waiting.append(path)
            if most is not None and seen > most:
                return

    def holding(
        self, top: str, names: Collection[str], *, passed_over: Collection[str], most: int
    ) -> Iterator[str]:
        """What has one of these names below a folder, but not in it, nor in what is passed over."""
        waiting, seen = [top], 0
        while waiting and seen < most:
            folder = waiting.pop()
            seen += 1
            for name, what in self.entries(folder):
                if name in names and folder != top:
                    yield f"{folder}/{name}"
                elif what == "folder" and name not in passed_over and name not in names:
                    waiting.append(f"{folder}/{name}")


def kind(entry: "os.DirEntry[str]") -> Kind:
    if entry.is_symlink():
        return "link"
    return "folder" if entry.is_dir(follow_symlinks=False) else "file"

"""The files that hooks want to know of: named by matchers of FileChanged, or by what hooks answered."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

Change: TypeAlias = Literal["change", "add", "unlink"]
Mark: TypeAlias = tuple[int, int, int] | None


class Watch:
    """Knows each file as it was when it was looked at last; one that is new to it has not changed."""

    def __init__(self) -> None:
        self._marks: dict[str, Mark] = {}
        # Whole paths that a hook asked for, in the place of those it asked for before.
        self.also: tuple[str, ...] = ()

    def look(self, matchers: Iterable[str], folder: str) -> list[tuple[str, Change]]:
        """What became of the files since the last look. A matcher names files of the folder."""
        paths = {str(Path(folder, name)) for text in matchers for name in text.split("|") if name}
        paths |= {path for path in self.also if Path(path).is_absolute()}
        found: list[tuple[str, Change]] = []
        marks = {path: mark(path) for path in sorted(paths)}
        for path, now in marks.items():
            before = self._marks.get(path, now)
            if before != now:
                kind: Change = "add" if before is None else "unlink" if now is None else "change"
                found.append((path, kind))
        self._marks = marks
        return found


def mark(path: str) -> Mark:
    try:
        stat = Path(path).stat()
    except (OSError, ValueError):
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino

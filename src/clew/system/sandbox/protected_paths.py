"""What programs run or heed unasked, in the folders that a command may write.

Owns the table, and the look before and after a command. Walls keep what is there from being written, as
far as they can; what is not there yet nothing can keep from being made. So what a command made is moved
out of the way when it has ended, and what it changed is named; nothing is deleted.
"""

import os
import re
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from clew.system.config.git_config import UnreadableError, is_include, read_settings, starts_program
from clew.system.files import is_file, is_folder, is_link, is_there, read_content
from clew.system.sandbox.policy import covers

# What lies in folders, remembered between commands for as long as a folder says that nothing changed.


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
            cached = self._known.get(folder)
            if cached is not None and cached[0] == stamp:
                return cached[1]
            with os.scandir(folder) as scan:
                entries = tuple((entry.name, kind(entry)) for entry in scan)
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


# What git keeps outside a checkout, and what leads it there: a commit writes the one, nobody the other.


LINE_BYTES = 4_096
# Of an agent's own checkouts, below the folder of the project.
OWN = ".claude/worktrees"
# Of a folder of git's: whoever may write these has git read a configuration of his own.
LEADING = ("commondir", "config.worktree")


def list_commit_paths(root: str) -> list[str]:
    """What a commit in the checkout `root` writes outside of it: objects, branches, its own index."""
    folders = linked(Path(root))
    if folders is None:
        return []
    own, common = folders
    return [str(own), *(str(common / name) for name in ("objects", "refs", "logs"))]


def linked(root: Path) -> tuple[Path, Path] | None:
    """The folder of git's that is a linked checkout's own, and the one that all share."""
    try:
        word, _, name = line(root / ".git").partition(" ")
        own = Path(root, name).resolve(strict=True)
        common = Path(own, line(own / "commondir")).resolve(strict=True)
        back = Path(own, line(own / "gitdir")).resolve(strict=True)
    except (OSError, ValueError):
        return None
    is_listed = word == "gitdir:" and own.parent == common / "worktrees"
    return (own, common) if is_listed and back == (root / ".git").resolve() else None


def line(path: Path) -> str:
    return read_content(path, LINE_BYTES).decode("utf-8").strip()


def pointers(roots: Iterable[str]) -> Iterator[Path]:
    """What leads git to a configuration, in all that may be written; some of it may not be there."""
    for root in map(Path, roots):
        for checkout in (root, *entries(root / OWN)):
            if is_file(checkout / ".git"):
                yield checkout / ".git"
        for own in (root / ".git", *entries(root / ".git" / "worktrees"), root):
            if is_file(own / "HEAD"):
                yield from (own / name for name in LEADING)
                if own.parent.name == "worktrees":
                    yield own / "gitdir"


def entries(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if is_folder(path)]
    except OSError:
        return []


# Of a folder that may be written.
HEEDED = (
    ".claude", ".devcontainer", ".devcontainer.json", ".envrc", ".githooks", ".gitmodules", ".husky",
    ".idea", ".mcp.json", ".vscode",
)  # fmt: skip
# Of any folder in it.
NESTED = (".claude", ".git")
OF_GIT = ("config", "hooks")
# What nobody who works below looks for, and is large.
PASSED_OVER = frozenset({".git", ".venv", "__pycache__", "node_modules"})
MOST_FOLDERS = 20_000
CONFIG_BYTES = 1 << 20

Stamp = tuple[int, int, int, int]


def heeded(roots: Iterable[str], listing: Listing) -> Iterator[str]:
    """The places, there or not: those of each folder, and those of the folders below that are there."""
    for root in roots:
        yield from (f"{root}/{name}" for name in HEEDED)
        yield from of_git(f"{root}/.git", listing)
        for folder in listing.holding(root, NESTED, passed_over=PASSED_OVER, most=MOST_FOLDERS):
            yield from of_git(folder, listing) if folder.endswith("/.git") else (folder,)


def of_git(folder: str, listing: Listing) -> Iterator[str]:
    """What git runs and reads of a repository's own folder, and of those of its submodules."""
    yield from (f"{folder}/{name}" for name in OF_GIT)
    for name, kind in listing.entries(f"{folder}/modules"):
        if kind == "folder":
            yield from (f"{folder}/modules/{name}/{part}" for part in OF_GIT)


class Watched:
    """The places as they were before a command."""

    def __init__(self, roots: Sequence[str], listing: Listing, *, own: str = "") -> None:
        """`own`: the folder of clew's settings and records, which clew writes all the time."""
        self._roots, self._listing, self._own = roots, listing, own
        # What leads git elsewhere is looked for now alone: clew makes checkouts meanwhile.
        places = (*self._places(), *map(str, pointers(roots)))
        self._before = {place: files(place) for place in places}

    def _places(self) -> Iterator[str]:
        for place in heeded(self._roots, self._listing):
            if not (self._own and (covers((self._own,), place) or covers((place,), self._own))):
                yield place

    @property
    def there(self) -> tuple[str, ...]:
        """The places that are there, which walls can keep from being written."""
        return tuple(place for place in self._before if os.path.lexists(place))

    def settle(self, aside: Path, *, protected_places: Sequence[str]) -> list[str]:
        """Moves what was made since into a folder, and returns a sentence for each thing done or seen.

        `protected_places`: what the walls kept from being written; others than the command may have been there.
        """
        moved: list[str] = []
        changed: list[str] = []
        for place in dict.fromkeys((*self._before, *self._places())):
            if covers(protected_places, place):
                continue
            before, now = self._before.get(place, {}), files(place)
            new_paths = [path for path in now if path not in before]
            if not before and new_paths:
                new_paths = [place]
            changed += [path for path in before if now.get(path, ()) != before[path]]
            moved += [path for path in new_paths if is_dangerous(path) and move(path, aside)]
        notes = []
        if moved:
            notes.append(
                f"clew moved to {aside} what the command made, because programs run or heed it "
                f"unasked: {', '.join(moved)}."
            )
        if changed:
            notes.append(
                "The command changed what programs run or heed unasked; look at it before you use it: "
                f"{', '.join(changed)}."
            )
        return notes


def files(place: str) -> dict[str, Stamp]:
    """The files at or below a place, and what changes with them; empty folders are none."""
    path = Path(place)
    if not is_there(path) and not is_link(path):
        return {}
    if is_link(path) or not is_folder(path):
        return {place: stamp(place)}
    stamps: dict[str, Stamp] = {}
    for folder, folders, names in os.walk(place):
        # Of agents: checkouts of their own, and plans.
        folders[:] = [name for name in folders if name not in ("worktrees", "plans")]
        stamps |= {f"{folder}/{name}": stamp(f"{folder}/{name}") for name in names}
        if len(stamps) > MOST_FOLDERS:
            break
    return stamps


def stamp(path: str) -> Stamp:
    try:
        status = os.lstat(path)
    except OSError:
        return (0, 0, 0, 0)
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode)


def is_dangerous(path: str) -> bool:
    """Whether something new is more than what `git init` and `git clone` make."""
    parts = path.split("/")
    if parts[-1].endswith(".sample") and "hooks" in parts:
        return False
    if parts[-1] == "hooks" and is_folder(Path(path)) and not is_link(Path(path)):
        return any(is_dangerous(file) for file in files(path))
    if parts[-1] == "config" and ".git" in parts:
        try:
            settings = list(read_settings(read_content(Path(path), CONFIG_BYTES)))
        except (OSError, UnreadableError):
            return True
        return any(starts_program(setting) or is_include(setting) for setting in settings)
    return True


def move(path: str, aside: Path) -> bool:
    """Puts a file or folder aside, under a name that is free; whether that could be done."""
    aside.mkdir(parents=True, exist_ok=True, mode=0o700)
    name = Path(path).name
    free = next(
        place
        for number in range(1_000_000)
        if not is_there(place := aside / (f"{number}-{name}" if number else name))
    )
    try:
        shutil.move(path, free)
    except OSError:
        return False
    return True

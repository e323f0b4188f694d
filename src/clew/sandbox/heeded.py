"""What programs run or heed unasked, in the folders that a command may write.

Owns the table, and the look before and after a command. Walls keep what is there from being written, as
far as they can; what is not there yet nothing can keep from being made. So what a command made is moved
out of the way when it has ended, and what it changed is named; nothing is deleted.
"""

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from clew.config.git_settings import UnreadableError, is_include, read_settings, starts_program
from clew.config.regular import content
from clew.config.there import is_folder, is_link, is_there
from clew.sandbox.checkouts import pointers
from clew.sandbox.listing import Listing
from clew.sandbox.policy import covers

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

    def settle(self, aside: Path, *, held: Sequence[str]) -> list[str]:
        """Moves what was made since into a folder, and returns a sentence for each thing done or seen.

        `held`: what the walls kept from being written; others than the command may have been there.
        """
        moved: list[str] = []
        changed: list[str] = []
        for place in dict.fromkeys((*self._before, *self._places())):
            if covers(held, place):
                continue
            before, now = self._before.get(place, {}), files(place)
            made = [path for path in now if path not in before]
            if not before and made:
                made = [place]
            changed += [path for path in before if now.get(path, ()) != before[path]]
            moved += [path for path in made if is_dangerous(path) and move(path, aside)]
        told = []
        if moved:
            told.append(
                f"clew moved to {aside} what the command made, because programs run or heed it "
                f"unasked: {', '.join(moved)}."
            )
        if changed:
            told.append(
                "The command changed what programs run or heed unasked; look at it before you use it: "
                f"{', '.join(changed)}."
            )
        return told


def files(place: str) -> dict[str, Stamp]:
    """The files at or below a place, and what changes with them; empty folders are none."""
    path = Path(place)
    if not is_there(path) and not is_link(path):
        return {}
    if is_link(path) or not is_folder(path):
        return {place: stamp(place)}
    found: dict[str, Stamp] = {}
    for folder, folders, names in os.walk(place):
        # Of agents: checkouts of their own, and plans.
        folders[:] = [name for name in folders if name not in ("worktrees", "plans")]
        found |= {f"{folder}/{name}": stamp(f"{folder}/{name}") for name in names}
        if len(found) > MOST_FOLDERS:
            break
    return found


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
        return any(is_dangerous(each) for each in files(path))
    if parts[-1] == "config" and ".git" in parts:
        try:
            settings = list(read_settings(content(Path(path), CONFIG_BYTES)))
        except (OSError, UnreadableError):
            return True
        return any(starts_program(one) or is_include(one) for one in settings)
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

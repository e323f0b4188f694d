"""Files that programs run or read automatically, in the folders that a command may write.

Owns the table, and the checks before and after a command. The sandbox protects existing files as
far as it can, but nothing can prevent a missing file from being created. Therefore, after the
command has ended, new files are moved away and changed files are reported. git hooks and settings
that would start another program are restored. Nothing is deleted.
"""

import os
import re
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec.structs import astuple

from clew.system.config.git_config import UnreadableError, is_include, read_settings, starts_program
from clew.system.files import is_file, is_folder, is_link, is_there, read_content
from clew.system.sandbox.policy import covers

# The contents of folders, cached between commands until a folder's change time changes.


# A change this shortly before a check may not move the change time, because file system clocks
# tick.
TICK_NS = 50_000_000
MOST_REMEMBERED = 100_000

Kind = Literal["file", "folder", "link"]
Entries = tuple[tuple[str, Kind], ...]
NOTHING: Entries = ()


class Listing:
    """A cache of folder contents: the name and kind of each entry. Links are not followed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int, int], Entries]] = {}

    def entries(self, folder: str) -> Entries:
        """Return the current contents of a folder, or nothing if it cannot be read."""
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

    def named(
        self,
        top: str,
        names: re.Pattern[str],
        *,
        most: int | None = None,
        original: str | None = None,
    ) -> Iterator[str]:
        """Yield the paths at or below `top` that match a pattern.

        Folders that match are not searched further. If `top` is a copy of the folder `original`,
        the pattern is compared with the paths in `original`.
        """
        spelled = top if original is None else original
        if names.fullmatch(spelled):
            yield top
            return
        waiting, seen = [top], 0
        while waiting:
            folder = waiting.pop()
            entries = self.entries(folder)
            seen += len(entries)
            for name, what in entries:
                path = f"{folder.rstrip('/')}/{name}"
                if names.fullmatch(spelled + path[len(top) :]):
                    yield path
                elif what == "folder":
                    waiting.append(path)
            if most is not None and seen > most:
                return

    def holding(
        self, top: str, names: Collection[str], *, passed_over: Collection[str], most: int
    ) -> Iterator[str]:
        """Yield the paths that have one of these names, at any depth below the subfolders of `top`.

        Entries of `top` itself are skipped, and so are the folders named in `passed_over`.
        """
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


# The places outside a worktree that git uses: those that a commit writes, and those that redirect
# git, which no command may write.


LINE_BYTES = 4_096
# The folder with the agents' worktrees, below the project folder.
OWN = ".claude/worktrees"
# Files in git's folder. A program that can write them can make git read another configuration.
LEADING = ("commondir", "config.worktree")


def list_commit_paths(root: str) -> list[str]:
    """Return the folders outside the linked worktree `root` that a commit in the worktree writes.

    They contain the objects, the branches, and git's own data about the worktree.
    """
    folders = linked(Path(root))
    if folders is None:
        return []
    own, common = folders
    return [str(own), *(str(common / name) for name in ("objects", "refs", "logs"))]


def linked(root: Path) -> tuple[Path, Path] | None:
    """Return the git folders of a linked worktree: its own and the shared one.

    Return None if `root` is not a linked worktree.
    """
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
    """Yield the files in all writable roots that tell git where to find its configuration.

    The files may not exist.
    """
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


# Protected places in each writable folder.
HEEDED = (
    ".claude", ".codex", ".cursor", ".devcontainer", ".devcontainer.json", ".envrc", ".exrc",
    ".gdbinit", ".gemini", ".githooks", ".gitmodules", ".husky", ".idea", ".kiro", ".lldbinit",
    ".mcp.json", ".nvim.lua", ".opencode", ".vscode", ".windsurf", ".zed",
)  # fmt: skip
# Protected places in any folder below a writable folder.
NESTED = (".claude", ".git")
OF_GIT = ("config", "hooks")
# Folders in `.claude` that contain agents' worktrees and plans.
AGENTS_FOLDERS = ("worktrees", "plans")
# Large folders in which commands do not look for these files.
PASSED_OVER = frozenset({".git", ".venv", "__pycache__", "node_modules"})
MOST_FOLDERS = 20_000
CONFIG_BYTES = 1 << 20

Stamp = tuple[int, int, int, int]


def heeded(roots: Iterable[str], listing: Listing) -> Iterator[str]:
    """Yield the protected places of each root, and the existing ones in folders below it.

    The places of a root itself may not exist.
    """
    for root in roots:
        yield from (f"{root}/{name}" for name in HEEDED)
        yield from of_git(f"{root}/.git", listing)
        for folder in listing.holding(root, NESTED, passed_over=PASSED_OVER, most=MOST_FOLDERS):
            yield from of_git(folder, listing) if folder.endswith("/.git") else (folder,)


def of_git(folder: str, listing: Listing) -> Iterator[str]:
    """Yield the paths in a git folder that git runs or reads automatically.

    The git folders of its submodules are included.
    """
    yield from (f"{folder}/{name}" for name in OF_GIT)
    for name, kind in listing.entries(f"{folder}/modules"):
        if kind == "folder":
            yield from (f"{folder}/modules/{name}/{part}" for part in OF_GIT)


class Watched:
    """The protected places, with their state before a command."""

    def __init__(self, roots: Sequence[str], listing: Listing, *, own: str = "") -> None:
        """Record the state.

        `own` is clew's own folder, which is ignored because clew writes to it.
        """
        self._roots, self._listing, self._own = roots, listing, own
        # What redirects git is only checked now, because clew creates worktrees while a command
        # runs.
        places = (*self._places(), *map(str, pointers(roots)))
        self._before = {place: files(place) for place in places}
        self._links = {link for place in places if (link := self._link_to(place))}
        paths = (path for stamps in self._before.values() for path in stamps if is_of_git(path))
        self._kept = {path: data for path in paths if (data := content(path)) is not None}

    def _link_to(self, place: str) -> str:
        """Return the first symlink among the folders between the root and `place`.

        Return an empty string if there is none.
        """
        root = max((root for root in self._roots if covers((root,), place)), key=len, default=place)
        names = place[len(root) :].strip("/").split("/")[:-1]
        above = ("/".join((root, *names[:end])) for end in range(1, len(names) + 1))
        return next((path for path in above if is_link(Path(path))), "")

    def _places(self) -> Iterator[str]:
        for place in heeded(self._roots, self._listing):
            if not (self._own and (covers((self._own,), place) or covers((place,), self._own))):
                yield place

    @property
    def there(self) -> tuple[str, ...]:
        """The protected places that exist. The sandbox can make them read-only."""
        return tuple(place for place in self._before if os.path.lexists(place))

    def settle(self, aside: Path, *, protected_places: Sequence[str]) -> list[str]:
        """Move new files to the folder `aside`, and return messages about moved and changed files.

        `protected_places` were read-only for the command. Changes in them come from other programs
        and are ignored.
        """
        moved: list[str] = []
        changed: list[str] = []
        restored: list[str] = []
        for place in dict.fromkeys((*self._before, *self._places())):
            if covers(protected_places, place):
                continue
            link = self._link_to(place)
            if link and link not in self._links:
                # The link's target may be anywhere, and may belong to the user.
                moved += [link] if move(link, aside) else []
            before, now = self._before.get(place, {}), files(place)
            new_paths = [path for path in now if path not in before]
            if not before and new_paths and not any(map(is_there, agents_folders(place))):
                new_paths = [place]
            for path in before:
                if now.get(path, ()) != before[path]:
                    (restored if self._restore(path, aside) else changed).append(path)
            moved += [path for path in new_paths if is_dangerous(path) and move(path, aside)]
        notes = []
        if moved:
            notes.append(
                f"clew moved new files to {aside}, because programs run or read them "
                f"automatically: {', '.join(moved)}."
            )
        if restored:
            notes.append(
                f"The command changed what git runs. clew moved the changed files to {aside} and "
                f"restored the earlier ones: {', '.join(restored)}."
            )
        if changed:
            notes.append(
                "The command changed files that programs run or read automatically. Check them before use: "
                f"{', '.join(changed)}."
            )
        return notes

    def _restore(self, path: str, aside: Path) -> bool:
        """Restore a git file that now starts another program. Return whether that was needed."""
        old = self._kept.get(path)
        if old is None or not os.path.lexists(path) or not adds_program(path, old):
            return False
        mode = next(stamps[path][3] for stamps in self._before.values() if path in stamps)
        if not move(path, aside):
            return False
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError:
            return True
        with os.fdopen(file, "wb") as stream:
            stream.write(old)
            os.fchmod(file, stat.S_IMODE(mode))
        return True


def is_of_git(path: str) -> bool:
    return "/.git/" in path and not path.endswith(".sample")


def content(path: str) -> bytes | None:
    """Return a file's content, or None if it is a link, too large or unreadable."""
    try:
        data = None if is_link(Path(path)) else read_content(Path(path), CONFIG_BYTES + 1)
    except OSError:
        return None
    return data if data is not None and len(data) <= CONFIG_BYTES else None


def adds_program(path: str, old: bytes) -> bool:
    """Return whether a changed git file can start a program that its old content could not."""
    new = content(path)
    if new == old:
        return False
    if new is None or Path(path).name not in ("config", "config.worktree"):
        return True
    try:
        before = set(map(astuple, read_settings(old)))
        return any(
            (starts_program(setting) or is_include(setting)) and astuple(setting) not in before
            for setting in read_settings(new)
        )
    except UnreadableError:
        return True


def agents_folders(place: str) -> Iterator[Path]:
    """Yield the folders in a place that contain agents' work, which is never moved."""
    return (Path(place, name) for name in AGENTS_FOLDERS)


def files(place: str) -> dict[str, Stamp]:
    """Return the files at or below a place, with their stamps.

    Empty folders and agents' folders are not included.
    """
    path = Path(place)
    if not is_there(path) and not is_link(path):
        return {}
    if is_link(path) or not is_folder(path):
        return {place: stamp(place)}
    stamps: dict[str, Stamp] = {}
    for folder, folders, names in os.walk(place):
        if folder == place:
            folders[:] = [name for name in folders if name not in AGENTS_FOLDERS]
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
    """Return whether a new path is anything other than what `git init` and `git clone` create."""
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
    """Move a path to an unused name in the folder `aside`. Return whether that succeeded."""
    aside.mkdir(parents=True, exist_ok=True, mode=0o700)
    name = Path(path).name
    free = next(
        place
        for number in range(1_000_000)
        if not is_there(place := aside / (f"{number}-{name}" if number else name))
    )
    try:
        import shutil

        shutil.move(path, free)
    except OSError:
        return False
    return True

"""Read and restore the states of paths, without following symlinks, each in one atomic step."""

import contextlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from uuid import uuid4

from clew.permissions.patterns import compile_ignore_rules
from clew.record.rewind.changes import FileState
from clew.record.transcript.files import Files
from clew.record.transcript.paths import get_own_dir
from clew.system.files import NOT_REGULAR, open_only_files

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


# File contents by their SHA-256, each stored once, below clew's private folder.


def blobs_dir(home: Path) -> Path:
    return get_own_dir(home) / "files"


class Blobs:
    """A content-addressed store. With `syncs`, `put` returns once the content is durable."""

    def __init__(self, folder: Path, *, syncs: bool = False) -> None:
        self._folder = folder
        self._syncs = syncs
        self._files = Files()

    @property
    def home(self) -> Path:
        """The config home that contains the store."""
        return self._folder.parent.parent

    def put(self, data: bytes) -> str:
        """Store data and return its name. Raise `OSError` if the disk is not writable."""
        name = sha256(data).hexdigest()
        path = self._path(name)
        try:
            if path.stat().st_size == len(data):
                return name
        except FileNotFoundError:
            self._files.make_folder(path.parent)
        beside = path.with_name(f".{uuid4().hex}")
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                file.flush()
                if self._syncs:
                    self._files.sync(file.fileno())
            beside.replace(path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
        return name

    def get(self, name: str) -> bytes | None:
        """Return the content with this name, or None if it is missing or does not match."""
        try:
            data = self._path(name).read_bytes()
        except OSError:
            return None
        return data if sha256(data).hexdigest() == name else None

    def each(self) -> Iterator[tuple[str, int]]:
        """Yield the name and size of every stored content."""
        for path in sorted(self._folder.glob("[0-9a-f][0-9a-f]/*")):
            if not path.name.startswith("."):
                yield path.name, path.stat().st_size

    def remove(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._folder / name[:2] / name


KEPT_MAX_BYTES = 64 << 20
# The most files that are recorded below a folder that a command names.
BELOW_MAX = 2000


class CannotRestoreError(Exception):
    """A state cannot be restored; nothing at the path was changed."""


def read_state(path: str, blobs: Blobs | None) -> FileState:
    """Return the state of a path; its content is stored in `blobs`, if given."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return FileState(kind="absent", under=_first_missing(path))
    except (OSError, ValueError):
        return FileState(kind="other", why="its metadata can't be read")
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return FileState(kind="link", target=os.readlink(path))
    if stat.S_ISDIR(status.st_mode):
        return FileState(kind="folder", mode=mode)
    if not stat.S_ISREG(status.st_mode):
        return FileState(kind="other", mode=mode, why=f"it {NOT_REGULAR}")
    if status.st_size > KEPT_MAX_BYTES:
        return _unkept(status, f"it is larger than {KEPT_MAX_BYTES >> 20} MiB")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            data = file.read(KEPT_MAX_BYTES + 1)
        name = _named(data) if blobs is None else blobs.put(data)
    except OSError as error:
        return _unkept(status, error.strerror or str(error))
    return FileState(kind="file", sha256=name, size=len(data), mode=mode)


def _unkept(status: os.stat_result, why: str) -> FileState:
    mode = stat.S_IMODE(status.st_mode)
    return FileState(kind="unkept", size=status.st_size, mode=mode, why=why)


def _named(data: bytes) -> str:
    return sha256(data).hexdigest()


def _first_missing(path: str) -> str:
    """Return the topmost missing folder above `path`; empty if its own folder exists."""
    missing = ""
    for folder in Path(path).parents:
        if os.path.lexists(folder):
            break
        missing = str(folder)
    return missing


def take_away(path: str, state: FileState) -> None:
    """Delete the file, link or empty folder at a path.

    If `state` is absent, the folders that were created for the path are deleted too.
    """
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(path) if _is_folder(path) else os.unlink(path)
    _leave(path, state.under)


def bring_about(path: str, state: FileState, blobs: Blobs) -> None:
    """Restore the state of a path.

    Raise `CannotRestoreError` or `OSError`, with nothing changed.
    """
    match state.kind:
        case "file":
            data = blobs.get(state.sha256)
            if data is None:
                raise CannotRestoreError(f"{path}: its content is no longer stored")
            _replace(path, data, state.mode)
        case "folder":
            os.makedirs(path, exist_ok=True)
            os.chmod(path, state.mode)
        case "link":
            beside = _beside(path)
            os.symlink(state.target, beside)
            os.replace(beside, path)
        case _:
            raise CannotRestoreError(f"{path}: {state.why or 'its content is unknown'}")


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _replace(path: str, data: bytes, mode: int) -> None:
    beside = _beside(path)
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError:
        os.unlink(beside)
        raise


def _beside(path: str) -> str:
    """Return a temporary name in the same folder.

    A path always gets the same temporary name, so that repeated crashes leave only one file.
    """
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    name = sha256(os.fsencode(path)).hexdigest()[:32]
    beside = f"{folder}/.{name}.clew"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(beside)
    return beside


def _leave(path: str, under: str) -> None:
    """Delete the empty folders that were created for a file."""
    if not under:
        return
    top = Path(under)
    for folder in Path(path).parents:
        if not folder.is_relative_to(top):
            return
        try:
            folder.rmdir()
        except OSError:
            return


def list_below(path: str) -> Iterator[str]:
    """Yield the paths below a folder, up to a limit; nothing if `path` is not a folder."""
    waiting = [path]
    left = BELOW_MAX
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    yield entry.path
        except OSError:
            continue


# An overview of a working folder: its files and their metadata. Only ignore files are read.


# Size, times, inode and mode: a change in any of them means a changed content or mode.
Look: TypeAlias = tuple[int, int, int, int, int]
Glance: TypeAlias = dict[str, Look]
Specs: TypeAlias = "tuple[tuple[str, GitIgnoreSpec], ...]"

SEEN_MAX = 20_000
# Generated files, and the bookkeeping of other programs.
PASSED = frozenset(
    {
        ".git", ".hg", ".svn", ".jj", "node_modules", ".venv", "venv", "__pycache__", ".tox",
        ".mypy_cache", ".pytest_cache", ".ruff_cache", ".cache", ".hypothesis",
    }
)  # fmt: skip


def look_of(status: os.stat_result) -> Look:
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode)


class FolderTree:
    """A folder that is scanned repeatedly.

    It caches which paths are ignored until the rules change.
    """

    def __init__(self, folder: str, *, passed: str = "") -> None:
        """Create the tree; its scans skip the folder `passed`."""
        self.folder = folder
        self._passed = passed
        self._rules: dict[str, tuple[Look, GitIgnoreSpec | None]] = {}
        self._verdicts: dict[str, bool] = {}
        # The ignore files that the last scan used, with their metadata.
        self.heeded: frozenset[tuple[str, Look]] = frozenset()
        self._heeding: set[tuple[str, Look]] = set()

    def glance(self, tracked: Mapping[str, object], parents: Collection[str]) -> Glance | None:
        """Return every file below the folder that git tracks or that no rule ignores.

        Return None if there are too many files to scan around each call. `parents` are the
        folders that contain tracked files.
        """
        self._heeding = set()
        seen: Glance = {}
        waiting: list[tuple[str, Specs]] = [(self.folder, self._rules_above())]
        while waiting and len(seen) <= SEEN_MAX:
            folder, specs = waiting.pop()
            try:
                with os.scandir(folder) as scan:
                    entries = list(scan)
            except OSError:
                continue
            specs = self._with_own(folder, entries, specs)
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name in PASSED or entry.path == self._passed:
                        continue
                    if entry.path in parents or not self._ignored(f"{entry.path}/", specs):
                        waiting.append((entry.path, specs))
                elif entry.path in tracked or not self._ignored(entry.path, specs):
                    try:
                        seen[entry.path] = look_of(entry.stat(follow_symlinks=False))
                    except OSError:
                        continue  # The folder or file was deleted in the meantime.
        self.heeded = frozenset(self._heeding)
        return seen if len(seen) <= SEEN_MAX else None

    def _rules_above(self) -> Specs:
        """Return the repository's ignore rules, and those in its folders above this folder."""
        top = self.folder
        while not os.path.lexists(f"{top}/.git"):
            if top == os.path.dirname(top):
                return ()
            top = os.path.dirname(top)
        specs = self._with_rules(top, f"{top}/.git/info/exclude", ())
        below = os.path.relpath(self.folder, top).split(os.sep)
        folders = [top, *(os.path.join(top, *below[:n]) for n in range(1, len(below)))]
        for folder in folders if top != self.folder else ():
            specs = self._with_rules(folder, f"{folder}/.gitignore", specs)
        return specs

    def _with_own(self, folder: str, entries: list[os.DirEntry[str]], specs: Specs) -> Specs:
        if any(entry.name == ".gitignore" for entry in entries):
            return self._with_rules(folder, f"{folder}/.gitignore", specs)
        return specs

    def _with_rules(self, folder: str, path: str, specs: Specs) -> Specs:
        """Add the rules in an ignore file, which is read again only if it changed."""
        try:
            look = look_of(os.stat(path))
        except OSError:
            return specs
        self._heeding.add((path, look))
        cached = self._rules.get(path)
        if cached is None or cached[0] != look:
            self._verdicts = {}
            cached = self._rules[path] = (look, _read(path))
        return specs if cached[1] is None else (*specs, (folder, cached[1]))

    def _ignored(self, path: str, specs: Specs) -> bool:
        """Return whether a path is ignored, according to the nearest matching rules."""
        if not specs:
            return False
        verdict = self._verdicts.get(path)
        if verdict is None:
            verdict = self._verdicts[path] = _decided(path, specs)
        return verdict


def _decided(path: str, specs: Specs) -> bool:
    for folder, spec in reversed(specs):
        decision = spec.check_file(path[len(folder) + 1 :]).include
        if decision is not None:
            return decision
    return False


def _read(path: str) -> "GitIgnoreSpec | None":
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", opener=open_only_files) as file:
            return compile_ignore_rules(file)
    except (OSError, ValueError):
        return None


def find_differing(before: Glance, after: Glance) -> set[str]:
    return {path for path, _ in before.items() ^ after.items()}

"""Record the file changes of tool calls: contents are stored before a call, changes after it.

The files that a tool or command line names are stored beforehand, and so are those that earlier
calls touched. Other changes in the working folder are found by scanning it before and after; the
earlier contents of those files come from a snapshot.
"""

import os
import stat
import time
from collections.abc import Callable, Iterable
from stat import S_ISLNK, S_ISREG
from typing import TYPE_CHECKING

from msgspec import Struct

from clew.record.rewind import disk
from clew.record.rewind.changes import ABSENT, FileState, PathChange
from clew.record.rewind.disk import Blobs, FolderTree, Glance, Look, find_differing, look_of
from clew.record.rewind.repository import Repository

if TYPE_CHECKING:
    from clew.permissions.reading import CommandLine

# The contents of a working folder before a command, whichever files it changes.


# The limits for one file, and for one run of a session.
COPIED_FILE_BYTES = 4 << 20
COPIED_BYTES = 512 << 20
# The limits while a command is waiting, and while the model is thinking.
AT_ONCE, LATER = 300, 5_000
AT_ONCE_BYTES, LATER_BYTES = 16 << 20, 128 << 20


class FolderSnapshot:
    """The state of a folder before each command.

    Call `take` before a command. Afterward, call `was` for the earlier states of the changed files.
    """

    def __init__(self, folder: str, blobs: Blobs) -> None:
        self.folder = folder
        self._blobs = blobs
        home = str(blobs.home)
        self._tree = FolderTree(folder, passed=home)
        # A folder that contains clew's private folder is the user's home, which contains keys that
        # must not be copied.
        self._copies = not home.startswith(f"{folder.rstrip('/')}/")
        self._repository = Repository(folder)
        self._copied: dict[str, tuple[Look, FileState]] = {}
        self._copied_bytes = 0
        self._last: Glance | None = None

    @property
    def rules(self) -> frozenset[tuple[str, Look]]:
        """The ignore files that the last scan used."""
        return self._tree.heeded

    def take(self) -> Glance | None:
        """Scan the folder and store its contents within limits; None if the folder is too large."""
        is_other = self._repository.refresh()
        seen = self.look()
        if seen is None or (seen == self._last and not is_other):
            return seen
        self._keep_up(seen, AT_ONCE, AT_ONCE_BYTES)
        return seen

    def keep_up(self, seen: Glance) -> None:
        """Store contents that `take` left out so as not to delay the command.

        `seen` is the current scan.
        """
        if seen != self._last:
            self._keep_up(seen, LATER, LATER_BYTES)

    def _keep_up(self, seen: Glance, files: int, size_bytes: int) -> None:
        is_whole = not self._copies or self._copy(seen, files, size_bytes)
        self._last = seen if is_whole else None

    def look(self) -> Glance | None:
        """Scan the folder, with the tracked files as of the last `take`.

        Return None if the folder is too large.
        """
        repository = self._repository
        return self._tree.glance(repository.tracked, repository.parents)

    def _copy(self, seen: Glance, left: int, left_bytes: int) -> bool:
        """Store contents that git does not have.

        Return False if some contents are left for the next time.
        """
        for path, look in seen.items():
            cached = self._copied.get(path)
            if cached is not None and cached[0] == look:
                continue
            if self._repository.is_kept(path, look) or look[0] > COPIED_FILE_BYTES:
                continue
            left, left_bytes = left - 1, left_bytes - look[0]
            if self._copied_bytes + look[0] > COPIED_BYTES:
                return True
            if left < 0 or left_bytes < 0:
                return False
            self._copied[path] = (look, disk.read_state(path, self._blobs))
            self._copied_bytes += look[0]
        return True

    def was(self, paths: Iterable[str], before: Glance) -> dict[str, FileState]:
        """Return the states that these files had at the time of the scan `before`."""
        states: dict[str, FileState] = {}
        from_git: list[str] = []
        for path in paths:
            look = before[path]
            cached = self._copied.get(path)
            if cached is not None and cached[0] == look:
                states[path] = cached[1]
            elif self._repository.is_kept(path, look):
                from_git.append(path)
            else:
                states[path] = _unkept(
                    look, "it was not stored because it is too large or there are too many files"
                )
        for path, data, is_link in self._repository.contents(from_git):
            state = self._from_git(before[path], data, is_link=is_link)
            if state is not None:
                states[path] = state
        for path in from_git:
            states.setdefault(path, _unkept(before[path], "git does not have this version"))
        return states

    def _from_git(self, look: Look, data: bytes, *, is_link: bool) -> FileState | None:
        """Return the state of a file, given git's data; None if git stores another form of it."""
        size, mode = look[0], look[4]
        if len(data) != size:
            return None
        if is_link and S_ISLNK(mode):
            return FileState(kind="link", target=data.decode("utf-8", "surrogateescape"))
        if is_link or not S_ISREG(mode):
            return None
        try:
            name = self._blobs.put(data)
        except OSError:
            return None
        return FileState(kind="file", sha256=name, size=size, mode=mode & 0o7777)


def _unkept(look: Look, why: str) -> FileState:
    return FileState(kind="unkept", size=look[0], mode=look[4] & 0o7777, why=why)


# The limit for one call; switching git branches changes thousands of files.
RECORDED_MAX = 10_000

# Kernels take timestamps from a coarse clock that may be one tick late.
COARSE_NS = 20_000_000


class Named(Struct, frozen=True, kw_only=True):
    """The paths that a call names.

    The call may change the `deep` paths and everything below them. The `flat` paths are words of a
    command line, which may or may not be the names of files.
    """

    deep: frozenset[str] = frozenset()
    flat: frozenset[str] = frozenset()


class StateBefore(Struct, kw_only=True):
    """The state when a call began. `whole` is the scan that `snapshot` made."""

    states: dict[str, FileState]
    deep: frozenset[str]
    snapshot: FolderSnapshot | None
    whole: Glance | None
    # The ignore files that were used.
    rules: frozenset[tuple[str, Look]]
    begin_ns: int


class CallWatch:
    """Finds the file changes that calls make.

    The last state of each file is cached, so that an unchanged file is not read again.
    """

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._seen: dict[str, tuple[Look, FileState]] = {}
        self._snapshots: dict[str, FolderSnapshot] = {}

    @property
    def touched(self) -> frozenset[str]:
        """The files that tool calls in this run changed or referred to."""
        return frozenset(self._seen)

    def before(self, names: Named, folder: str, *, looks_everywhere: bool) -> StateBefore:
        paths = _with_targets(names.deep) | {path for path in names.flat if _is_file(path)}
        snapshot = self._snapshot(folder) if looks_everywhere else None
        whole_before = None if snapshot is None else snapshot.take()
        return StateBefore(
            states={path: self._look(path) for path in paths},
            deep=names.deep,
            snapshot=snapshot,
            whole=whole_before,
            rules=frozenset() if snapshot is None else snapshot.rules,
            begin_ns=time.time_ns() - COARSE_NS,
        )

    def _snapshot(self, folder: str) -> FolderSnapshot:
        """Return the snapshot of this folder, or of a folder above it where an earlier call ran."""
        for snapshot in self._snapshots.values():
            if folder == snapshot.folder or folder.startswith(f"{snapshot.folder}/"):
                return snapshot
        self._snapshots[folder] = FolderSnapshot(folder, self._blobs)
        return self._snapshots[folder]

    def after(self, before: StateBefore) -> tuple[list[PathChange], int]:
        """Return the changes since `before`, and the number of changes beyond the limit."""
        paths = _with_targets(before.deep) | before.states.keys()
        was = dict(before.states)
        glance: Glance | None = None
        if before.snapshot is not None and before.whole is not None:
            glance = before.snapshot.look()
            changed = set() if glance is None else find_differing(before.whole, glance)
            paths |= changed
            unnamed = [p for p in paths if p in before.whole and p not in was]
            was |= before.snapshot.was(sorted(unnamed), before.whole)
        changes = []
        for path in sorted(paths):
            then = was.get(path) or _unseen(path, before)
            now = self._look(path)
            if not then.same(now):
                changes.append(PathChange(path=path, before=then, after=now))
        if before.snapshot is not None and glance is not None:
            before.snapshot.keep_up(glance)
        return changes[:RECORDED_MAX], max(0, len(changes) - RECORDED_MAX)

    def _look(self, path: str) -> FileState:
        signature = _signature(path)
        if signature is None:
            self._seen.pop(path, None)
            return disk.read_state(path, self._blobs)
        cached = self._seen.get(path)
        if cached is not None and cached[0] == signature:
            return cached[1]
        state = disk.read_state(path, self._blobs)
        self._seen[path] = (signature, state)
        return state


def _unseen(path: str, before: StateBefore) -> FileState:
    """Return the earlier state of a path that was not read before the call.

    The state is absent if the path must be new, otherwise unknown.
    """
    look = _signature(path)
    if before.snapshot is not None and before.whole is not None:
        # A file that was ignored before the call but no longer is appears in the scan without
        # having been created.
        is_new = look is None or look[2] >= before.begin_ns
        if is_new or before.snapshot.rules == before.rules:
            return ABSENT
    elif any(path.startswith(f"{folder}/") for folder in before.deep):
        return ABSENT  # The path is below a folder that was scanned.
    return FileState(
        kind="unkept", size=look[0] if look else 0, why="no earlier tool call had named it"
    )


def _with_targets(paths: Iterable[str]) -> set[str]:
    """Return the paths, everything below those that are folders, and the targets of symlinks."""
    all_paths: set[str] = set()
    for path in paths:
        all_paths.add(path)
        if os.path.islink(path):
            all_paths.add(os.path.realpath(path))
        elif os.path.isdir(path):
            all_paths.update(disk.list_below(path))
    return all_paths


def _signature(path: str) -> Look | None:
    try:
        return look_of(os.lstat(path))
    except (OSError, ValueError):
        return None


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def place_files(path: str) -> str:
    """Return the canonical spelling of a path, without resolving a symlink in its last part."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(folder), name)


def find_named_paths(line: "CommandLine", resolve: Callable[[str], str]) -> Named:
    """Return the paths that a command line names, as far as its text shows; globs are expanded.

    Paths that a command only reads are omitted.
    """
    from glob import glob

    from clew.permissions.uses import find_redirect_uses, uses_of

    seen = line.parts
    uses = [use for part in seen.parts if part.command.words for use in uses_of(part.command)]
    uses += [use for redirect in seen.script.redirects for use in find_redirect_uses(redirect)]
    deep: set[str] = set()
    flat: set[str] = set()
    for use in uses:
        if use.access == "read" and use.named:
            continue
        for path in use.paths:
            full_path = resolve(path)
            spread = glob(full_path)[: disk.BELOW_MAX] if use.glob else [full_path]
            (deep if use.access == "write" else flat).update(map(place_files, spread))
    return Named(deep=frozenset(deep), flat=frozenset(flat))

"""A working folder around a command: what each file held before, whichever of them the command changes.

Nothing is copied that git has already, or that was copied before and looks the same since. The rest is,
as far as it is small; of what is not, the way back can only say that it is lost.

Decision: docs/decisions/126-file-history.md
"""

from collections.abc import Iterable
from stat import S_ISLNK, S_ISREG

from clew.rewind import disk
from clew.rewind.blobs import Blobs
from clew.rewind.changes import State
from clew.rewind.repository import Repository
from clew.rewind.tree import Glance, Look, Tree

# Of one file, and in one run of a session.
COPIED_FILE_BYTES = 4 << 20
COPIED_BYTES = 512 << 20
# How many files while a command waits for it, and while the model thinks.
AT_ONCE, LATER = 300, 5_000
AT_ONCE_BYTES, LATER_BYTES = 16 << 20, 128 << 20


class Snapshot:
    """One folder. `take` before a command; `was` after it, for what came to look otherwise."""

    def __init__(self, folder: str, blobs: Blobs) -> None:
        self.folder = folder
        self._blobs = blobs
        home = str(blobs.home)
        self._tree = Tree(folder, passed=home)
        # Around clew's own folder lies a home, with keys that nobody wants copied.
        self._copies = not home.startswith(f"{folder.rstrip('/')}/")
        self._repository = Repository(folder)
        self._copied: dict[str, tuple[Look, State]] = {}
        self._copied_bytes = 0
        self._last: Glance | None = None

    @property
    def rules(self) -> frozenset[tuple[str, Look]]:
        """What said at the last look which files are passed over."""
        return self._tree.heeded

    def take(self) -> Glance | None:
        """The folder as it stands, with every content kept that can be; None if it is too large."""
        is_other = self._repository.refresh()
        seen = self.look()
        if seen is None or (seen == self._last and not is_other):
            return seen
        self._keep_up(seen, AT_ONCE, AT_ONCE_BYTES)
        return seen

    def keep_up(self, seen: Glance) -> None:
        """Copies what a command did not wait for; `seen` is how the folder looks now."""
        if seen != self._last:
            self._keep_up(seen, LATER, LATER_BYTES)

    def _keep_up(self, seen: Glance, files: int, size_bytes: int) -> None:
        is_whole = not self._copies or self._copy(seen, files, size_bytes)
        self._last = seen if is_whole else None

    def look(self) -> Glance | None:
        """The folder as it stands, by what git tracked when it was taken."""
        repository = self._repository
        return self._tree.glance(repository.tracked, repository.parents)

    def _copy(self, seen: Glance, left: int, left_bytes: int) -> bool:
        """Copies what nobody has; False if some of it is left for the next time."""
        for path, look in seen.items():
            known = self._copied.get(path)
            if known is not None and known[0] == look:
                continue
            if self._repository.is_kept(path, look) or look[0] > COPIED_FILE_BYTES:
                continue
            left, left_bytes = left - 1, left_bytes - look[0]
            if self._copied_bytes + look[0] > COPIED_BYTES:
                return True
            if left < 0 or left_bytes < 0:
                return False
            self._copied[path] = (look, disk.look(path, self._blobs))
            self._copied_bytes += look[0]
        return True

    def was(self, paths: Iterable[str], before: Glance) -> dict[str, State]:
        """What the files held that `before` saw."""
        found: dict[str, State] = {}
        from_git: list[str] = []
        for path in paths:
            look = before[path]
            known = self._copied.get(path)
            if known is not None and known[0] == look:
                found[path] = known[1]
            elif self._repository.is_kept(path, look):
                from_git.append(path)
            else:
                found[path] = _unkept(look, "it was not kept: too large, or one of too many")
        for path, data, is_link in self._repository.contents(from_git):
            state = self._from_git(before[path], data, is_link=is_link)
            if state is not None:
                found[path] = state
        for path in from_git:
            found.setdefault(path, _unkept(before[path], "git does not have it as it was"))
        return found

    def _from_git(self, look: Look, data: bytes, *, is_link: bool) -> State | None:
        """A file as git has it; None where git keeps another form of it."""
        size, mode = look[0], look[4]
        if len(data) != size:
            return None
        if is_link and S_ISLNK(mode):
            return State(kind="link", target=data.decode("utf-8", "surrogateescape"))
        if is_link or not S_ISREG(mode):
            return None
        try:
            name = self._blobs.put(data)
        except OSError:
            return None
        return State(kind="file", sha256=name, size=size, mode=mode & 0o7777)


def _unkept(look: Look, why: str) -> State:
    return State(kind="unkept", size=look[0], mode=look[4] & 0o7777, why=why)

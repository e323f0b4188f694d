"""Emergency copies: where the lines of one transcript lie while it does not take them.

A copy's lock is held like a transcript's: whoever has it is the session's writer. A copy goes when its
lines are at home. The guarantees are in docs/internals/transcript.md.

Decision: docs/decisions/051-durability.md
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from clew.record.transcript.files import Files
from clew.record.transcript.light import is_uuid
from clew.record.transcript.load import LoadedSession, load
from clew.record.transcript.paths import AGENT, copy_name, rescue_dirs
from clew.record.transcript.source import open_source
from clew.system.files import is_folder


class LockedError(OSError):
    """Another process holds the file's lock."""


def copies_of(name: str, folders: Sequence[Path], files: Files) -> Iterator[Path]:
    """The copies of a transcript of that name that are there, in places where nobody else could lay one."""
    for folder in folders:
        if files.exists(folder / name) and files.is_private(folder):
            yield folder / name


class Rescue:
    """The first `lines` of the lines that are to be kept lie in `path`, synced."""

    def __init__(self, name: str, folders: Sequence[Path], files: Files) -> None:
        self.path: Path | None = None
        self.lines = 0
        self._name = name
        self._folders = folders
        self._files = files
        # Every copy that goes when the lines are at home, open and locked while this process writes.
        self._held: dict[Path, int | None] = {}

    def is_there(self) -> bool:
        return any(True for _ in self._there())

    def _there(self) -> Iterator[Path]:
        """The copies that can be seen. A folder that nobody may look into keeps nothing from being written
        at home; who goes on with a session looks for what it may lack (unsaved.py)."""
        for folder in self._folders:
            with contextlib.suppress(PermissionError):
                yield from copies_of(self._name, [folder], self._files)

    def take(self) -> list[bytes]:
        """The lines that an earlier run left, once. Raises `LockedError` while that run lasts."""
        lines: list[bytes] = []
        for path in self._there():
            if path in self._held:
                continue
            fd = self._open(path)
            data = self._files.read_at(fd, self._files.size(fd), 0)
            lines += [line + b"\n" for line in data.split(b"\n") if line]
            if not self._held:
                self.path, self.lines = path, len(lines)
            else:
                self.lines = 0  # they lie in more than one
            self._held[path] = fd
        return lines

    def save(self, lines: Sequence[bytes]) -> bool:
        """Adds what is not there yet to the copy, or all to the first place that takes it."""
        last = [] if self.path is None else [self.path]
        for path in [*last, *(folder / self._name for folder in self._folders)]:
            try:
                done = self.lines if path == self.path and self._is_at(path) else 0
                if done < len(lines):
                    self._append(path, lines[done:])
            except OSError:
                continue
            self.path, self.lines = path, len(lines)
            return True
        return False

    def drop(self) -> None:
        """The transcript has everything."""
        for path in self._held:
            with contextlib.suppress(OSError):
                self._files.remove(path)
        self.release()
        self._held = {}
        self.path, self.lines = None, 0

    def release(self) -> None:
        """Gives the locks back; the copies stay."""
        for path, fd in self._held.items():
            if fd is not None:
                self._files.close(fd)
            self._held[path] = None

    def _is_at(self, path: Path) -> bool:
        fd = self._held.get(path)
        return self._files.exists(path) if fd is None else self._files.is_at(fd, path)

    def _open(self, path: Path) -> int:
        try:
            fd = self._files.open(path)
        except OSError:
            # Where nothing can be written any more, what was written can be read.
            fd = self._files.open_to_read(path)
        if not self._files.lock(fd):
            self._files.close(fd)
            raise LockedError("another process writes this session")
        return fd

    def _append(self, path: Path, lines: Sequence[bytes]) -> None:
        files = self._files
        fd = self._held.get(path)
        if fd is not None and not files.is_at(fd, path):
            files.close(fd)
            fd = self._held[path] = None
        if fd is None:
            files.make_folder(path.parent)
            if not files.is_private(path.parent):
                raise PermissionError(f"{path.parent} is open to others")
            fd = self._held[path] = self._open(path)
        try:
            write_all(files, fd, b"\n" + b"".join(lines))
            files.sync(fd)
        except OSError:
            if not files.size(fd):
                files.close(fd)
                del self._held[path]
                files.remove(path)
            raise


def write_all(files: Files, fd: int, data: bytes) -> None:
    done = 0
    while done < len(data):
        done += files.write(fd, data[done:])


# What a transcript's file did not take, read behind it: all that was said, for whoever goes on from it.


def list_copies(path: Path, home: Path) -> tuple[Path, ...]:
    """The emergency copies of a file that are there."""
    return tuple(copies_of(copy_name(path), rescue_dirs(home), Files()))


def list_all_copies(home: Path) -> dict[str, list[Path]]:
    """The emergency copies of each session, of whatever folder; its own before its subagents'."""
    copies: dict[str, list[Path]] = {}
    for folder in rescue_dirs(home):
        if is_folder(folder) and Files().is_private(folder):
            for path in sorted(folder.glob("*.json*")):
                # A subagent's copy bears its session's id behind its own.
                session = path.stem.rpartition(".")[2]
                if is_uuid(session):
                    copies.setdefault(session, []).append(path)
    return {
        session: sorted(paths, key=lambda path: path.name.startswith(AGENT))
        for session, paths in copies.items()
    }


def load_with_unsaved(path: Path, home: Path) -> LoadedSession:
    """What a transcript's file holds, and behind it what the file could not take and nobody brought home yet."""
    return load(path, copies=list_copies(path, home))


def lines_of(path: Path, home: Path) -> Iterator[bytes]:
    """The same as lines, each without its end."""
    with open_source(path, list_copies(path, home)) as source:
        for _, _, raw in source.lines(0):
            yield raw

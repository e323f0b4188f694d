"""Recovery files, which hold a transcript's lines while the transcript is not writable.

A recovery file is locked like a transcript: the process with the lock is the session's writer. The
file is deleted once all its lines are in the transcript. The guarantees are in
docs/internals/transcript.md.

Decision: docs/decisions/051-durability.md
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from clew.record.transcript.files import Files
from clew.record.transcript.light import is_uuid
from clew.record.transcript.loaded import LoadedSession
from clew.record.transcript.paths import AGENT, copy_name, rescue_dirs
from clew.system.files import is_folder


class LockedError(OSError):
    """Another process holds the file's lock."""


def copies_of(name: str, folders: Sequence[Path], files: Files) -> Iterator[Path]:
    """Yield existing recovery files with this name in folders that only this user can write to."""
    for folder in folders:
        if files.exists(folder / name) and files.is_private(folder):
            yield folder / name


class Rescue:
    """The recovery files of one transcript.

    The first `lines` of the transcript's unsaved lines are durable in `path`.
    """

    def __init__(self, name: str, folders: Sequence[Path], files: Files) -> None:
        self.path: Path | None = None
        self.lines = 0
        self._name = name
        self._folders = folders
        self._files = files
        # All recovery files to delete once the lines are saved. While this process writes, they are
        # open and locked.
        self._held: dict[Path, int | None] = {}

    def is_there(self) -> bool:
        return any(True for _ in self._there())

    def _there(self) -> Iterator[Path]:
        """Yield the visible recovery files.

        A folder that is not readable must not prevent writes to the transcript. Resuming a session
        checks separately for lines that it may lack.
        """
        for folder in self._folders:
            with contextlib.suppress(PermissionError):
                yield from copies_of(self._name, [folder], self._files)

    def take(self) -> list[bytes]:
        """Return the lines that an earlier run left in recovery files, once only.

        Raise `LockedError` while the process of that run has the lock.
        """
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
                self.lines = 0  # The lines are spread over several files.
            self._held[path] = fd
        return lines

    def save(self, lines: Sequence[bytes]) -> bool:
        """Append missing lines to the recovery file.

        If that fails, all lines are written to the first folder that accepts them.
        """
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
        """Delete the recovery files, because the transcript has all lines."""
        for path in self._held:
            with contextlib.suppress(OSError):
                self._files.remove(path)
        self.release()
        self._held = {}
        self.path, self.lines = None, 0

    def release(self) -> None:
        """Release the locks; the recovery files stay."""
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
            # Lines on a disk that is no longer writable can still be read.
            fd = self._files.open_to_read(path)
        if not self._files.lock(fd):
            self._files.close(fd)
            raise LockedError("another process has this session open")
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
                raise PermissionError(f"other users can write to {path.parent}")
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


# A transcript's file together with its recovery files: everything that a resumed session needs.


def list_copies(path: Path, home: Path) -> tuple[Path, ...]:
    """Return the existing recovery files of a transcript."""
    return tuple(copies_of(copy_name(path), rescue_dirs(home), Files()))


def list_all_copies(home: Path) -> dict[str, list[Path]]:
    """Return the recovery files of each session in any folder.

    A session's own files come before those of its subagents.
    """
    copies: dict[str, list[Path]] = {}
    for folder in rescue_dirs(home):
        if is_folder(folder) and Files().is_private(folder):
            for path in sorted(folder.glob("*.json*")):
                # The name of a subagent's recovery file ends with its session's ID.
                session = path.stem.rpartition(".")[2]
                if is_uuid(session):
                    copies.setdefault(session, []).append(path)
    return {
        session: sorted(paths, key=lambda path: path.name.startswith(AGENT))
        for session, paths in copies.items()
    }


def load_with_unsaved(path: Path, home: Path) -> LoadedSession:
    """Load a transcript's file, followed by the unsaved lines in its recovery files."""
    from clew.record.transcript.load import load

    return load(path, copies=list_copies(path, home))


def lines_of(path: Path, home: Path) -> Iterator[bytes]:
    """Yield the lines of a transcript and its recovery files, without line endings."""
    from clew.record.transcript.source import open_source

    with open_source(path, list_copies(path, home)) as source:
        for _, _, raw in source.lines(0):
            yield raw

"""An append-only file, with the last lines that are not yet known to be durable (the tail).

Only one thread uses it (log.py). A failing disk never raises: the tail stays in memory, and each
call tries to write it again. Until then a recovery file holds the tail, if one can be written. The
guarantees are in docs/internals/transcript.md.

Decision: docs/decisions/050-transcript-lock.md
"""

import errno
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from clew.core.messages.text import format_count
from clew.record.transcript.files import Files
from clew.record.transcript.paths import copy_name
from clew.record.transcript.recovery import LockedError, Rescue, write_all

COPY_SIZE_BYTES = 1 << 20


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Lines that are not in the transcript, the reason, and the recovery file, if any."""

    path: Path
    reason: str
    unsaved_lines: int
    rescued_to: Path | None
    # The system's name of the error, such as ENOSPC.
    code: str = ""

    def __str__(self) -> str:
        return self._said("kept in memory only; free disk space or make the folder writable")

    @property
    def at_the_end(self) -> str:
        """The message to show when the process ends."""
        return self._said("the data is lost")

    @property
    def in_short(self) -> str:
        where = f"a copy is in {self.rescued_to}" if self.rescued_to else "kept in memory only"
        return f"{format_count(self.unsaved_lines, 'line')} not saved: {self.reason}; {where}"

    def _said(self, without_copy: str) -> str:
        where = f"a copy is in {self.rescued_to}" if self.rescued_to else without_copy
        lines = format_count(self.unsaved_lines, "line")
        return f"{self.path}: {self.reason}: {lines} not saved; {where}"


class LogFile:
    """An append-only file with a tail of lines that may not be durable.

    `_tail` contains exactly the lines that were passed in but are not known to be durable at
    `path`. The first `_written` of these lines have been passed to the kernel completely.
    """

    def __init__(self, path: Path, *, files: Files, rescue_dirs: Sequence[Path] = ()) -> None:
        self.path = path
        self.trouble: Trouble | None = None
        self._files = files
        self._fd: int | None = None
        self._tail: list[bytes] = []
        self._written = 0
        self._newline_first = False
        self._rescue = Rescue(copy_name(path), rescue_dirs, files)

    @property
    def unsynced_bytes(self) -> int:
        return sum(map(len, self._tail))

    def claim(self) -> bool:
        """Lock a file that exists; False if another process has it open.

        On return, the lines of an earlier run's recovery file are in the file, or are still unsaved
        if the file is not writable.
        """
        if self._fd is not None:
            return True
        try:
            try:
                if not self._files.exists(self.path) and not self._rescue.is_there():
                    return True
                self._open()
                self.sync()
            except LockedError:
                raise
            except OSError as error:
                self._take_rescued()
                self._fail(error)
        except LockedError:
            return False
        except OSError as error:
            self._fail(error)
        return True

    def write(self, lines: Sequence[bytes]) -> None:
        """Pass complete lines, each with its newline, to the kernel in one write."""
        self._tail += lines
        try:
            self._push()
        except OSError as error:
            self._fail(error)

    def sync(self) -> Trouble | None:
        """Make all lines durable. Return None, or why they are not in the transcript."""
        if not self._tail:
            return self.trouble
        try:
            # Checking once here is enough: lines written to a replaced file stay in the tail until
            # synced.
            if self._fd is not None and not self._files.is_at(self._fd, self.path):
                self._follow()
            self._push()
            self._sync()
        except OSError as error:
            self._fail(error)
        return self.trouble

    def close(self) -> Trouble | None:
        self.sync()
        self._release()
        self._rescue.release()
        return self.trouble

    # -- normal operation

    def _push(self) -> None:
        if self._fd is None:
            self._open()
        fd = self._fd
        assert fd is not None
        if self._written == len(self._tail):
            return
        lines = self._tail[self._written :]
        data = (b"\n" if self._newline_first else b"") + b"".join(lines)
        done = 0
        try:
            while done < len(data):
                done += self._files.write(fd, data[done:] if done else data)
        finally:
            self._count(done, lines)

    def _count(self, done: int, lines: Sequence[bytes]) -> None:
        """Count the complete lines written so far, and note whether the last byte ends a line."""
        if not done:
            return
        rest = done - self._newline_first
        self._newline_first = False
        for line in lines:
            if rest < len(line):
                self._newline_first = rest > 0
                return
            rest -= len(line)
            self._written += 1

    def _sync(self) -> None:
        assert self._fd is not None
        try:
            self._files.sync(self._fd)
        except OSError:
            # The kernel may have dropped the bytes and marked the pages clean, so the data of a
            # failed sync is written again. The loader treats a line that occurs twice as one line.
            self._written = 0
            self._newline_first = True
            self._release()
            raise
        self._tail.clear()
        self._written = 0
        self.trouble = None
        self._rescue.drop()

    def _open(self) -> None:
        files = self._files
        is_new = not files.exists(self.path)
        if is_new:
            files.make_folder(self.path.parent)
        fd = files.open(self.path)
        try:
            if not files.lock(fd):
                raise LockedError("another process has this session open")
            if is_new:
                files.sync_folder(self.path.parent)
            size = files.size(fd)
            if size and files.read_at(fd, 1, size - 1) != b"\n":
                self._newline_first = True
            self._take_rescued()
        except OSError:
            files.close(fd)
            raise
        self._fd = fd

    def _follow(self) -> None:
        """Handle a path that no longer names the open file.

        If the file was deleted, it is restored. If it was replaced, the replacement is opened.
        """
        if self._files.exists(self.path):
            self._written = 0
            self._release()
            self._open()
            return
        fd = self._copy_back()
        self._release()
        self._fd = fd

    def _copy_back(self) -> int:
        files, old = self._files, self._fd
        assert old is not None
        files.make_folder(self.path.parent)
        beside = self.path.with_suffix(".restoring")
        files.remove(beside)
        new = files.open(beside)
        try:
            files.lock(new)
            offset = 0
            while piece := files.read_at(old, COPY_SIZE_BYTES, offset):
                offset += len(piece)
                write_all(files, new, piece)
            files.sync(new)
            files.rename(beside, self.path)
            files.sync_folder(self.path.parent)
        except OSError:
            files.close(new)
            raise
        return new

    def _release(self) -> None:
        if self._fd is not None:
            self._files.close(self._fd)
            self._fd = None

    # -- error handling

    def _fail(self, error: OSError) -> None:
        # Lines from an earlier run come first when a recovery file is continued, so that the order
        # stays the same.
        with suppress(OSError):
            self._take_rescued()
        if not self._tail:
            return
        is_saved = self._rescue.save(self._tail)
        self.trouble = Trouble(
            path=self.path,
            reason=error.strerror or str(error),
            unsaved_lines=len(self._tail),
            rescued_to=self._rescue.path if is_saved else None,
            code=errno.errorcode.get(error.errno or 0, ""),
        )

    def _take_rescued(self) -> None:
        """Take over the lines that an earlier run could only save to a recovery file."""
        lines = self._rescue.take()
        if lines:
            self._tail[:0] = lines
            self._written = 0

"""The output of a child: its head and tail in bounded memory, and all of it in a file.

A full disk never causes an error. In that case, only the head and the tail are kept.
"""

import os
import sys
from collections import deque
from pathlib import Path

# A runaway `yes` writes gigabytes per second. Beyond this size, the file keeps only the beginning.
SPILL_MAX_BYTES = 1 << 30


class ProcessOutput:
    """The output of a child. `head` and `tail` have at most `keep_bytes` each and never overlap.

    The file contains the first `file_max_bytes` of the output. This limit must be at least
    `keep_bytes`.
    """

    __slots__ = (
        "_file",
        "_spill",
        "_tail",
        "_tail_bytes",
        "file_max_bytes",
        "head",
        "keep_bytes",
        "moves_unseen",
        "saved_bytes",
        "size",
    )

    def __init__(
        self,
        *,
        keep_bytes: int,
        spill: Path | None = None,
        file_max_bytes: int = SPILL_MAX_BYTES,
    ) -> None:
        self.keep_bytes = keep_bytes
        self.file_max_bytes = file_max_bytes
        self.moves_unseen = True
        self.size = 0
        self.head = bytearray()
        # The number of bytes in the file, or 0 if there is no file.
        self.saved_bytes = 0
        self._spill = spill
        self._file = -1
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0

    @property
    def tail(self) -> bytes:
        if self._file >= 0:
            start = max(len(self.head), self.saved_bytes - self.keep_bytes)
            return os.pread(self._file, self.saved_bytes - start, start)
        return b"".join(self._tail)[-self.keep_bytes :]

    @property
    def left_out(self) -> int:
        """The number of bytes between the head and the tail, which are not in memory."""
        return self.size - len(self.head) - len(self.tail)

    @property
    def saved_at(self) -> Path | None:
        return self._spill if self.saved_bytes else None

    @property
    def descriptor(self) -> int:
        """The descriptor of the open file, or -1 if no file is open."""
        return self._file

    @property
    def path(self) -> Path | None:
        """The path of the file, even if the file does not exist yet; None if there won't be one."""
        return self._spill

    def move(self, to: Path) -> None:
        """Move the file to another path.

        If there is no file yet, it will be created at that path.
        """
        if self._file >= 0:
            assert self._spill is not None
            self._spill.rename(to)
        self._spill = to

    def look(self) -> None:
        """Read output that does not come through `feed`. Only subclasses have such output."""

    def feed(self, data: bytes | memoryview) -> None:
        if self._file < 0 and self.size <= 2 * self.keep_bytes < self.size + len(data):
            self.save()
        self.size += len(data)
        room = self.keep_bytes - len(self.head)
        if room > 0:
            self.head += data[:room]
        if self._file >= 0:
            # The file has the data; copying it to the tail as well would cost as much as writing
            # it.
            self._keep_tail(self._write(data))
        else:
            self._keep_tail(data[max(0, room) :])

    def take_from(self, pipe: int, most: int) -> int | None:
        """Move bytes from a pipe to the file without copying them, and return how many were moved.

        Return 0 at the end of the pipe, and None if bytes cannot be moved in this way. Raise
        BlockingIOError if the pipe is empty.
        """
        most = min(most, self.file_max_bytes - self.saved_bytes)
        if sys.platform != "linux" or not self.moves_unseen or self._file < 0 or most <= 0:
            return None
        try:
            moved = os.splice(pipe, self._file, most)
        except BlockingIOError:
            raise
        except OSError:
            # A full disk, or a file system without splice. The next write shows which.
            return None
        self.size += moved
        self.saved_bytes += moved
        return moved

    def save(self) -> None:
        """Write the output so far to the file, which also receives all further output.

        Do nothing if a part of the output is already missing.
        """
        if self._spill is None or self._file >= 0 or self.saved_bytes or self.left_out:
            return
        try:
            for folder in (*reversed(self._spill.parent.parents), self._spill.parent):
                folder.mkdir(exist_ok=True, mode=0o700)
            self._file = os.open(self._spill, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            rest = memoryview(bytes(self.head) + b"".join(self._tail))
            while rest:
                rest = rest[self._append(rest) :]
        except OSError:
            self._give_back()
        else:
            self._tail.clear()
            self._tail_bytes = 0

    def since(self, at: int, most: int) -> tuple[bytes, bytes]:
        """Return the output after the first `at` bytes, in two parts.

        If it is longer than `most`, the parts are half of `most` from each end. Otherwise the first
        part is all of it, and the second is empty.
        """
        if self.size - at <= most:
            return self.span(at, self.size), b""
        return self.span(at, at + most // 2), self.span(self.size - most // 2, self.size)

    def span(self, begin: int, end: int) -> bytes:
        """Return the bytes between two positions, except those that were not kept."""
        first = bytes(self.head[begin:end])
        at = begin + len(first)
        if at < min(end, self.saved_bytes):
            first += self._from_file(at, min(end, self.saved_bytes))
        tail = self.tail
        tail_begin = self.size - len(tail)
        rest = max(begin + len(first), tail_begin)
        return first + tail[rest - tail_begin : max(0, end - tail_begin)]

    def _from_file(self, begin: int, end: int) -> bytes:
        if self._file >= 0:
            return os.pread(self._file, end - begin, begin)
        assert self._spill is not None
        try:
            with self._spill.open("rb") as file:
                file.seek(begin)
                return file.read(end - begin)
        except OSError:
            # The file was deleted by another program; the end is still in memory.
            return b""

    def close(self) -> None:
        """Close the file. The head, the tail and the counts remain available."""
        if self._file >= 0:
            tail = self.tail
            os.close(self._file)
            self._file = -1
            self._keep_tail(tail)

    def _keep_tail(self, data: bytes | memoryview) -> None:
        if not data or not self.keep_bytes:
            return
        self._tail.append(bytes(data[-self.keep_bytes :]))
        self._tail_bytes += len(self._tail[-1])
        while self._tail_bytes - len(self._tail[0]) >= self.keep_bytes:
            self._tail_bytes -= len(self._tail.popleft())

    def _write(self, data: bytes | memoryview) -> memoryview:
        """Write to the file, and return the data that does not fit.

        If some data does not fit, close the file.
        """
        rest = memoryview(data)
        try:
            while rest and self.saved_bytes < self.file_max_bytes:
                rest = rest[self._append(rest[: self.file_max_bytes - self.saved_bytes]) :]
        except OSError:
            self._keep_tail(self.tail)
            self._give_back()
        if rest:
            self.close()
        return rest

    def _append(self, data: memoryview) -> int:
        written = os.write(self._file, data)
        self.saved_bytes += written
        return written

    def _give_back(self) -> None:
        """Delete the incomplete file. The disk is full, and other programs need the space."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        if self._spill is not None and self.saved_bytes:
            self._spill.unlink(missing_ok=True)
        self.saved_bytes = 0
        self._spill = None

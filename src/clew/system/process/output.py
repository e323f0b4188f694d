"""What a child prints, in bounded memory: the head and the tail, and the whole in a file.

Must never fail because a disk is full: what is kept then is the head and the tail, and no file.
"""

import os
import sys
from collections import deque
from pathlib import Path

# A runaway `yes` writes gigabytes a second; past this the file keeps the beginning only.
SPILL_MAX_BYTES = 1 << 30


class ProcessOutput:
    """Bytes as they come; `head` and `tail` hold at most `keep_bytes` each, and never overlap.

    The file takes the first `file_max_bytes`, which are no fewer.
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
        # How much of the whole is in the file; 0 when there is no file.
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
        """How many bytes between head and tail are no longer in memory."""
        return self.size - len(self.head) - len(self.tail)

    @property
    def saved_at(self) -> Path | None:
        return self._spill if self.saved_bytes else None

    @property
    def descriptor(self) -> int:
        """The file while it is written to; -1 when there is none."""
        return self._file

    @property
    def path(self) -> Path | None:
        """Where the file is or will be, whether anything is in it or not."""
        return self._spill

    def move(self, to: Path) -> None:
        """The file is to be there, whether it has been begun or not."""
        if self._file >= 0:
            assert self._spill is not None
            self._spill.rename(to)
        self._spill = to

    def look(self) -> None:
        """Takes up what came on another way than `feed`; here nothing does."""

    def feed(self, data: bytes | memoryview) -> None:
        if self._file < 0 and self.size <= 2 * self.keep_bytes < self.size + len(data):
            self.save()
        self.size += len(data)
        room = self.keep_bytes - len(self.head)
        if room > 0:
            self.head += data[:room]
        if self._file >= 0:
            # The file has it; copying it to a tail as well would cost as much as the writing.
            self._keep_tail(self._write(data))
        else:
            self._keep_tail(data[max(0, room) :])

    def take_from(self, pipe: int, most: int) -> int | None:
        """Moves bytes of a pipe into the file without a look at them; None where that cannot be.

        0 is the pipe's end. Raises BlockingIOError when the pipe is empty.
        """
        most = min(most, self.file_max_bytes - self.saved_bytes)
        if sys.platform != "linux" or not self.moves_unseen or self._file < 0 or most <= 0:
            return None
        try:
            moved = os.splice(pipe, self._file, most)
        except BlockingIOError:
            raise
        except OSError:
            # A full disk, or a file system without splice; writing finds out which.
            return None
        self.size += moved
        self.saved_bytes += moved
        return moved

    def save(self) -> None:
        """Puts what came so far into the file, which everything further follows."""
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
        """What came after the first `at` bytes: all of it, or its two ends, half of `most` each."""
        if self.size - at <= most:
            return self.span(at, self.size), b""
        return self.span(at, at + most // 2), self.span(self.size - most // 2, self.size)

    def span(self, begin: int, end: int) -> bytes:
        """The bytes between two places, without those that neither file nor memory has kept."""
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
            # Somebody has taken the file away; memory has its end.
            return b""

    def close(self) -> None:
        """Lets go of the file; head, tail and counts stay."""
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
        """Into the file; what could not go there is given back, and the file is closed."""
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
        """The disk is full, or not ours: what half a file takes is given back, others need it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        if self._spill is not None and self.saved_bytes:
            self._spill.unlink(missing_ok=True)
        self.saved_bytes = 0
        self._spill = None

"""An open file, read as numbered lines, in parts by offset, or backward from its end.

The file is never written. Lines end at LF; a CR before it is treated as white space around the
JSON. Memory use is constant except for a very long line.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any

from clew.core.messages.encoding import decode_object
from clew.record.transcript import light

# Small enough that the allocator reuses the same memory and no new pages are mapped.
BLOCK_SIZE_BYTES = 1 << 17
READ_AHEAD_BYTES = 1 << 17


class TranscriptSource:
    """A file with the length it had when opened; data appended later is not seen.

    Additional files are read as if they were appended to it.
    """

    def __init__(self, fd: int, *extra_fds: int) -> None:
        self._parts: list[tuple[int, int, int]] = []
        self.size = 0
        for descriptor in (fd, *extra_fds):
            begin, self.size = self.size, self.size + os.fstat(descriptor).st_size
            self._parts.append((begin, self.size, descriptor))
        self._ahead_at = 0
        self._ahead = b""

    def part(self, at: int, size: int) -> bytes:
        """Return `size` bytes from the offset `at`.

        More is read ahead, because the next part is usually the next line.
        """
        start = at - self._ahead_at
        if start < 0 or start + size > len(self._ahead):
            self._ahead = self.read(at, max(size, READ_AHEAD_BYTES))
            self._ahead_at, start = at, 0
        return self._ahead[start : start + size]

    def read(self, at: int, size: int) -> bytes:
        parts: list[bytes] = []
        for begin, end, fd in self._parts:
            while begin <= at < end and size > 0:
                part = os.pread(fd, min(size, end - at), at - begin)
                if not part:
                    break
                parts.append(part)
                at, size = at + len(part), size - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def lines(self, start: int, end: int | None = None) -> Iterator[tuple[int, int, bytes]]:
        """Yield the number (from 1), offset and bytes (without LF) of each line.

        `start` must be the offset at which a line begins.
        """
        number = 0
        for at, block in self.blocks(start, end):
            pieces = block.split(b"\n")
            if not pieces[-1]:
                pieces.pop()
            for piece in pieces:
                number += 1
                yield number, at, piece
                at += len(piece) + 1

    def blocks(self, start: int, end: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the offset and bytes of blocks of complete lines, with their LFs."""
        end = self.size if end is None else min(end, self.size)
        size = BLOCK_SIZE_BYTES
        while start < end:
            wanted = min(size, end - start)
            block = self.read(start, wanted)
            if len(block) < wanted:
                end = start + len(block)  # The file was truncated in the meantime.
            size = BLOCK_SIZE_BYTES
            if start + len(block) < end:
                line_end = block.rfind(b"\n") + 1
                if not line_end:
                    size = 2 * len(block)  # A single line may be as long as the file.
                    continue
                if line_end < len(block):
                    block = block[:line_end]
            if block:
                yield start, block
            start += len(block)

    def line_at(self, start: int) -> bytes:
        """Return the line that begins at `start`."""
        return next((raw for _, _, raw in self.lines(start)), b"")

    def last_line_with(
        self, needle: bytes, before: int, is_wanted: Callable[[bytes], bool] = bool
    ) -> int | None:
        """Return the offset of the last accepted line before `before` that contains `needle`.

        Return None if there is none.
        """
        while (position := self._find_back(needle, before)) is not None:
            start = self._line_start(position)
            if is_wanted(self.line_at(start)):
                return start
            before = start
        return None

    def _line_start(self, position: int) -> int:
        newline = self._find_back(b"\n", position)
        return 0 if newline is None else newline + 1

    def _find_back(self, needle: bytes, before: int) -> int | None:
        size = 4096
        while before > 0:
            start = max(0, before - size)
            block = self.read(start, before - start)
            if (
                needle in block
            ):  # Searching from the front is several times faster than from the end.
                return start + block.rfind(needle)
            # The needle may span two blocks.
            before = start + len(needle) - 1 if start else 0
            size = min(size * 4, BLOCK_SIZE_BYTES)
        return None


@contextmanager
def open_source(path: Path, copies: Iterable[Path] = ()) -> Iterator[TranscriptSource]:
    """Open a file followed by its recovery files, or only those if the file is missing."""
    with ExitStack() as opened:
        extra_files = [*_there(opened, [copy for copy in copies if copy != path])]
        # Open the file last: if a recovery file was deleted before, its lines are already in the file.
        try:
            files = [opened.enter_context(_opened(path)), *extra_files]
        except (FileNotFoundError, NotADirectoryError):
            if not extra_files:
                raise
            files = extra_files
        yield TranscriptSource(*(file.fileno() for file in files))


def _there(opened: ExitStack, paths: Iterable[Path]) -> Iterator[FileIO]:
    for path in paths:
        with suppress(FileNotFoundError):
            yield opened.enter_context(_opened(path))


def _opened(path: Path) -> FileIO:
    return FileIO(path, opener=light.at_once)


def entries_of(path: Path) -> list[dict[str, Any]]:
    """Return every entry in a file."""
    with open_source(path) as source:
        return [entry for _, _, raw in source.lines(0) if (entry := decode_object(raw))]

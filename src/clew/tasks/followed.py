"""The output of what runs elsewhere: a file that somebody else writes, read as it grows."""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from clew.config.regular import only_files
from clew.process.output import Output
from clew.tasks.lines import Lines

READ_BYTES = 1 << 16


class FollowedFile(Output):
    """`look` takes up what the file holds by now, and tells every line that came since it was opened."""

    __slots__ = ("_lines", "_told_bytes")

    def __init__(self, file: Path, *, keep_bytes: int, on_line: Callable[[str], object]) -> None:
        super().__init__(keep_bytes=keep_bytes, spill=file)
        self._lines = Lines(on_line)
        # A file that somebody took away, or that is none, is an output that has nothing to say.
        with suppress(OSError):
            descriptor = only_files(str(file), os.O_RDONLY | os.O_CLOEXEC)
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                self._file = descriptor
            else:
                os.close(descriptor)
        with suppress(OSError):
            self._take_up()
        self._told_bytes = self.size

    def look(self) -> None:
        self._take_up()
        while self._told_bytes < self.size:
            most = min(READ_BYTES, self.size - self._told_bytes)
            data = os.pread(self._file, most, self._told_bytes)
            self._lines.feed(data)
            # One that was cut meanwhile has nothing there.
            self._told_bytes += len(data) or most

    def close(self) -> None:
        self.look()
        self._lines.close()
        super().close()

    def _take_up(self) -> None:
        """How much there is; the beginning of it is kept as of any output."""
        if self._file >= 0:
            self.size = self.saved_bytes = max(self.size, os.fstat(self._file).st_size)
            have = len(self.head)
            if have < self.keep_bytes:
                self.head += os.pread(self._file, self.keep_bytes - have, have)

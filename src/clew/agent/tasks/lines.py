"""Program output that is also reported line by line, for monitors."""

from collections.abc import Callable
from pathlib import Path

from clew.system.process.output import ProcessOutput

LINE_MAX_BYTES = 2000


class TaskLines:
    """Passes each complete line, truncated to a limit, to `on_line`.

    An incomplete last line is passed on when the output is closed.
    """

    __slots__ = ("_on_line", "_rest")

    def __init__(self, on_line: Callable[[str], object]) -> None:
        self._on_line = on_line
        self._rest = b""

    def feed(self, data: bytes | memoryview) -> None:
        *lines, rest = bytes(data).split(b"\n")
        for line in lines:
            self._told(self._rest + line)
            self._rest = b""
        self._rest = (self._rest + rest)[:LINE_MAX_BYTES]

    def close(self) -> None:
        self._told(self._rest)
        self._rest = b""

    def _told(self, line: bytes) -> None:
        text = line[:LINE_MAX_BYTES].decode("utf-8", "replace").rstrip()
        if text:
            self._on_line(text)


class LineOutput(ProcessOutput):
    """Program output that is stored as usual and also reported as lines."""

    __slots__ = ("_lines",)

    def __init__(
        self,
        *,
        keep_bytes: int,
        spill: Path | None,
        file_max_bytes: int,
        on_line: Callable[[str], object],
    ) -> None:
        super().__init__(keep_bytes=keep_bytes, spill=spill, file_max_bytes=file_max_bytes)
        # Bytes that the kernel copies directly would never be seen here.
        self.moves_unseen = False
        self._lines = TaskLines(on_line)

    def feed(self, data: bytes | memoryview) -> None:
        super().feed(data)
        self._lines.feed(data)

    def close(self) -> None:
        self._lines.close()
        super().close()

r"""Lines of a byte stream: ended by LF, CRLF or CR, wherever the chunks were cut.

Only these bytes end a line. `str.splitlines` and text-mode iterators also cut at U+2028, U+0085 and
others, which are legal inside JSON strings; several clients lost events that way.
"""

# What a transport reads at once.
READ_SIZE_BYTES = 65_536


class Newlines:
    r"""Turns CRLF and CR into LF; a CRLF parted by a chunk boundary is one line end, not two."""

    __slots__ = ("_after_cr",)

    def __init__(self) -> None:
        self._after_cr = False

    def feed(self, chunk: bytes) -> bytes:
        if not chunk:
            return chunk
        if self._after_cr:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return chunk


class LineSplitter:
    """Bytes to lines without their ends. A line is handed out the moment its end arrives."""

    __slots__ = ("_newlines", "_rest")

    def __init__(self) -> None:
        self._newlines = Newlines()
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        first, *others = self._newlines.feed(chunk).split(b"\n")
        self._rest += first  # a bytearray grows in place: a line in many pieces costs its length
        if not others:
            return []
        lines = [bytes(self._rest), *others]
        self._rest = bytearray(lines.pop())
        return lines

    def close(self) -> list[bytes]:
        """The last line, if the stream ended without ending it."""
        rest, self._rest = bytes(self._rest), bytearray()
        return [rest] if rest else []

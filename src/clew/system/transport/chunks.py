r"""Find the end of a response body in bytes that are split anywhere. Does no I/O.

Owns the three framings of HTTP/1.1 (RFC 9112, 6 and 7): chunks, a length, the end of the
connection. The head, which is parsed elsewhere, decides which of them applies. A stream of events
arrives in tens of thousands of chunks per response, so a complete chunk costs only one search and
two slices. Malformed input is reported as a value: `fault` describes it once all data before it has
been returned.

Decision: docs/decisions/030-http-transport.md
"""

import re
from collections.abc import Mapping
from typing import Protocol

from clew.core.messages.text import format_count

MAX_LINES_BYTES = 16_384

_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,20})(?:;[^\n]*)?[ \t]*")
_BLANK_LINE = re.compile(rb"\n\r?\n")
_FOLD = re.compile(rb"\n[ \t]+")
_TRAILER = re.compile(rb"([-!#$%&'*+.^_`|~0-9a-zA-Z]+):(?:[^\0\s]|[ \t])*")
# Trailers with these names are rejected: they would contradict the framing in the head.
_OF_THE_HEAD = frozenset({b"content-length", b"transfer-encoding"})
_SIZES_KEPT, _HEAD_KEPT_BYTES = 1024, 8


class Body(Protocol):
    """The body of one response.

    Once `ended` or `fault` is set, it ignores further data. `rest` is the data after its end.
    """

    ended: bool
    fault: str
    rest: bytes

    def feed(self, data: bytes) -> bytes:
        """Return the part of the data that belongs to the body."""
        ...

    def close(self) -> None:
        """Handle the end of the connection."""
        ...


class Sized:
    """A body whose length is given in its head."""

    __slots__ = ("_left", "ended", "fault", "rest")

    def __init__(self, size: int) -> None:
        self._left = size
        self.ended = size == 0
        self.fault = ""
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        if self._left <= len(data):
            data, self.rest = data[: self._left], self.rest + data[self._left :]
            self.ended = True
        self._left -= len(data)
        return data

    def close(self) -> None:
        if not self.ended:
            missing = format_count(self._left, "byte of the body is", "bytes of the body are")
            self.fault = f"{missing} missing"


class UntilClosed:
    """A body that ends when the connection is closed."""

    __slots__ = ("ended", "fault", "rest")

    def __init__(self) -> None:
        self.ended = False
        self.fault = ""
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        return data

    def close(self) -> None:
        self.ended = True


class Chunked:
    """A body in chunks, with optional trailers."""

    __slots__ = ("_is_behind", "_left", "_sizes", "ended", "fault", "rest")

    def __init__(self) -> None:
        # Data that cannot be interpreted yet: the start of a line.
        self.rest = b""
        self.ended = False
        self.fault = ""
        # The unread bytes of the current chunk and its line end. 0 if a chunk head comes next.
        self._left = 0
        self._is_behind = False
        self._sizes: dict[bytes, int] = {}

    def feed(self, data: bytes) -> bytes:
        if self.ended or self.fault:
            self.rest += data
            return b""
        if self.rest:
            data, self.rest = self.rest + data, b""
        pieces: list[bytes] = []
        self.rest = data[0 if self._is_behind else self._chunks(data, pieces) :]
        if self._is_behind:
            self._behind()
        self._bound()
        return b"".join(pieces)

    def close(self) -> None:
        if not self.ended and not self.fault:
            self.fault = "the body ends before its last chunk"

    def _bound(self) -> None:
        if len(self.rest) > MAX_LINES_BYTES and not (self.ended or self.fault):
            self.fault = "a line between the chunks is too long"

    def _chunks(self, data: bytes, pieces: list[bytes]) -> int:
        """Consume chunks. The data may begin in the middle of a chunk.

        Return the index after the last chunk.
        """
        sizes = self._sizes
        at = self._within(data, 0, pieces)
        while not self._left and not self.fault and (stop := data.find(b"\r\n", at)) >= 0:
            head = data[at:stop]
            size = sizes.get(head, -1)
            if size < 0 and (size := self._size(head)) < 0:
                break
            stop += 2
            if size == 0:
                self._is_behind = True
                return stop
            at = stop + size
            if data[at : at + 2] == b"\r\n":
                pieces.append(data[stop:at])
                at += 2
            else:
                # The chunk is incomplete, or does not end where its size says.
                self._left = size + 2
                at = self._within(data, stop, pieces)
        return at

    def _size(self, head: bytes) -> int:
        """Return the size in a chunk's first line, or -1 if it is invalid."""
        match = _CHUNK.fullmatch(head)
        if match is None:
            self.fault = f"invalid chunk size line: {head[:100]!r}"
            return -1
        size = int(match[1], 16)
        if len(self._sizes) < _SIZES_KEPT and len(head) <= _HEAD_KEPT_BYTES:
            self._sizes[head] = size
        return size

    def _within(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        """Consume the rest of a chunk and its line end, as far as they were received.

        Return the index after them.
        """
        if self._left > 2:
            piece = data[at : at + self._left - 2]
            pieces.append(piece)
            self._left -= len(piece)
            at += len(piece)
        if 0 < self._left <= 2:
            ending = data[at : at + self._left]
            if not b"\r\n"[-self._left :].startswith(ending):
                self.fault = f"unexpected data after a chunk: {ending!r}"
                return at
            self._left -= len(ending)
            at += len(ending)
        return at

    def _behind(self) -> None:
        """Parse the trailers after the last chunk, once they are complete."""
        for end in (b"\n", b"\r\n"):
            if self.rest.startswith(end):
                self.rest = self.rest[len(end) :]
                self.ended = True
                return
        match = _BLANK_LINE.search(self.rest)
        if match is None:
            return
        lines, self.rest = self.rest[: match.start()], self.rest[match.end() :]
        for line in _FOLD.sub(b" ", lines.replace(b"\r\n", b"\n")).removesuffix(b"\r").split(b"\n"):
            trailer = _TRAILER.fullmatch(line)
            if trailer is None or trailer[1].lower() in _OF_THE_HEAD:
                self.fault = f"invalid line after the last chunk: {line[:100]!r}"
                return
        self.ended = True


def body_of(method: str, status: int, headers: Mapping[str, str]) -> Body:
    """Return the body for a head with validated lengths."""
    if method == "HEAD" or status in (204, 304):
        return Sized(0)
    if "transfer-encoding" in headers:
        return Chunked()
    if "content-length" in headers:
        return Sized(int(headers["content-length"].partition(",")[0]))
    return UntilClosed()

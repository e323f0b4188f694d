r"""Where the body of an answer ends, told from bytes cut anywhere. Pure.

Owns the three framings of HTTP/1.1 (RFC 9112, 6 and 7): chunks, a length, the end of the connection. The
head is another's to read, and decides which one it is. Chunks are what a stream of events comes in, tens of
thousands of them in an answer: a whole one costs a search and two slices.

Malformed input is a value: `fault` says what is wrong, once all that came before it has been handed out.

Decision: docs/decisions/030-http-transport.md
"""

import re
from collections.abc import Mapping
from typing import Protocol

MAX_LINES_BYTES = 16_384

_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,20})(?:;[^\n]*)?[ \t]*")
_BLANK_LINE = re.compile(rb"\n\r?\n")
_FOLD = re.compile(rb"\n[ \t]+")
_TRAILER = re.compile(rb"([-!#$%&'*+.^_`|~0-9a-zA-Z]+):(?:[^\0\s]|[ \t])*")
# Who reads on behind the body must not be told another end of it than this one.
_OF_THE_HEAD = frozenset({b"content-length", b"transfer-encoding"})
_SIZES_KEPT, _HEAD_KEPT_BYTES = 1024, 8


class Body(Protocol):
    """One body. After it `ended`, or has a `fault`, nothing more is taken; `rest` is what came behind its end."""

    ended: bool
    fault: str
    rest: bytes

    def feed(self, data: bytes) -> bytes:
        """What of this is the body."""
        ...

    def close(self) -> None:
        """The connection has ended."""
        ...


class Sized:
    """A body of a length that its head says."""

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
            self.fault = f"{self._left} bytes of the body are missing"


class UntilClosed:
    """A body that ends with the connection."""

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
    """A body in chunks, and what may stand behind the last of them."""

    __slots__ = ("_is_behind", "_left", "_sizes", "ended", "fault", "rest")

    def __init__(self) -> None:
        # Bytes that nothing can be said of yet: the beginning of a line.
        self.rest = b""
        self.ended = False
        self.fault = ""
        # Of the chunk that is being read, with the line end behind it; 0: its head comes next.
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
        """Takes chunks, the first of them perhaps from its middle on; where it stopped."""
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
                # Not all of it is here, or it does not end where it says.
                self._left = size + 2
                at = self._within(data, stop, pieces)
        return at

    def _size(self, head: bytes) -> int:
        """What the head of a chunk says; below 0 where it is none."""
        match = _CHUNK.fullmatch(head)
        if match is None:
            self.fault = f"illegal chunk head {head[:100]!r}"
            return -1
        size = int(match[1], 16)
        if len(self._sizes) < _SIZES_KEPT and len(head) <= _HEAD_KEPT_BYTES:
            self._sizes[head] = size
        return size

    def _within(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        """Takes the rest of a chunk that has begun, and its line end, as far as they are here; where it stopped."""
        if self._left > 2:
            piece = data[at : at + self._left - 2]
            pieces.append(piece)
            self._left -= len(piece)
            at += len(piece)
        if 0 < self._left <= 2:
            ending = data[at : at + self._left]
            if not b"\r\n"[-self._left :].startswith(ending):
                self.fault = f"a chunk is followed by {ending!r}"
                return at
            self._left -= len(ending)
            at += len(ending)
        return at

    def _behind(self) -> None:
        """Reads what stands behind the last chunk, once all of it is here."""
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
                self.fault = f"illegal line behind the last chunk {line[:100]!r}"
                return
        self.ended = True


def body_of(method: str, status: int, headers: Mapping[str, str]) -> Body:
    """The body that a head announces; it was looked at before whether its lengths make sense."""
    if method == "HEAD" or status in (204, 304):
        return Sized(0)
    if "transfer-encoding" in headers:
        return Chunked()
    if "content-length" in headers:
        return Sized(int(headers["content-length"].partition(",")[0]))
    return UntilClosed()

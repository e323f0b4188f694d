r"""Split a stream of bytes into messages: one per line, or after a header with its length.

At most the unfinished message is kept in memory, up to the limit. A larger message is skipped and
reported with its beginning, in which its ID can be found. Only LF ends a line, and a CR before it
is dropped, because other line ends are legal inside JSON.
"""

from typing import Protocol

from msgspec import Struct

HEAD_BYTES = 512
MAX_HEADER_BYTES = 8192
_END = b"\r\n\r\n"


class Unframed(Struct, frozen=True, kw_only=True):
    """Bytes that were skipped because they are not a message or are too large.

    `head` is their beginning. If `is_too_large`, they may have been a valid message.
    """

    why: str
    head: bytes
    is_too_large: bool = False


class Framing(Protocol):
    """A framing, which takes bytes that are split anywhere, and returns the messages' payloads."""

    def feed(self, chunk: bytes) -> list[bytes | Unframed]: ...

    def close(self) -> list[bytes | Unframed]: ...


class LineFraming:
    """One message per line. Empty lines are skipped."""

    __slots__ = ("_head", "_max_bytes", "_rest")

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._rest = bytearray()
        # The beginning of a line that is being skipped.
        self._head: bytes | None = None

    def feed(self, chunk: bytes) -> list[bytes | Unframed]:
        first, *others = chunk.split(b"\n")
        out: list[bytes | Unframed] = []
        self._more(first)
        if not others:
            return out
        last = others.pop()
        for line in (self._line(), *(self._whole(line) for line in others)):
            if line is not None:
                out.append(line)
        self._more(last)
        return out

    def close(self) -> list[bytes | Unframed]:
        """Return the last line if it is not terminated by a line end."""
        line = self._line()
        return [] if line is None else [line]

    def _more(self, piece: bytes) -> None:
        if self._head is not None:
            return
        self._rest += (
            piece  # A bytearray grows in place, so a line in many pieces costs only its length.
        )
        if len(self._rest) > self._max_bytes:
            self._head = bytes(self._rest[: min(HEAD_BYTES, self._max_bytes)])
            self._rest = bytearray()

    def _line(self) -> bytes | Unframed | None:
        """Return the line that has just ended and forget it; None if it is empty."""
        head, self._head = self._head, None
        if head is not None:
            return too_large(head, self._max_bytes)
        line, self._rest = bytes(self._rest), bytearray()
        return line.rstrip(b"\r") or None

    def _whole(self, line: bytes) -> bytes | Unframed | None:
        if len(line) > self._max_bytes:
            return too_large(line[: min(HEAD_BYTES, self._max_bytes)], self._max_bytes)
        return line.rstrip(b"\r") or None


class Headed:
    r"""Messages with headers: `Content-Length: N`, an empty line, N bytes.

    Other headers are ignored.
    """

    __slots__ = ("_expected", "_head", "_is_lost", "_max_bytes", "_rest", "_skipping")

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._rest = bytearray()
        # The length of the next body, or None while headers are read.
        self._expected: int | None = None
        # If a body is being skipped: the number of bytes still to come, and the body's beginning.
        self._skipping = 0
        self._head = b""
        # Whether the headers were too long, so that their end is being searched for.
        self._is_lost = False

    def feed(self, chunk: bytes) -> list[bytes | Unframed]:
        self._rest += chunk
        out: list[bytes | Unframed] = []
        while self._step(out):
            pass
        return out

    def close(self) -> list[bytes | Unframed]:
        rest, self._rest = bytes(self._rest), bytearray()
        if self._is_lost or (not rest and self._expected is None and not self._skipping):
            return []
        return [Unframed(why="the stream ended inside a message", head=rest[:HEAD_BYTES])]

    def _step(self, out: list[bytes | Unframed]) -> bool:
        """Consume one part of the buffer. Return False if that needs more bytes."""
        if self._is_lost:
            return self._find_end()
        if self._skipping:
            return self._skip(out)
        if self._expected is None:
            return self._header(out)
        if len(self._rest) < self._expected:
            return False
        out.append(bytes(self._rest[: self._expected]))
        del self._rest[: self._expected]
        self._expected = None
        return True

    def _header(self, out: list[bytes | Unframed]) -> bool:
        end = self._rest.find(_END, 0, MAX_HEADER_BYTES + len(_END))
        if end < 0:
            if len(self._rest) < MAX_HEADER_BYTES + len(_END):
                return False
            out.append(Unframed(why="unterminated headers", head=bytes(self._rest[:HEAD_BYTES])))
            self._is_lost = True
            return True
        header = bytes(self._rest[:end])
        del self._rest[: end + len(_END)]
        length = length_in(header)
        if length is None:
            out.append(Unframed(why="headers without a length", head=header[:HEAD_BYTES]))
        elif length > self._max_bytes:
            self._skipping, self._head = length, b""
        else:
            self._expected = length
        return True

    def _find_end(self) -> bool:
        end = self._rest.find(_END)
        self._is_lost = end < 0
        # The end marker may start in the last bytes.
        del self._rest[: end + len(_END) if end >= 0 else max(0, len(self._rest) - len(_END) + 1)]
        return not self._is_lost

    def _skip(self, out: list[bytes | Unframed]) -> bool:
        count = min(self._skipping, len(self._rest))
        self._head += bytes(self._rest[: min(count, HEAD_BYTES - len(self._head))])
        del self._rest[:count]
        self._skipping -= count
        if self._skipping:
            return False
        out.append(too_large(self._head, self._max_bytes))
        return True


def too_large(head: bytes, max_bytes: int) -> Unframed:
    return Unframed(why=f"a message of more than {max_bytes} bytes", head=head, is_too_large=True)


def length_in(header: bytes) -> int | None:
    """Return the length from the last header that has one, ignoring garbage before it, or None."""
    length: int | None = None
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        digits = value.strip()
        # A number with more digits is not a length, and converting it could take forever.
        if name.strip().lower() == b"content-length" and digits.isdigit() and len(digits) < 16:
            length = int(digits)
    return length


def as_line(payload: bytes) -> bytes:
    """Return a payload with a line end added. The payload must not contain one."""
    return payload + b"\n"


def with_header(payload: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(payload), payload)

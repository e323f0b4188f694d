"""Decode the content-encoding of a body as it arrives.

It is an error if the body ends before its encoded data is complete.
"""

import zlib
from typing import Protocol

from clew.system.transport.seam import TransportError

# The most data returned at once. Decoding it delays other tasks.
PIECE_BYTES = 65_536
# A few bytes can expand to gigabytes. After the first megabyte, a real response grows at most by
# this factor.
MOST_GROWTH = 100
FREE_BYTES = 1 << 20


class BodyDecoder(Protocol):
    """Decodes a body piece by piece.

    `feed` returns the data decoded so far. While `has_more` is true, feeding `b""` returns more
    data.
    """

    @property
    def has_more(self) -> bool: ...

    def feed(self, data: bytes) -> bytes: ...

    def close(self) -> bytes: ...


class Identity:
    """A body without encoding."""

    has_more = False

    def feed(self, data: bytes) -> bytes:
        return data

    def close(self) -> bytes:
        return b""


class Foreign:
    """A body with an unsupported encoding.

    Only reading the body raises an error, because the head alone may be useful.
    """

    has_more = False

    def __init__(self, content_encoding: str) -> None:
        self._content_encoding = content_encoding

    def feed(self, data: bytes) -> bytes:
        del data
        raise TransportError(
            "content",
            f"the body has the encoding {self._content_encoding!r}, which was not requested",
        )

    def close(self) -> bytes:
        return b""


class Inflate:
    """A body compressed as gzip (also in several members), zlib, or raw deflate.

    Some servers send raw deflate under the name `deflate`.
    """

    def __init__(self, coding: str) -> None:
        self._coding = coding
        self._window_bits = zlib.MAX_WBITS | 16 if coding == "gzip" else zlib.MAX_WBITS
        self._inner = zlib.decompressobj(self._window_bits)
        self._begun = False
        self._held = b""
        self._first = b""
        self._is_full = False
        self._received_bytes = 0
        self._made_bytes = 0

    @property
    def has_more(self) -> bool:
        return self._is_full or bool(self._held)

    def feed(self, data: bytes) -> bytes:
        self._received_bytes += len(data)
        self._held += data
        out = bytearray()
        while self.has_more and len(out) < PIECE_BYTES:
            if self._inner.eof:
                # Another gzip member follows, or the padding that some servers append.
                self._held = self._held.lstrip(b"\0")
                if not self._held:
                    break
                self._inner = zlib.decompressobj(self._window_bits)
            out += self._inflate(PIECE_BYTES - len(out))
        return bytes(out)

    def _inflate(self, room: int) -> bytes:
        try:
            inflated = self._inner.decompress(self._held, room)
        except zlib.error as error:
            if self._begun or self._coding == "gzip":
                raise self._broken(str(error)) from error
            self._begun = True
            self._window_bits = -zlib.MAX_WBITS
            self._inner = zlib.decompressobj(self._window_bits)
            self._held = self._first + self._held
            return self._inflate(room)
        if not self._begun:
            # The header that distinguishes zlib from raw deflate has two bytes. Keep the first
            # until the second arrives.
            self._begun = self._received_bytes > 1
            self._first = self._held
        ended = self._inner.eof
        self._held = self._inner.unused_data if ended else self._inner.unconsumed_tail
        # All input may be used up while more output is still to come.
        self._is_full = len(inflated) == room and not ended
        self._made_bytes += len(inflated)
        if self._made_bytes > FREE_BYTES + MOST_GROWTH * self._received_bytes:
            raise self._broken(f"it expands to more than {MOST_GROWTH} times its size")
        return inflated

    def close(self) -> bytes:
        if self._received_bytes and not self._inner.eof:
            raise TransportError("truncated", f"the body ended inside its {self._coding} encoding")
        return b""

    def _broken(self, why: str) -> TransportError:
        return TransportError("content", f"the body is not valid {self._coding} ({why})")


def choose_decoder(content_encoding: str) -> BodyDecoder:
    """Return the decoder for a `content-encoding` header.

    The decoder for an unsupported encoding fails when the body is read.
    """
    codings = [c for c in content_encoding.lower().replace(",", " ").split() if c != "identity"]
    if not codings:
        return Identity()
    if len(codings) == 1 and codings[0] in ("gzip", "x-gzip", "deflate"):
        return Inflate("gzip" if "gzip" in codings[0] else "deflate")
    return Foreign(content_encoding)

"""Undoes a body's content-encoding as it comes; a body that ends inside its encoding is an error."""

import zlib
from typing import Protocol

from clew.transport.seam import TransportError

# What the bytes of one read may become: a few of them can be made to say gigabytes.
MAX_INFLATED_BYTES = 64 << 20


class Decoder(Protocol):
    def feed(self, data: bytes) -> bytes: ...

    def close(self) -> bytes: ...


class Identity:
    """Bytes as they are."""

    def feed(self, data: bytes) -> bytes:
        return data

    def close(self) -> bytes:
        return b""


class Foreign:
    """A coding that cannot be undone. Told to who reads the body: the head may be worth reading."""

    def __init__(self, content_encoding: str) -> None:
        self._content_encoding = content_encoding

    def feed(self, data: bytes) -> bytes:
        del data
        raise TransportError(
            "content", f"the body is encoded as {self._content_encoding!r}, which was not asked for"
        )

    def close(self) -> bytes:
        return b""


class Inflate:
    """gzip (several members too), zlib, and the bare deflate that some servers call by its name."""

    def __init__(self, coding: str) -> None:
        self._coding = coding
        self._window_bits = zlib.MAX_WBITS | 16 if coding == "gzip" else zlib.MAX_WBITS
        self._inner = zlib.decompressobj(self._window_bits)
        self._begun = False
        self._room = MAX_INFLATED_BYTES

    def feed(self, data: bytes) -> bytes:
        out: list[bytes] = []
        self._room = MAX_INFLATED_BYTES
        while data:
            if self._inner.eof:
                # Another gzip member follows, or the padding some servers leave.
                data = data.lstrip(b"\0")
                if not data:
                    break
                self._inner = zlib.decompressobj(self._window_bits)
            out.append(self._inflate(data))
            data = self._inner.unused_data
        return b"".join(out)

    def _inflate(self, data: bytes) -> bytes:
        try:
            inflated = self._inner.decompress(data, self._room)
        except zlib.error as error:
            if self._begun or self._coding == "gzip":
                raise self._broken(str(error)) from error
            self._begun = True
            self._window_bits = -zlib.MAX_WBITS
            self._inner = zlib.decompressobj(self._window_bits)
            return self._inflate(data)
        self._begun = True
        self._room -= len(inflated)
        if self._room <= 0 or self._inner.unconsumed_tail:
            raise self._broken(f"it grows beyond {MAX_INFLATED_BYTES} bytes at once")
        return inflated

    def close(self) -> bytes:
        if self._begun and not self._inner.eof:
            raise TransportError("truncated", f"the body ended inside its {self._coding} encoding")
        return b""

    def _broken(self, why: str) -> TransportError:
        return TransportError(
            "content", f"the body is not the {self._coding} its header says ({why})"
        )


def decoder_for(content_encoding: str) -> Decoder:
    """The decoder for a `content-encoding` header; of what it cannot undo, one that says so."""
    codings = [c for c in content_encoding.lower().replace(",", " ").split() if c != "identity"]
    if not codings:
        return Identity()
    if len(codings) == 1 and codings[0] in ("gzip", "x-gzip", "deflate"):
        return Inflate("gzip" if "gzip" in codings[0] else "deflate")
    return Foreign(content_encoding)

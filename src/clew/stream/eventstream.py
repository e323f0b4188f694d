"""The binary frames of AWS event streams (`application/vnd.amazon.eventstream`), from any cuts.

A frame: total length, length of the headers, CRC-32 of these eight bytes; headers; payload; CRC-32
of all before it. All numbers big-endian. A frame that lies about itself ends the stream: after it
nobody knows where the next one begins.
"""

import struct
from binascii import crc32
from typing import TypeAlias

from msgspec import Struct

from clew.stream.events import StreamFault, excerpt

HeaderValue: TypeAlias = bool | int | bytes | str

_PRELUDE = struct.Struct(">III")
_CRC = struct.Struct(">I")
_LEAST_BYTES = _PRELUDE.size + _CRC.size
_LENGTH = struct.Struct(">H")

# Header types of a fixed width, by number: byte, short, integer, long, timestamp (milliseconds).
_NUMBERS = {
    2: struct.Struct(">b"),
    3: struct.Struct(">h"),
    4: struct.Struct(">i"),
    5: struct.Struct(">q"),
    8: struct.Struct(">q"),
}
_TRUE, _FALSE, _BYTES, _STRING, _UUID = 0, 1, 6, 7, 9
_UUID_BYTES = 16


class Frame(Struct, frozen=True):
    """One frame whose two checksums are right."""

    headers: dict[str, HeaderValue]
    payload: bytes


class FrameDecoder:
    """Bytes to frames. Memory: the bytes of the unfinished frame; no limit but the caller's."""

    __slots__ = ("_ended", "_max_frame_bytes", "_rest")

    def __init__(self, *, max_frame_bytes: int | None = None) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._rest = bytearray()  # begins at the beginning of a frame
        self._ended = False

    def feed(self, chunk: bytes) -> list[Frame | StreamFault]:
        if self._ended:
            return []
        self._rest += chunk
        frames: list[Frame | StreamFault] = []
        at = 0
        while not self._ended and (size := self._size_of_frame(at)):
            if isinstance(size, StreamFault):
                frame: Frame | StreamFault = size
            else:
                frame = _frame(bytes(self._rest[at : at + size]))
                at += size
            self._ended = isinstance(frame, StreamFault)
            frames.append(frame)
        del self._rest[:at]
        return frames

    def close(self) -> list[Frame | StreamFault]:
        rest, self._rest = bytes(self._rest), bytearray()
        if self._ended or not rest:
            return []
        self._ended = True
        message = f"the stream ended inside a frame, after {len(rest)} bytes of it"
        return [StreamFault(kind="unfinished_event", message=message, excerpt=excerpt(rest))]

    def _size_of_frame(self, at: int) -> int | StreamFault:
        """The length of the whole frame at `at`, 0 if it is not all here, a fault if it lies."""
        if len(self._rest) - at < _PRELUDE.size:
            return 0
        size, headers_size, crc = _PRELUDE.unpack_from(self._rest, at)
        prelude = bytes(self._rest[at : at + _PRELUDE.size])
        if crc32(prelude[:8]) != crc:
            return _bad("the checksum of a frame's lengths is wrong", prelude)
        if size < _LEAST_BYTES + headers_size:
            return _bad(f"a frame of {size} bytes with {headers_size} of headers", prelude)
        if self._max_frame_bytes is not None and size > self._max_frame_bytes:
            message = f"a frame of {size} bytes, more than {self._max_frame_bytes}"
            return StreamFault(kind="event_too_large", message=message)
        whole: int = size if len(self._rest) - at >= size else 0
        return whole


def _frame(data: bytes) -> Frame | StreamFault:
    end = len(data) - _CRC.size
    if crc32(data[:end]) != _CRC.unpack_from(data, end)[0]:
        return _bad("the checksum of a frame is wrong", data)
    end_of_headers = _PRELUDE.size + _PRELUDE.unpack_from(data)[1]
    try:
        headers = _headers(data[_PRELUDE.size : end_of_headers])
    except (ValueError, IndexError, struct.error) as error:
        return _bad(f"the headers of a frame cannot be read: {error}", data)
    return Frame(headers, data[end_of_headers:end])


def _headers(data: bytes) -> dict[str, HeaderValue]:
    headers: dict[str, HeaderValue] = {}
    at = 0
    while at < len(data):
        end_of_name = at + 1 + data[at]
        name = data[at + 1 : end_of_name].decode("utf-8")
        value, at = _value(data, data[end_of_name], end_of_name + 1)
        if name in headers:
            raise ValueError(f"{name!r} twice")
        headers[name] = value
    return headers


def _value(data: bytes, kind: int, at: int) -> tuple[HeaderValue, int]:
    """The value of type `kind` that begins at `at`, and where the next header begins."""
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, at
    if kind in _NUMBERS:
        layout = _NUMBERS[kind]
        return layout.unpack_from(data, at)[0], at + layout.size
    if kind == _UUID:
        size = _UUID_BYTES
    elif kind in (_BYTES, _STRING):
        size = _LENGTH.unpack_from(data, at)[0]
        at += _LENGTH.size
    else:
        raise ValueError(f"a value of type {kind}")
    if at + size > len(data):
        raise ValueError("a value longer than all headers")
    value = data[at : at + size]
    return value.decode("utf-8") if kind == _STRING else value, at + size


def _bad(message: str, data: bytes) -> StreamFault:
    return StreamFault(kind="bad_frame", message=message, excerpt=excerpt(data[:64]))

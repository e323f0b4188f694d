"""Parse the binary frames of AWS event streams (`application/vnd.amazon.eventstream`).

A frame consists of the total length, the header length and the CRC-32 of these eight bytes, then
headers, payload, and the CRC-32 of everything before it. All numbers are big-endian. Input may be
split anywhere. An inconsistent frame ends the stream, because the start of the next one is unknown.
"""

import struct
from base64 import b64decode, b64encode
from binascii import crc32
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from clew.core.json_object import Json
from clew.core.messages.text import format_count
from clew.core.stream.events import StreamFault, make_excerpt
from clew.core.stream.json_pieces import parse_object

# Payloads that a platform wraps as `{"bytes": "<base64>"}` inside its frames.


Side: TypeAlias = Literal["client", "server"]

# The side that sends each kind of event on a two-way stream.
KINDS: dict[str, Side] = {
    "ContinuedUserInput": "client",
    "ToolResultBlock": "client",
    "ConversationTurnInput": "client",
    "ContentBlockDelta": "server",
    "ToolUseRequest": "server",
    "Error": "server",
    "Metadata": "server",
}


def wrap(value: Json) -> Json:
    data = b64encode(msgspec.json.encode(value)).decode("ascii")
    return {"bytes": data, "encoding": "base64"}


def unwrap(payload: Json) -> Json | StreamFault:
    """Decode the object wrapped in a payload, whatever its kind; an invalid payload is a fault."""
    data = payload.get("bytes")
    if not isinstance(data, str):
        return _fault("payload without `bytes`", payload)
    if payload.get("encoding", "base64") != "base64":
        return _fault("payload with an encoding other than base64", payload)
    try:
        return parse_object(b64decode(data, validate=True))
    except ValueError:  # invalid character or padding, or not ASCII
        return _fault("payload is not valid base64", payload)


def side_of(value: Json) -> Side | None:
    """Return the side that sends this event, or None for an unknown kind."""
    kind = value.get("type")
    return KINDS.get(kind) if isinstance(kind, str) else None


def _fault(message: str, payload: Any) -> StreamFault:
    return StreamFault(kind="bad_payload", message=message, excerpt=make_excerpt(repr(payload)))


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
    """One frame with valid checksums."""

    headers: dict[str, HeaderValue]
    payload: bytes


class FrameDecoder:
    """A parser that turns bytes into frames.

    Only the unfinished frame is buffered. The caller may limit the size of a frame.
    """

    __slots__ = ("_ended", "_max_frame_bytes", "_rest")

    def __init__(self, *, max_frame_bytes: int | None = None) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._rest = bytearray()  # starts at a frame boundary
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
        message = f"the stream ended {format_count(len(rest), 'byte')} into a frame"
        return [StreamFault(kind="unfinished_event", message=message, excerpt=make_excerpt(rest))]

    def _size_of_frame(self, at: int) -> int | StreamFault:
        """Return the length of the frame at `at`, 0 if incomplete, or a fault if invalid."""
        if len(self._rest) - at < _PRELUDE.size:
            return 0
        size, headers_size, crc = _PRELUDE.unpack_from(self._rest, at)
        prelude = bytes(self._rest[at : at + _PRELUDE.size])
        if crc32(prelude[:8]) != crc:
            return _bad("the checksum of a frame's lengths is wrong", prelude)
        if size < _LEAST_BYTES + headers_size:
            return _bad(
                f"frame of {size} bytes is too short for {headers_size} bytes of headers", prelude
            )
        if self._max_frame_bytes is not None and size > self._max_frame_bytes:
            message = f"frame of {size} bytes, more than the limit of {self._max_frame_bytes}"
            return StreamFault(kind="event_too_large", message=message)
        frame_size: int = size if len(self._rest) - at >= size else 0
        return frame_size


def _frame(data: bytes) -> Frame | StreamFault:
    end = len(data) - _CRC.size
    if crc32(data[:end]) != _CRC.unpack_from(data, end)[0]:
        return _bad("the checksum of a frame is wrong", data)
    end_of_headers = _PRELUDE.size + _PRELUDE.unpack_from(data)[1]
    try:
        headers = _headers(data[_PRELUDE.size : end_of_headers])
    except (ValueError, IndexError, struct.error) as error:
        return _bad(f"invalid headers in a frame: {error}", data)
    return Frame(headers, data[end_of_headers:end])


def _headers(data: bytes) -> dict[str, HeaderValue]:
    headers: dict[str, HeaderValue] = {}
    at = 0
    while at < len(data):
        end_of_name = at + 1 + data[at]
        name = data[at + 1 : end_of_name].decode("utf-8")
        value, at = _value(data, data[end_of_name], end_of_name + 1)
        if name in headers:
            raise ValueError(f"duplicate header {name!r}")
        headers[name] = value
    return headers


def _value(data: bytes, kind: int, at: int) -> tuple[HeaderValue, int]:
    """Return the value of type `kind` at `at`, and the position of the next header."""
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
        raise ValueError(f"unknown value type {kind}")
    if at + size > len(data):
        raise ValueError("value extends past the end of the headers")
    value = data[at : at + size]
    return value.decode("utf-8") if kind == _STRING else value, at + size


def _bad(message: str, data: bytes) -> StreamFault:
    return StreamFault(kind="bad_frame", message=message, excerpt=make_excerpt(data[:64]))


# Converts the frames of an AWS event stream to event dicts of the Messages API.


_ERROR_TYPES = {
    "throttlingException": "rate_limit_error",
    "serviceUnavailableException": "overloaded_error",
    "internalServerException": "api_error",
    "modelStreamErrorException": "api_error",
    "modelTimeoutException": "timeout_error",
    "validationException": "invalid_request_error",
    "accessDeniedException": "permission_error",
    "resourceNotFoundException": "not_found_error",
}


class FrameEventDecoder:
    """A decoder that turns the bytes of an AWS event stream into event dicts and faults.

    For server-sent events, use `decode.EventDecoder`.
    """

    __slots__ = ("_frames",)

    def __init__(self, *, max_frame_bytes: int | None = None) -> None:
        self._frames = FrameDecoder(max_frame_bytes=max_frame_bytes)

    def feed(self, chunk: bytes) -> list[Json | StreamFault]:
        return [event_of_frame(frame) for frame in self._frames.feed(chunk)]

    def close(self) -> list[Json | StreamFault]:
        return [event_of_frame(frame) for frame in self._frames.close()]


def event_of_frame(frame: Frame | StreamFault) -> Json | StreamFault:
    if isinstance(frame, StreamFault):
        return frame
    kind = frame.headers.get(":message-type", "event")
    if kind == "error":
        return _failure(frame.headers.get(":error-code"), frame.headers.get(":error-message"))
    body = parse_object(frame.payload) if frame.payload else {}
    if kind == "exception":
        payload = body.get("message") if isinstance(body, dict) else frame.payload
        return _failure(frame.headers.get(":exception-type"), payload)
    if isinstance(body, StreamFault):
        return body
    if frame.headers.get(":event-type", "chunk") == "chunk":
        return unwrap(body)
    return {"type": frame.headers[":event-type"], **body}


def _failure(name: object, payload: object) -> StreamFault:
    error_type = _ERROR_TYPES.get(str(name), str(name))
    message = (
        payload.decode("utf-8", "replace") if isinstance(payload, bytes) else str(payload or name)
    )
    error = {"type": error_type, "message": message}
    return StreamFault(kind="error_event", message=message, error_type=error_type, error=error)

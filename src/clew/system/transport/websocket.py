"""The client side of a WebSocket (RFC 6455): text messages, without extensions.

`WebSocketFrames` is a machine without I/O. `WebSocket` runs it over a byte channel, and is used
only for programs on this machine, so it needs no proxy and no TLS.
"""

import asyncio
import os
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha1
from typing import TypeAlias

import h11
from msgspec import Struct

from clew.system.transport.channel import ByteChannel
from clew.system.transport.connection import Trust, open_channel
from clew.system.transport.network import Network, Url
from clew.system.transport.seam import TransportError

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
FINAL, MASKED, RESERVED = 0x80, 0x80, 0x70
# Frames of these kinds are never split, and their payload is at most 125 bytes.
MAX_CONTROL_BYTES = 125
NORMAL, PROTOCOL_ERROR, TOO_LARGE = 1000, 1002, 1009


class WebSocketMessage(Struct, frozen=True, kw_only=True):
    """A complete message; text is UTF-8."""

    payload: bytes


class WebSocketPing(Struct, frozen=True, kw_only=True):
    """A check that this end still responds, to be answered with a pong."""

    payload: bytes


class WebSocketClosed(Struct, frozen=True, kw_only=True):
    """The end of the connection: the other end closed it, or broke the protocol.

    `code` is the status to close with.
    """

    code: int
    why: str = ""


WebSocketEvent: TypeAlias = WebSocketMessage | WebSocketPing | WebSocketClosed


class WebSocketFrames:
    """Reads the frames of a server. After `WebSocketClosed`, it ignores everything."""

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._rest = bytearray()
        # The parts of a message that is not complete; None between messages.
        self._parts: bytearray | None = None
        self._is_over = False

    def feed(self, chunk: bytes) -> list[WebSocketEvent]:
        events: list[WebSocketEvent] = []
        self._rest += chunk
        while not self._is_over and (event := self._next()) is not None:
            events += event
        return events

    def close(self) -> list[WebSocketEvent]:
        """Return the event for the end of the byte stream."""
        return [] if self._is_over else self._end(NORMAL, "the connection was closed")

    def _end(self, code: int, why: str) -> list[WebSocketEvent]:
        self._is_over = True
        self._rest, self._parts = bytearray(), None
        return [WebSocketClosed(code=code, why=why)]

    def _next(self) -> list[WebSocketEvent] | None:
        """Return the events of the next frame, or None if it has not arrived completely."""
        data = self._rest
        if len(data) < 2:
            return None
        first, second = data[0], data[1]
        kind, size, begin = first & 0x0F, second & 0x7F, 2
        if size >= 126:
            begin = 4 if size == 126 else 10
            if len(data) < begin:
                return None
            size = int.from_bytes(data[2:begin], "big")
        is_control, is_final = kind >= CLOSE, bool(first & FINAL)
        if first & RESERVED or second & MASKED or (is_control and not is_final):
            return self._end(PROTOCOL_ERROR, "an invalid frame")
        if size > (MAX_CONTROL_BYTES if is_control else self._max_bytes - len(self._parts or b"")):
            return self._end(TOO_LARGE, f"a frame of {size} bytes")
        if len(data) < begin + size:
            return None
        payload = bytes(data[begin : begin + size])
        del data[: begin + size]
        return self._take(kind, payload, is_final=is_final)

    def _take(self, kind: int, payload: bytes, *, is_final: bool) -> list[WebSocketEvent]:
        match kind:
            case 0x8:
                code = int.from_bytes(payload[:2], "big") if len(payload) >= 2 else NORMAL
                return self._end(code, payload[2:].decode("utf-8", "replace"))
            case 0x9:
                return [WebSocketPing(payload=payload)]
            case 0xA:
                return []
            case 0x0 | 0x1 | 0x2 if (kind == CONTINUATION) == (self._parts is not None):
                self._parts = (self._parts or bytearray()) + payload
                if not is_final:
                    return []
                whole, self._parts = bytes(self._parts), None
                return [WebSocketMessage(payload=whole)]
            case _:
                return self._end(PROTOCOL_ERROR, "an invalid frame")


def encode_frame(kind: int, payload: bytes, mask: bytes) -> bytes:
    """Return a frame of a client, masked with four random bytes as the protocol requires."""
    size = len(payload)
    if size < 126:
        head = bytes((FINAL | kind, MASKED | size))
    elif size < 1 << 16:
        head = bytes((FINAL | kind, MASKED | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((FINAL | kind, MASKED | 127)) + size.to_bytes(8, "big")
    keys = mask * (size // 4 + 1)
    masked = int.from_bytes(payload, "big") ^ int.from_bytes(keys[:size], "big")
    return head + mask + masked.to_bytes(size, "big")


# The answer to a key, by which a server shows that it speaks the protocol.
ACCEPT_SALT = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
MAX_HEAD_BYTES = 65_536
CONNECT_S = 5.0
CLOSING_S = 1.0


class WebSocket:
    """A connection to a WebSocket server on this machine."""

    def __init__(self, channel: ByteChannel, frames: WebSocketFrames, early: bytes) -> None:
        self._channel = channel
        self._frames = frames
        self._events = frames.feed(early)
        self._reading = asyncio.Lock()
        self._closed: WebSocketClosed | None = None
        self._has_said_goodbye = False

    @classmethod
    async def open(
        cls, port: int, headers: Sequence[tuple[str, str]], *, protocol: str, max_bytes: int
    ) -> "WebSocket":
        """Connect to a port on this machine. Raise `TransportError` if this fails."""
        url = Url(scheme="http", host="127.0.0.1", port=port, target="/")
        channel = await open_channel(url, None, Trust(Network()), timeout_s=CONNECT_S)
        is_open = False
        try:
            async with asyncio.timeout(CONNECT_S):
                early = await shake_hands(channel, url, headers, protocol)
            is_open = True
        except TimeoutError as error:
            raise TransportError(
                "connect_timeout", f"no response from {url.host_and_port} within {CONNECT_S:g} s"
            ) from error
        except OSError as error:
            raise TransportError(
                "reset", f"{url.host_and_port} closed the connection ({error})"
            ) from error
        finally:
            if not is_open:
                channel.abort()
        return cls(channel, WebSocketFrames(max_bytes=max_bytes), early)

    def send(self, payload: bytes) -> None:
        """Send a text message; `payload` is UTF-8."""
        self._put(TEXT, payload)

    def _put(self, kind: int, payload: bytes) -> None:
        self._channel.send(encode_frame(kind, payload, os.urandom(4)))

    async def receive(self) -> bytes | WebSocketClosed:
        """Return the next message, or the reason why there are no more."""
        async with self._reading:
            while self._closed is None:
                while self._events:
                    event = self._events.pop(0)
                    match event:
                        case WebSocketMessage():
                            return event.payload
                        case WebSocketPing():
                            self._put(PONG, event.payload)
                        case WebSocketClosed():
                            self._say_goodbye(event.code)
                            self._closed = event
                            return event
                try:
                    data = await self._channel.receive()
                except OSError as error:
                    self._closed = WebSocketClosed(code=NORMAL, why=error.strerror or str(error))
                else:
                    self._events = self._frames.feed(data) if data else self._frames.close()
            return self._closed

    def _say_goodbye(self, code: int) -> None:
        if not self._has_said_goodbye:
            self._has_said_goodbye = True
            self._put(CLOSE, code.to_bytes(2, "big"))

    async def aclose(self) -> None:
        """Close the connection, and give the server a moment to do the same."""
        self._say_goodbye(NORMAL)
        try:
            async with asyncio.timeout(CLOSING_S):
                while isinstance(await self.receive(), bytes):
                    pass
        except TimeoutError:
            pass
        finally:
            self._channel.abort()


async def shake_hands(
    channel: ByteChannel, url: Url, headers: Sequence[tuple[str, str]], protocol: str
) -> bytes:
    """Switch a connection to the WebSocket protocol, and return what came after the response."""
    key = b64encode(os.urandom(16))
    fields = [
        ("Host", url.host_and_port),
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Key", key.decode("ascii")),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Protocol", protocol),
        *headers,
    ]
    where = url.host_and_port
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
    try:
        request = h11.Request(method="GET", target=url.target, headers=fields)
        channel.send((http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b""))
        while (event := http.next_event()) is h11.NEED_DATA:
            http.receive_data(await channel.receive())
    except h11.ProtocolError as error:
        raise TransportError("protocol", f"{where} does not speak HTTP ({error})") from error
    if not isinstance(event, h11.InformationalResponse):
        status = int(event.status_code) if isinstance(event, h11.Response) else None
        answer = "closed the connection" if status is None else f"responded with HTTP {status}"
        raise TransportError("protocol", f"{where} {answer} instead of opening a WebSocket", status)
    accepted = dict(event.headers).get(b"sec-websocket-accept")
    expected = b64encode(sha1(key + ACCEPT_SALT, usedforsecurity=False).digest())
    if event.status_code != 101 or accepted != expected:
        raise TransportError(
            "protocol", f"{where} sent an invalid response to the WebSocket handshake"
        )
    return http.trailing_data[0]

"""A byte channel over an asyncio transport. It returns received data before it raises errors.

`asyncio.StreamReader` raises a connection reset before it returns the data received earlier. That
data matters if a server rejects a large request early and then resets the connection.
"""

import asyncio
import ssl
from typing import Any

HIGH_WATER_BYTES = 1 << 20


class ByteChannel(asyncio.Protocol):
    """The received bytes of one connection, followed by `b""` or the error that ended it."""

    def __init__(self) -> None:
        self.bytes_received = 0
        self.ended = False
        self._error: Exception | None = None
        self._arrived: list[bytes] = []
        self._waiting_bytes = 0
        self._paused = False
        self._waiter: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.bytes_received += len(data)
        self._arrived.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes > HIGH_WATER_BYTES and self._transport is not None:
            self._transport.pause_reading()
            self._paused = True
        self._wake()

    def eof_received(self) -> None:
        self.ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True
        self._error = self._error or exc
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # Called by the exchange.

    @property
    def quiet(self) -> bool:
        """True if the connection can be reused: open, all written, nothing unexpected received."""
        return self.open_and_written and not self._arrived

    @property
    def open_and_written(self) -> bool:
        transport = self._transport
        return not self.ended and transport is not None and transport.get_write_buffer_size() == 0

    def about(self, what: str) -> Any:
        """Return information from the transport, such as `ssl_object` or `peername`."""
        return None if self._transport is None else self._transport.get_extra_info(what)

    async def receive(self) -> bytes:
        """Wait for data and return all of it, or return `b""` at the end.

        Raise the error of a connection that failed.
        """
        while not self._arrived:
            if self.ended:
                if self._error is not None:
                    raise self._error
                return b""
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self.take_arrived()

    def take_arrived(self) -> bytes:
        """Return the data already received, possibly nothing."""
        data = self._arrived[0] if len(self._arrived) == 1 else b"".join(self._arrived)
        self._arrived.clear()
        self._waiting_bytes = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return data

    def send(self, data: bytes) -> None:
        """Queue data to be sent.

        The caller can read in the meantime, because the response may arrive early.
        """
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    async def start_tls(self, context: ssl.SSLContext, server_name: str) -> None:
        """Start TLS on the connection, possibly inside a proxy's tunnel or inside TLS."""
        assert self._transport is not None
        below = self._transport
        secured = await asyncio.get_running_loop().start_tls(
            below, self, context, server_hostname=server_name
        )
        if secured is None:
            raise ConnectionResetError("the connection ended during the TLS handshake")
        self._transport = secured

    def abort(self) -> None:
        """Close the connection immediately. Idempotent."""
        self.ended = True
        if self._transport is not None:
            self._transport.abort()

"""The server side of HTTP/1.1: requests are parsed by h11, responses are written by hand.

Well-behaved libraries cannot cut, reset or garble an answer at any byte, as scenarios require. This
module must never interpret a request.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any, TypeVar

import h11
from msgspec import Struct

from clew.system.config.mask import LEAST_CHARS, is_secret_header

T = TypeVar("T")

READ_BYTES = 65536
HEAD_BYTES = 131072
LAST_CHUNK = b"0\r\n\r\n"


class ServedRequest(Struct, frozen=True, kw_only=True):
    """A request as received, including secrets. It never leaves the server in this form."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    keep_alive: bool

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


class BadRequest(Struct, frozen=True):
    """Invalid HTTP from the peer; `what` describes the error."""

    what: str


class HttpPeer:
    """A connection to a client, for reading requests and writing responses."""

    __slots__ = ("_reader", "_rest", "_writer")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._rest = b""

    async def next_request(self) -> ServedRequest | BadRequest | None:
        """Return the next request, or None at the end of the connection."""
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        if self._rest:
            connection.receive_data(self._rest)
        head: h11.Request | None = None
        body = bytearray()
        while True:
            try:
                event = connection.next_event()
            except h11.RemoteProtocolError as error:
                return BadRequest(str(error))
            match event:
                case h11.Request():
                    head = event
                case h11.Data():
                    body += event.data
                case h11.EndOfMessage() if head is not None:
                    self._rest = connection.trailing_data[0]
                    return _request(head, bytes(body))
                case h11.NEED_DATA:
                    if connection.they_are_waiting_for_100_continue:
                        await self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                    connection.receive_data(await self._reader.read(READ_BYTES))
                case _:
                    return None

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()
        # Let a reader in the same loop run, so that writes arrive one by one.
        await asyncio.sleep(0)

    async def unless_gone(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Run the work, but cancel it and return None as soon as the peer has disconnected."""
        answer: T | None = None
        try:
            async with asyncio.TaskGroup() as group:
                gone = group.create_task(self._until_gone())
                done = group.create_task(work)
                await asyncio.wait({gone, done}, return_when=asyncio.FIRST_COMPLETED)
                gone.cancel()
                done.cancel()
            answer = None if done.cancelled() else done.result()
        except* ConnectionError:
            answer = None
        return answer

    async def _until_gone(self) -> None:
        """Wait for the end of the peer's stream.

        A request that arrives in the meantime is kept for later.
        """
        try:
            while data := await self._reader.read(READ_BYTES):
                self._rest += data
        except ConnectionError:
            return

    def reset(self) -> None:
        """Close with RST instead of FIN, as a crashed server or a middlebox does."""
        connection = self._writer.get_extra_info("socket")
        if connection is not None and not self._writer.transport.is_closing():
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def close(self) -> None:
        self._writer.close()


def _request(head: h11.Request, body: bytes) -> ServedRequest:
    headers = [(k.decode("ascii"), v.decode("utf-8", "replace")) for k, v in head.headers]
    closing = any(k == "connection" and "close" in v.lower() for k, v in headers)
    return ServedRequest(
        method=head.method.decode("ascii"),
        target=head.target.decode("latin-1"),
        headers=headers,
        body=body,
        keep_alive=not closing and head.http_version != b"1.0",
    )


def mask_headers(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return headers that can be recorded: only the scheme and length of a secret remain."""
    return [(k, _mask(v) if is_secret_header(k) else v) for k, v in headers]


def find_secrets(headers: list[tuple[str, str]]) -> tuple[str, ...]:
    """Return the credentials of a request, without their schemes."""
    values = (value.rpartition(" ")[2] for name, value in headers if is_secret_header(name))
    return tuple(secret for secret in values if len(secret) >= LEAST_CHARS)


def _mask(value: str) -> str:
    scheme, space, secret = value.rpartition(" ")
    return f"{scheme}{space}***{len(secret)}"


def encode_response_head(status: int, headers: list[tuple[str, str]]) -> bytes:
    phrases = {s.value: s.phrase for s in HTTPStatus}
    lines = [f"HTTP/1.1 {status} {phrases.get(status, 'Overloaded' if status == 529 else 'Other')}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def encode_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


# Listen on 127.0.0.1 and serve each connection one exchange at a time.


class Listener:
    """A listening socket. `exchange` serves one request and returns whether another may follow."""

    def __init__(
        self, exchange: Callable[[HttpPeer], Coroutine[Any, Any, bool]], port: int = 0
    ) -> None:
        # The number of connections accepted so far.
        self.accepted = 0
        self._exchange = exchange
        self._port = port
        self._connections: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        self._opened = contextlib.AsyncExitStack()
        self._group: asyncio.TaskGroup | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def open_connections(self) -> int:
        return len(self._connections)

    async def wait_until_idle(self) -> None:
        """Return when every connection has ended."""
        await self._idle.wait()

    async def open(self) -> None:
        """Listen until `close`, which the same task must call."""
        self._group = await self._opened.enter_async_context(asyncio.TaskGroup())
        server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        self._opened.callback(self._cancel)
        self._opened.callback(server.close)
        self._port = server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening, and close every connection in whatever state it is."""
        await self._opened.aclose()

    def _cancel(self) -> None:
        self._group = None
        for connection in self._connections:
            connection.cancel()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a new connection.

        This is a callback instead of a coroutine, because asyncio would report the cancellation of
        a coroutine's task as an error.
        """
        if self._group is None:
            writer.close()
            return
        task = self._group.create_task(self._serve(reader, writer))
        self._connections.add(task)
        self._idle.clear()
        self.accepted += 1
        task.add_done_callback(self._ended)
        # A connection that was cancelled before it was served must be closed too.
        task.add_done_callback(lambda _: writer.close())

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        if not self._connections:
            self._idle.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = HttpPeer(reader, writer)
        try:
            while await self._exchange(peer):
                pass
        except ConnectionError:
            peer.reset()
        finally:
            peer.close()

"""The sandbox's only way to the network: an HTTP proxy on loopback for the hosts of the policy.

The proxy reads the head of a request, decides by the host name, and then passes bytes on without
reading them. A name that resolves to this machine or its local network is refused unless exactly
that name is allowed, because the owner of a domain decides what it resolves to.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable

from clew.system.sandbox.policy import SandboxPolicy
from clew.system.transport.addresses import is_public

MAX_HEAD_BYTES = 65_536
HEAD_WAIT_S = 30.0
CONNECT_WAIT_S = 30.0
PIECE_BYTES = 65_536
LOOPBACK = "127.0.0.1"


class ProxyRefusedError(Exception):
    """The proxy refuses a request. The message is the HTTP status to send."""


class SandboxProxy:
    """A proxy that serves listening sockets from any namespace.

    It calls `refused` with each host that it refuses.
    """

    def __init__(self, policy: SandboxPolicy, refused: Callable[[str], None]) -> None:
        self._policy = policy
        self._refused = refused

    async def listen(self) -> asyncio.Server:
        return await asyncio.start_server(self.serve, LOOPBACK, 0, limit=MAX_HEAD_BYTES)

    async def take(self, listening: socket.socket) -> asyncio.Server:
        """Serve a socket that is already listening, perhaps in another network namespace."""
        return await asyncio.start_server(self.serve, sock=listening, limit=MAX_HEAD_BYTES)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
        except (OSError, ProxyRefusedError, TimeoutError, asyncio.IncompleteReadError, ValueError):
            # The client has disconnected, or has received an error.
            pass
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_WAIT_S):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return
        method, target, rest = request_line(head)
        is_tunnel = method == b"CONNECT"
        try:
            host, port, path = split_target(target, is_tunnel=is_tunnel)
            theirs, ours = await self._connect(host, port)
        except ProxyRefusedError as refusal:
            writer.write(
                f"HTTP/1.1 {refusal}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
            )
            await writer.drain()
            return
        try:
            if is_tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                ours.write(method + b" " + path + b" " + forwarded(rest))
            await both_ways(reader, writer, theirs, ours)
        finally:
            ours.close()

    async def _connect(
        self, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if not self._policy.may_reach(host):
            self._refused(host)
            raise ProxyRefusedError("403 Not in sandbox.network.allowedDomains")
        try:
            async with asyncio.timeout(CONNECT_WAIT_S):
                address = await self._address(host, port)
                return await asyncio.open_connection(address, port)
        except (OSError, TimeoutError):
            raise ProxyRefusedError("502 Cannot connect to the host") from None

    async def _address(self, host: str, port: int) -> str:
        """Resolve a host, and return the only address to connect to.

        The host is not resolved again, so a different answer from the name server has no effect.
        """
        loop = asyncio.get_running_loop()
        getaddrinfo = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [str(entry[4][0]) for entry in getaddrinfo]
        is_listed = host.lower().rstrip(".") in self._policy.domains
        for address in addresses:
            if is_listed or is_public(address):
                return address
        self._refused(host)
        raise ProxyRefusedError("403 The host name resolves to a private address")


def request_line(head: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the method and the target of a request, and its head from the HTTP version on."""
    line, _, rest = head.partition(b"\r\n")
    method, target, version = line.split(b" ")
    return method, target, version + b"\r\n" + rest


def split_target(target: bytes, *, is_tunnel: bool) -> tuple[str, int, bytes]:
    """Return the host, the port and the path of a request's target."""
    text = target.decode("ascii")
    path = b"/"
    if not is_tunnel:
        if not text.lower().startswith("http://"):
            raise ProxyRefusedError("400 Not a proxy request")
        text, slash, after = text[7:].partition("/")
        path = (slash + after or "/").encode("ascii")
    host, _, port = text.rpartition(":") if ":" in text.rpartition("]")[2] else (text, "", "")
    if "@" in host or not (port or not is_tunnel):
        raise ProxyRefusedError("400 Not a proxy request")
    return host.strip("[]"), int(port or 80), path


def forwarded(rest: bytes) -> bytes:
    """Return the head to send to the host, without the headers that are meant for the proxy.

    The connection closes after one request.
    """
    version, _, lines = rest.partition(b"\r\n")
    kept_lines = [
        line
        for line in lines.split(b"\r\n")
        if not line.lower().startswith((b"proxy-", b"connection:", b"keep-alive:"))
    ]
    return b"\r\n".join([version, b"Connection: close", *kept_lines])


async def both_ways(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    theirs: asyncio.StreamReader,
    ours: asyncio.StreamWriter,
) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(passed(reader, ours))
        group.create_task(passed(theirs, writer))


async def passed(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await source.read(PIECE_BYTES):
            target.write(piece)
            await target.drain()
        if target.can_write_eof():
            target.write_eof()

"""The connections that carry the messages of one server, and their errors.

Each connection implements `ServerConnection`: open, wait for the end, close. The server may be a
child process, reached at a URL (with either of two transports), or part of the program that started
clew.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from clew.core.json_object import Json
from clew.core.messages.encoding import encode
from clew.core.messages.errors import ClewError, OutsideError
from clew.parts.mcp.client import ServerHost
from clew.parts.mcp.config import HttpServer, InProcessServer, StdioServer
from clew.parts.mcp.protocol import DIALECT, Agreement
from clew.system.jsonrpc import wire
from clew.system.jsonrpc.child import ChildLine
from clew.system.jsonrpc.connection import Connection, PeerHandler
from clew.system.jsonrpc.framing import LineFraming, as_line
from clew.system.process.spawn import Launcher
from clew.system.transport.seam import Exchange, Head, HttpRequest, Transport, TransportError

MAX_MESSAGE_BYTES = 32 << 20


class CannotReachError(OutsideError):
    """Raised when the server cannot be reached. If `is_final`, retrying would not help."""

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final


class UnauthorizedError(OutsideError):
    """Raised when the server requires a token; `challenge` is its `WWW-Authenticate` header."""

    def __init__(self, message: str, challenge: str = "") -> None:
        super().__init__(message)
        self.challenge = challenge


class ServerConnection(Protocol):
    """A connection to a server. An instance is used only once; to reconnect, create another."""

    @property
    def connection(self) -> Connection: ...

    async def open(self) -> None:
        """Open the connection. Raise `CannotReachError` or `UnauthorizedError` if this fails."""
        ...

    def settled(self, agreement: Agreement) -> None:
        """Receive the negotiated protocol, which some connections must repeat in every request."""
        ...

    async def ended(self) -> str:
        """Wait for the connection to end, and return why it ended."""
        ...

    async def aclose(self) -> None: ...


class StdioLine:
    """A connection to a server that runs as a child process."""

    def __init__(
        self,
        reach: StdioServer,
        host: PeerHandler,
        group: asyncio.TaskGroup,
        *,
        launcher: Launcher,
        cwd: str,
        environ: Mapping[str, str],
    ) -> None:
        self._reach = reach
        self._launcher = launcher
        self._cwd = reach.cwd or cwd
        self._environ = environ
        self._child = ChildLine(LineFraming(max_bytes=MAX_MESSAGE_BYTES), as_line)
        self.connection = Connection(self._child.send, host, DIALECT, group)

    async def open(self) -> None:
        argv = [self._reach.command, *self._reach.args]
        env = {**self._environ, **self._reach.env}
        try:
            await self._child.open(self._launcher, argv, cwd=self._cwd, env=env)
        except OSError as error:
            raise CannotReachError(f"cannot be started: {error}", is_final=True) from None
        self._child.listen(self.connection)

    def settled(self, agreement: Agreement) -> None:
        """Do nothing: messages sent over pipes do not repeat the protocol version."""

    async def ended(self) -> str:
        return await self._child.ended()

    async def aclose(self) -> None:
        self.connection.lose("the session closed the connection")
        await self._child.aclose()


# Shared by both HTTP transports: credentials, and the end of a connection.


class Credentials(Protocol):
    """The credentials for a server, as headers that are added to each request."""

    async def headers(self) -> Mapping[str, str]: ...

    async def renew(self, challenge: str) -> bool:
        """Replace the credentials that the server rejected.

        Return whether different ones are available.
        """
        ...


class WebLine:
    """Base class for connections over HTTP: sends each request with the current credentials.

    Subclasses set `connection`.
    """

    connection: Connection

    def __init__(
        self,
        reach: HttpServer,
        host: ServerHost,
        group: asyncio.TaskGroup,
        *,
        transport: Transport,
        credentials: Credentials,
    ) -> None:
        self._reach = reach
        self._host = host
        self._group = group
        self._transport = transport
        self._credentials = credentials
        self._version = ""
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def ended(self) -> str:
        return await asyncio.shield(self._over)

    async def _asked(
        self, method: str, url: str, headers: Mapping[str, str], message: Json | None
    ) -> tuple[Exchange, Head]:
        """Send a request; if its credentials are rejected, retry once with different ones."""
        for is_last in (False, True):
            exchange = await self._exchange(method, url, headers, message)
            done = False
            try:
                head = await exchange.open()
                challenge = head.headers.get("www-authenticate", "")
                wants_more = head.status == 403 and "insufficient_scope" in challenge
                done = head.status != 401 and not wants_more
                if done:
                    return exchange, head
            finally:
                if not done:
                    await exchange.close()
            if is_last or not await self._credentials.renew(challenge):
                raise UnauthorizedError(
                    f"the server requires authorization (status {head.status})", challenge
                )
        raise AssertionError

    async def _exchange(
        self, method: str, url: str, all_headers: Mapping[str, str], message: Json | None = None
    ) -> Exchange:
        # The protocol's headers override the user's.
        own = {
            k: v
            for k, v in (await self._credentials.headers()).items()
            if not clashes(k, all_headers)
        }
        body = b"" if message is None else encode(message)
        headers = tuple({**own, **all_headers}.items())
        return self._transport.exchange(
            HttpRequest(method=method, url=url, headers=headers, body=body)
        )

    def _end(self, error: CannotReachError | UnauthorizedError | TransportError) -> None:
        """End the connection with an error."""
        if isinstance(error, TransportError):
            error = CannotReachError(str(error), is_final=error.kind == "configuration")
        if not self._over.done():
            self._over.set_exception(error)
            # Mark the exception as retrieved, because possibly nothing waits for it.
            self._over.exception()
        self.connection.lose(str(error))


def kind(head: Head) -> str:
    return head.headers.get("content-type", "").partition(";")[0].strip().lower()


def clashes(name: str, headers: Mapping[str, str]) -> bool:
    return name.lower() in {key.lower() for key in headers}


# A server in the program that started clew, reached over that program's own channel.


ToHost: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[Any]]


class InProcessLine:
    """A connection to a server in the host program.

    `to_host` returns the response to a message, or raises `ClewError`.
    """

    def __init__(
        self,
        reach: InProcessServer,
        host: ServerHost,
        group: asyncio.TaskGroup,
        *,
        to_host: ToHost | None,
    ) -> None:
        self._name = reach.name
        self._to_host = to_host
        self._group = group
        self._queue: asyncio.Queue[Json] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.connection = Connection(self._queue.put_nowait, host, DIALECT, group)

    async def open(self) -> None:
        if self._to_host is None:
            raise CannotReachError("no host program runs this server", is_final=True)
        self._begin(self._sending(self._to_host))

    def settled(self, agreement: Agreement) -> None:
        """Do nothing: the host keeps track of the protocol itself."""

    async def ended(self) -> str:
        return await asyncio.shield(self._over)

    async def aclose(self) -> None:
        self.connection.lose("the session closed the connection")
        for task in list(self._tasks):
            task.cancel()

    def _begin(self, work: Any) -> None:
        task: asyncio.Task[None] = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _sending(self, to_host: ToHost) -> None:
        while True:
            message = await self._queue.get()
            if "id" in message and "method" in message:
                self._begin(self._asked(to_host, message))
            else:
                await self._told(to_host, message)

    async def _asked(self, to_host: ToHost, message: Json) -> None:
        try:
            answer = await to_host(self._name, message)
        except ClewError as error:
            self.connection.fail(message["id"], str(error))
            return
        self.connection.deliver(wire.read_value(answer))
        self.connection.fail(message["id"], "the host's response belongs to another request")

    async def _told(self, to_host: ToHost, message: Json) -> None:
        try:
            await to_host(self._name, message)
        except ClewError as error:
            self.connection.odd(str(error))

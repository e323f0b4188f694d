"""A server behind a URL as in 2024: one stream for all it says, and an address to send messages to.

The address comes first on the stream. It is used only if it is of the server's own origin: else a
server could have tokens sent wherever it likes.
"""

import asyncio

from clew.jsonrpc import wire
from clew.jsonrpc.connection import Connection
from clew.jsonrpc.wire import Json
from clew.mcp.config import Http
from clew.mcp.host import ServerHost
from clew.mcp.line import MAX_MESSAGE_BYTES, CannotReachError, UnauthorizedError
from clew.mcp.protocol import DIALECT, Agreement
from clew.mcp.web_line import Credentials, WebLine, kind
from clew.stream.events import StreamFault
from clew.stream.sse import SseDecoder
from clew.transport.seam import Exchange, Head, Transport, TransportError
from clew.transport.url import BadUrlError, split_url


class SseLine(WebLine):
    """The stream is the line: when it ends, the line does."""

    def __init__(
        self,
        reach: Http,
        host: ServerHost,
        group: asyncio.TaskGroup,
        *,
        transport: Transport,
        credentials: Credentials,
    ) -> None:
        super().__init__(reach, host, group, transport=transport, credentials=credentials)
        self._stream: Exchange | None = None
        self._decoder = SseDecoder(max_event_bytes=MAX_MESSAGE_BYTES)
        self._endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._queue: asyncio.Queue[Json] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self.connection = Connection(self._queue.put_nowait, host, DIALECT, group)

    async def open(self) -> None:
        self._stream, head = await self._answered("GET", self._reach.url, None)
        if head.status != 200 or kind(head) != "text/event-stream":
            raise CannotReachError(f"no stream there (status {head.status})", is_final=True)
        self._tasks = [
            self._group.create_task(self._reading(self._stream)),
            self._group.create_task(self._sending()),
        ]
        await asyncio.wait((self._endpoint, self._over), return_when=asyncio.FIRST_COMPLETED)
        if not self._endpoint.done():
            raise CannotReachError("the stream ended before it named an address")

    def settled(self, agreement: Agreement) -> None:
        self._version = agreement.version

    async def aclose(self) -> None:
        self.connection.lose("the session closed the connection")
        for task in self._tasks:
            task.cancel()
        if self._stream is not None:
            await self._stream.close()

    async def _answered(self, method: str, url: str, message: Json | None) -> tuple[Exchange, Head]:
        said = {"Accept": "text/event-stream"}
        if message is not None:
            said = {"Content-Type": "application/json"}
        if self._version:
            said["MCP-Protocol-Version"] = self._version
        return await self._asked(method, url, said, message)

    async def _sending(self) -> None:
        """Messages in their order; each is taken before the next is sent."""
        endpoint = await self._endpoint
        while True:
            message = await self._queue.get()
            try:
                exchange, head = await self._answered("POST", endpoint, message)
                await exchange.close()
                if head.status >= 300 and "id" in message and "method" in message:
                    words = f"the server answered with status {head.status}"
                    self.connection.fail(message["id"], words)
            except (TransportError, UnauthorizedError, CannotReachError) as error:
                self._end(error)
                return

    async def _reading(self, stream: Exchange) -> None:
        try:
            while data := await stream.read():
                for event in self._decoder.feed(data):
                    if isinstance(event, StreamFault):
                        raise TransportError("content", event.message)
                    self._event(event.event, event.data)
        except (TransportError, CannotReachError) as error:
            self._end(error)
        else:
            self._end(CannotReachError("the server ended its stream"))

    def _event(self, name: str, data: bytes) -> None:
        if name == "endpoint" and not self._endpoint.done():
            self._endpoint.set_result(within(self._reach.url, data.decode("utf-8", "replace")))
        elif name == "message":
            self.connection.deliver(wire.read(data, batches=True))


def within(base: str, given: str) -> str:
    """The address that a server names, if it is one of its own."""
    own = split_url(base)
    if given.startswith("/"):
        return f"{own.scheme}://{own.authority}{given}"
    try:
        named = split_url(given)
    except BadUrlError:
        raise CannotReachError("the server names an address that is none") from None
    if (named.scheme, named.host, named.port) != (own.scheme, own.host, own.port):
        raise CannotReachError(
            f"the server wants messages sent to {named.host_and_port}, which is not itself",
            is_final=True,
        )
    return given

"""The connection to a server at a URL, in which every message is an HTTP request.

A response is JSON or an event stream. Both variants of the protocol use this transport: sessions
with an ID, and stateless requests. Described as "Streamable HTTP" at modelcontextprotocol.io.
"""

import asyncio
import contextlib
from base64 import b64encode
from typing import Any

from clew.core.json_object import Json
from clew.core.stream.events import StreamFault
from clew.core.stream.sse import SseDecoder
from clew.parts.mcp.client import ServerHost
from clew.parts.mcp.config import HttpServer
from clew.parts.mcp.line import (
    MAX_MESSAGE_BYTES,
    CannotReachError,
    Credentials,
    UnauthorizedError,
    WebLine,
    kind,
)
from clew.parts.mcp.protocol import DIALECT, META, NAMED_BY, Agreement, as_object, as_text
from clew.system.jsonrpc import wire
from clew.system.jsonrpc.connection import Connection
from clew.system.jsonrpc.wire import Id
from clew.system.transport.network import BadUrlError, split_url
from clew.system.transport.seam import Exchange, Head, Transport, TransportError

ACCEPT = "application/json, text/event-stream"
STREAM = "text/event-stream"
# How often a broken stream is resumed, and the delay before each attempt.
MOST_RESUMES = 3
RESUME_AFTER_S = 1.0
LONGEST_RESUME_S = 30.0
GOODBYE_S = 1.0


class HttpLine(WebLine):
    """A connection over "Streamable HTTP", on which several requests may run at the same time.

    Messages that need no response are sent in order, and before any later request.
    """

    def __init__(
        self,
        reach: HttpServer,
        host: ServerHost,
        group: asyncio.TaskGroup,
        *,
        transport: Transport,
        credentials: Credentials,
    ) -> None:
        super().__init__(reach, host, group, transport=transport, credentials=credentials)
        self._session_id = ""
        self._is_stateless = False
        self._queue: asyncio.Queue[Json] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._posts: dict[Id, asyncio.Task[None]] = {}
        self.connection = Connection(self._send, host, DIALECT, group)

    async def open(self) -> None:
        """Start the task that sends messages. The first message opens the connection."""
        self._begin(self._sending())

    def settled(self, agreement: Agreement) -> None:
        self._version = agreement.version
        self._is_stateless = agreement.era == "stateless"
        if not self._is_stateless:
            self._begin(self._listening())

    async def aclose(self) -> None:
        self.connection.lose("the session closed the connection")
        for task in list(self._tasks):
            task.cancel()
        if self._session_id and not self._over.done():
            with contextlib.suppress(TransportError, TimeoutError, UnauthorizedError):
                async with asyncio.timeout(GOODBYE_S):
                    await self._goodbye()

    async def _goodbye(self) -> None:
        exchange = await self._exchange("DELETE", self._reach.url, self._headers({}))
        try:
            await exchange.open()
        finally:
            await exchange.close()

    # -- sending

    def _send(self, message: Json) -> None:
        if self._is_stateless and message.get("method") == DIALECT.cancel_method:
            # A stateless server does not read cancellations: closing the response's stream cancels
            # the request.
            task = self._posts.get(message["params"][DIALECT.cancel_key])
            if task is not None:
                task.cancel()
            return
        self._queue.put_nowait(message)

    async def _sending(self) -> None:
        """Send messages in order, so that a request follows the notifications before it."""
        while True:
            message = await self._queue.get()
            if "id" in message and "method" in message:
                task = self._begin(self._post(message, message["id"]))
                self._posts[message["id"]] = task
            else:
                await self._post(message, None)

    def _begin(self, work: Any) -> "asyncio.Task[None]":
        task: asyncio.Task[None] = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _post(self, message: Json, identity: Id | None) -> None:
        """Send one message and, if it is a request, deliver its response to the connection."""
        try:
            await self._posted(message, identity)
        except (UnauthorizedError, CannotReachError) as error:
            self._end(error)
        except TransportError as error:
            if error.kind in ("truncated", "content", "protocol") and identity is not None:
                self.connection.fail(identity, str(error))
            else:
                self._end(CannotReachError(str(error), is_final=error.kind == "configuration"))
        finally:
            if identity is not None:
                self._posts.pop(identity, None)

    async def _posted(self, message: Json, identity: Id | None) -> None:
        exchange, head = await self._answered("POST", message)
        try:
            session_id = head.headers.get("mcp-session-id", "")
            if message.get("method") == "initialize" and session_id.isprintable():
                self._session_id = session_id
            if identity is None:
                if head.status >= 400:
                    self._host.odd(f"the server rejected a notification with status {head.status}")
            elif head.status >= 400 or head.status in range(300, 400):
                await self._turned_down(exchange, head, identity)
            elif head.status == 202:
                self.connection.fail(identity, "the server accepted the request without a response")
            elif kind(head) == STREAM:
                await self._streamed(exchange, identity)
            else:
                self._deliver(await whole(exchange), identity)
        finally:
            await exchange.close()

    async def _answered(
        self, method: str, message: Json | None, **extra: str
    ) -> tuple[Exchange, Head]:
        return await self._asked(
            method, self._reach.url, self._headers(message or {}, **extra), message
        )

    def _headers(self, message: Json, **extra: str) -> dict[str, str]:
        params = as_object(message.get("params"))
        method = as_text(message.get("method"))
        stated = as_text(as_object(params.get("_meta")).get(META + "protocolVersion"))
        headers = {"Content-Type": "application/json", "Accept": ACCEPT, **extra}
        version = stated or self._version
        if version:
            headers["MCP-Protocol-Version"] = version
        if self._session_id:
            headers["Mcp-Session-Id"] = self._session_id
        if stated:
            headers["Mcp-Method"] = method
            if method in NAMED_BY:
                headers["Mcp-Name"] = in_header(as_text(params.get(NAMED_BY[method])))
            if method == "tools/call":
                headers |= self._arguments(params)
        return headers

    def _arguments(self, params: Json) -> dict[str, str]:
        """Return the headers that repeat arguments, as the tool's schema requires."""
        headers: dict[str, str] = {}
        for path, header in self._host.headers_of(as_text(params.get("name"))).items():
            value: Any = params.get("arguments")
            for name in path:
                value = as_object(value).get(name)
            if isinstance(value, bool):
                headers[f"Mcp-Param-{header}"] = "true" if value else "false"
            elif isinstance(value, (str, int)):
                headers[f"Mcp-Param-{header}"] = in_header(str(value))
        return headers

    # -- receiving

    def _deliver(self, payload: bytes, identity: Id | None) -> None:
        for message in wire.read(payload, batches=True):
            if isinstance(message, wire.RpcRefusal) and message.id is None and identity is not None:
                message = wire.RpcRefusal(id=identity, fault=message.fault)
            if isinstance(message, wire.MalformedMessage) and identity is not None:
                self.connection.fail(identity, f"invalid response: {message.why}")
            self.connection.deliver([message])

    async def _turned_down(self, exchange: Exchange, head: Head, identity: Id) -> None:
        """Handle a response with an error status, whose body may still contain a message."""
        if head.status == 404 and self._session_id:
            self._end(CannotReachError("the server no longer knows the session"))
            return
        body = await whole(exchange) if kind(head) == "application/json" else b""
        (reply, *_) = wire.read(body, batches=False) if body else (None,)
        if isinstance(reply, wire.RpcRefusal):
            self.connection.deliver([wire.RpcRefusal(id=identity, fault=reply.fault)])
            return
        where = head.headers.get("location", "")
        hint = f"; it redirects to {where[:200]}" if where else ""
        self.connection.fail(identity, f"the server responded with status {head.status}{hint}")

    async def _streamed(self, exchange: Exchange, identity: Id) -> None:
        """Deliver the messages of a stream until the response arrives.

        Resume the stream if it breaks.
        """
        decoder = SseDecoder(max_event_bytes=MAX_MESSAGE_BYTES)
        resumes = 0
        while not await self._heard(exchange, decoder, identity):
            await exchange.close()
            if not decoder.last_event_id or resumes >= MOST_RESUMES:
                self.connection.fail(identity, "the response was cut off")
                return
            resumes += 1
            event_id = decoder.last_event_id
            await asyncio.sleep(pause_s(decoder))
            exchange, head = await self._answered(
                "GET", None, **{"Accept": STREAM, "Last-Event-ID": event_id}
            )
            decoder = SseDecoder(max_event_bytes=MAX_MESSAGE_BYTES)
            decoder.last_event_id = event_id
            if head.status != 200 or kind(head) != STREAM:
                await exchange.close()
                self.connection.fail(identity, "the response was cut off and could not be resumed")
                return
        await exchange.close()

    async def _heard(self, exchange: Exchange, decoder: SseDecoder, identity: Id | None) -> bool:
        """Deliver a stream's messages until it ends.

        Return whether the awaited response was among them.
        """
        try:
            while data := await exchange.read():
                for event in decoder.feed(data):
                    if isinstance(event, StreamFault):
                        raise TransportError("content", event.message)
                    if event.event != "message" or not event.data:
                        continue
                    self._deliver(event.data, identity)
                    if identity is not None and not self.connection.waits_for(identity):
                        return True
        except TransportError as error:
            if error.kind not in ("reset", "truncated"):
                raise
        return identity is not None and not self.connection.waits_for(identity)

    async def _listening(self) -> None:
        """Read the server's stream of messages that belong to no request, if it offers one."""
        decoder, failures = SseDecoder(max_event_bytes=MAX_MESSAGE_BYTES), 0
        while failures < MOST_RESUMES:
            headers = {"Last-Event-ID": decoder.last_event_id} if decoder.last_event_id else {}
            try:
                exchange, head = await self._answered("GET", None, **{"Accept": STREAM, **headers})
            except (TransportError, UnauthorizedError, CannotReachError):
                failures += 1
            else:
                try:
                    if head.status == 404 and self._session_id:
                        self._end(CannotReachError("the server no longer knows the session"))
                    if head.status != 200 or kind(head) != STREAM:
                        return
                    await self._heard(exchange, decoder, None)
                    failures = 0
                except TransportError as error:
                    self._host.odd(f"the notification stream was interrupted: {error}")
                    failures += 1
                finally:
                    await exchange.close()
            await asyncio.sleep(pause_s(decoder))
            event_id = decoder.last_event_id
            decoder = SseDecoder(max_event_bytes=MAX_MESSAGE_BYTES)
            decoder.last_event_id = event_id


async def whole(exchange: Exchange) -> bytes:
    """Return the entire body of a response. Raise `TransportError` if it is too large."""
    body = bytearray()
    while data := await exchange.read():
        body += data
        if len(body) > MAX_MESSAGE_BYTES:
            raise TransportError(
                "content", f"the response is larger than {MAX_MESSAGE_BYTES} bytes"
            )
    return bytes(body)


def pause_s(decoder: SseDecoder) -> float:
    """Return the reconnection delay that a stream asked for, within limits."""
    retry_ms = decoder.retry_ms
    return RESUME_AFTER_S if retry_ms is None else min(retry_ms / 1000, LONGEST_RESUME_S)


def in_header(value: str) -> str:
    """Encode a value for use in a header, as base64 if necessary."""
    plain = value.isascii() and value.isprintable() and value == value.strip()
    if plain and not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    return f"=?base64?{b64encode(value.encode('utf-8', 'replace')).decode()}?="


# The HTTP transport of 2024: one stream for all messages from the server, and a URL for messages to
# it.


class SseLine(WebLine):
    """A connection over the HTTP transport of 2024; it ends when the server's event stream ends."""

    def __init__(
        self,
        reach: HttpServer,
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
            why = f"the server did not return an event stream (status {head.status})"
            raise CannotReachError(why, is_final=True)
        self._tasks = [
            self._group.create_task(self._reading(self._stream)),
            self._group.create_task(self._sending()),
        ]
        await asyncio.wait((self._endpoint, self._over), return_when=asyncio.FIRST_COMPLETED)
        if not self._endpoint.done():
            raise CannotReachError("the stream ended before the endpoint was received")

    def settled(self, agreement: Agreement) -> None:
        self._version = agreement.version

    async def aclose(self) -> None:
        self.connection.lose("the session closed the connection")
        for task in self._tasks:
            task.cancel()
        if self._stream is not None:
            await self._stream.close()

    async def _answered(self, method: str, url: str, message: Json | None) -> tuple[Exchange, Head]:
        headers = {"Accept": "text/event-stream"}
        if message is not None:
            headers = {"Content-Type": "application/json"}
        if self._version:
            headers["MCP-Protocol-Version"] = self._version
        return await self._asked(method, url, headers, message)

    async def _sending(self) -> None:
        """Send messages in order, each after the previous one was accepted."""
        endpoint = await self._endpoint
        while True:
            message = await self._queue.get()
            try:
                exchange, head = await self._answered("POST", endpoint, message)
                await exchange.close()
                if head.status >= 300 and "id" in message and "method" in message:
                    words = f"the server responded with status {head.status}"
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
            self._end(CannotReachError("the server closed its stream"))

    def _event(self, name: str, data: bytes) -> None:
        if name == "endpoint" and not self._endpoint.done():
            self._endpoint.set_result(within(self._reach.url, data.decode("utf-8", "replace")))
        elif name == "message":
            self.connection.deliver(wire.read(data, batches=True))


def within(base: str, location: str) -> str:
    """Return the URL for messages to the server, which must have the same origin as the server."""
    own = split_url(base)
    if location.startswith("/"):
        return f"{own.scheme}://{own.authority}{location}"
    try:
        target = split_url(location)
    except BadUrlError:
        raise CannotReachError("the server sent an invalid endpoint URL") from None
    if (target.scheme, target.host, target.port) != (own.scheme, own.host, own.port):
        raise CannotReachError(
            f"the server's endpoint is on a different host: {target.host_and_port}",
            is_final=True,
        )
    return location

"""HTTP/1.1 over a channel, with a pool of idle connections.

h11 handles requests and heads, `chunks` handles bodies.

Must never follow a redirect, because credentials would be sent along. Must never send a request
twice, unless an idle connection turns out to be closed before a byte of the response arrived.

Decision: docs/decisions/030-http-transport.md
"""

import asyncio
from typing import TypeAlias

import h11

from clew.system.transport.body import BodyDecoder, Identity, choose_decoder
from clew.system.transport.channel import ByteChannel
from clew.system.transport.chunks import Body, Sized, UntilClosed, body_of
from clew.system.transport.connection import Admits, Trust, open_channel
from clew.system.transport.network import (
    BadUrlError,
    Network,
    Proxy,
    ProxyRules,
    Url,
    make_basic_header,
    rules_of,
    split_url,
)
from clew.system.transport.seam import Head, HttpRequest, TransportError

# The contents of a request on the wire.


NOT_IN_NAMES = '()<>@,;:"/[]?={}\\\x7f'


def resolve_target(request: HttpRequest) -> Url:
    try:
        url = split_url(request.url)
    except BadUrlError as error:
        message = f"the base URL is invalid: {error}"
        raise TransportError("configuration", message) from error
    if url.scheme not in ("http", "https"):
        raise TransportError(
            "configuration", f"unsupported scheme {url.scheme}:// (expected http:// or https://)"
        )
    return url


def make_headers(request: HttpRequest, url: Url) -> list[tuple[bytes, bytes]]:
    headers = [("Host", url.authority), ("Accept-Encoding", "identity"), *request.headers]
    headers.append(("Content-Length", str(len(request.body))))
    own = {name.lower() for name, _ in request.headers}
    if url.credentials is not None and "authorization" not in own:
        headers.append(("Authorization", make_basic_header(url.credentials) or ""))
    try:
        return [(name.encode("ascii"), value.encode("utf-8")) for name, value in headers]
    except UnicodeEncodeError as error:
        raise make_send_error(request) from error


def make_send_error(request: HttpRequest) -> TransportError:
    why = find_header_fault(request) or "a header is malformed"
    return TransportError("configuration", f"invalid request headers ({why})")


def find_header_fault(request: HttpRequest) -> str | None:
    """Return which header of a request HTTP cannot transmit and why, or None."""
    for name, value in request.headers:
        if not name or not name.isascii() or any(c <= " " or c in NOT_IN_NAMES for c in name):
            return f"{name!r} is not a valid header name"
        if value != value.strip() or any((c < " " and c != "\t") or c == "\x7f" for c in value):
            return f"the value of {name} contains a control character, or a space at either end"
    return None


PIECE_BYTES = 1 << 16
MAX_HEAD_BYTES = 131_072
MAX_IDLE = 8

Route: TypeAlias = tuple[str, str, int, Proxy | None]


class HttpTransport:
    """The HTTP connections of one program, on one event loop."""

    def __init__(
        self,
        network: Network,
        *,
        connect_timeout_s: float = 20.0,
        trust: Trust | None = None,
        admits: Admits | None = None,
    ) -> None:
        self.connect_timeout_s = connect_timeout_s
        self.trust = trust or Trust(network)
        self.rules: ProxyRules = rules_of(network)
        self._admits = admits
        self._idle: list[Resting] = []
        self._busy: set[ByteChannel] = set()

    def exchange(self, request: HttpRequest) -> "HttpExchange":
        return HttpExchange(self, request)

    def warm(self, url: str) -> None:
        if url.startswith("https:"):
            self.trust.warm()

    async def aclose(self) -> None:
        for channel in [*self._busy, *(resting.channel for resting in self._idle)]:
            channel.abort()
        self._busy.clear()
        self._idle.clear()
        await self.trust.aclose()

    @property
    def connections(self) -> tuple[int, int]:
        """The number of connections in use, and the number of idle ones."""
        return len(self._busy), len(self._idle)

    def take_idle(self, route: Route) -> ByteChannel | None:
        """Take the most recently used idle connection that is usable; return it, or None.

        Unusable connections are closed.
        """
        for i in range(len(self._idle) - 1, -1, -1):
            resting = self._idle[i]
            if not resting.usable():
                resting.channel.abort()
                del self._idle[i]
            elif resting.route == route:
                del self._idle[i]
                self._busy.add(resting.channel)
                return resting.channel
        return None

    async def connect(self, url: Url, proxy: Proxy | None) -> ByteChannel:
        channel = await open_channel(
            url, proxy, self.trust, timeout_s=self.connect_timeout_s, admits=self._admits
        )
        self._busy.add(channel)
        return channel

    def rest(self, resting: "Resting") -> None:
        self._busy.discard(resting.channel)
        self._idle.append(resting)
        if len(self._idle) > MAX_IDLE:
            self._idle.pop(0).channel.abort()

    def drop(self, channel: ByteChannel) -> None:
        self._busy.discard(channel)
        channel.abort()


class Resting:
    """A connection between two exchanges.

    The end marker of the last body may not have arrived yet.
    """

    def __init__(self, route: Route, channel: ByteChannel, body: Body) -> None:
        self.route = route
        self.channel = channel
        self._body = body

    def usable(self) -> bool:
        """Return whether the last exchange is complete and the connection is open and silent."""
        body = self._body
        if not body.ended and (arrived := self.channel.take_arrived()):
            body.feed(arrived)
        return body.ended and not body.rest and self.channel.quiet


class HttpExchange:
    """One request and its response. After `close` it holds no connection."""

    def __init__(self, transport: HttpTransport, request: HttpRequest) -> None:
        self._transport = transport
        self._request = request
        self._channel: ByteChannel | None = None
        self._route: Route = ("", "", 0, None)
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._received_before = 0
        self._decoder: BodyDecoder = Identity()
        self._body: Body = Sized(0)
        # Whether the connection can be reused after the response.
        self._may_stay = False
        self._body_ended = False
        self._line_ended = False
        # Received data that was not processed yet.
        self._arrived = b""

    @property
    def bytes_received(self) -> int:
        channel = self._channel
        return 0 if channel is None else channel.bytes_received - self._received_before

    async def open(self) -> Head:
        url = resolve_target(self._request)
        proxy = self._transport.rules.choose(url)
        self._route = (url.scheme, url.host, url.port, proxy)
        wire = self._written(url, proxy)
        used = self._transport.take_idle(self._route)
        if used is not None:
            head = await self._ask(used, wire, gone_is_fine=True)
            if head is not None:
                return head
            self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
            wire = self._written(url, proxy)
        head = await self._ask(await self._transport.connect(url, proxy), wire, gone_is_fine=False)
        assert head is not None
        return head

    def _written(self, url: Url, proxy: Proxy | None) -> bytes:
        request = self._request
        headers = make_headers(request, url)
        target = url.target
        if proxy is not None and not proxy.is_socks and url.scheme == "http":
            target = f"http://{url.authority}{target}"
            if proxy.authorization is not None:
                headers.append((b"Proxy-Authorization", proxy.authorization.encode()))
        try:
            event = h11.Request(method=request.method, target=target, headers=headers)
        except h11.LocalProtocolError as error:
            raise make_send_error(request) from error
        events = [
            event,
            *([h11.Data(data=request.body)] if request.body else []),
            h11.EndOfMessage(),
        ]
        return b"".join(self._http.send(event) or b"" for event in events)

    async def _ask(self, channel: ByteChannel, wire: bytes, *, gone_is_fine: bool) -> Head | None:
        """Send the request and read the head.

        Return None if an idle connection turned out to be closed.
        """
        self._channel = channel
        self._received_before = channel.bytes_received
        answered = False
        try:
            channel.send(wire)
            head = await self._head(channel)
            self._decoder = choose_decoder(head.headers.get("content-encoding", ""))
            answered = True
            return head
        except TransportError as error:
            if gone_is_fine and error.kind == "reset" and self.bytes_received == 0:
                return None
            raise
        finally:
            if not answered:
                self._cut()

    async def _head(self, channel: ByteChannel) -> Head:
        while True:
            event = await self._next(channel)
            if isinstance(event, h11.Response):
                return self._begun(event)
            if isinstance(event, h11.ConnectionClosed):
                raise TransportError("reset", "the connection ended before a response arrived")

    async def _next(self, channel: ByteChannel) -> h11.Event:
        while True:
            try:
                event = self._http.next_event()
                if isinstance(event, h11.Event):
                    return event
                self._http.receive_data(await self._receive(channel))
            except h11.RemoteProtocolError as error:
                raise self._refused(_said(error)) from error

    async def _receive(self, channel: ByteChannel) -> bytes:
        try:
            data = await channel.receive()
        except OSError as error:
            raise TransportError("reset", f"the connection was lost ({_cause(error)})") from error
        self._line_ended = not data
        return data

    def _begun(self, response: h11.Response) -> Head:
        """Process the head. From here on, received data belongs to the body."""
        head = Head(status=response.status_code, headers=_headers(response))
        self._body = body_of(self._request.method, head.status, head.headers)
        self._arrived = self._http.trailing_data[0]
        value = head.headers.get("connection", "").lower()
        # A response with both a length and chunks is read as chunks, but it is uncertain where the
        # next response would start.
        says_twice = "content-length" in head.headers and "transfer-encoding" in head.headers
        self._may_stay = (
            response.http_version >= b"1.1"
            and "close" not in [word.strip() for word in value.split(",")]
            and not says_twice
            and not isinstance(self._body, UntilClosed)
        )
        return head

    def _refused(self, why: str) -> TransportError:
        if not self._line_ended:
            return TransportError("protocol", f"the response is not HTTP/1.1 ({why})")
        if self.bytes_received == 0:
            return TransportError("reset", "the connection ended before a response arrived")
        return TransportError("truncated", f"the connection ended too early ({why})")

    async def read(self) -> bytes:
        channel = self._channel
        if channel is None or self._body_ended:
            return b""
        while True:
            if self._decoder.has_more:
                await asyncio.sleep(
                    0
                )  # No data is awaited here, so other tasks get a chance to run.
                if data := self._decoder.feed(b""):
                    return data
            if data := await self._piece(channel):
                if data := self._decoder.feed(data):
                    return data
            elif self._body.ended:
                self._body_ended = True
                return self._decoder.close()

    async def _piece(self, channel: ByteChannel) -> bytes:
        """Return some of the received body data, at most the size limit and possibly nothing.

        A fault is raised only after all data before it has been returned.
        """
        body = self._body
        if body.fault:
            raise self._refused(body.fault)
        if body.ended:
            return b""
        if not self._arrived:
            self._arrived = await self._receive(channel)
            if self._line_ended:
                body.close()
                return b""
        # A piece becomes one frame for a host, and long frames are split, so limit its size here.
        piece, self._arrived = self._arrived[:PIECE_BYTES], self._arrived[PIECE_BYTES:]
        return body.feed(piece)

    async def close(self, *, answered: bool = False) -> None:
        channel = self._channel
        if channel is None:
            return
        self._channel = None
        body = self._body
        if not body.ended and self._arrived:
            body.feed(self._arrived)
        elif body.ended:
            body.rest += self._arrived
        may_stay = self._may_stay and not body.fault and not self._line_ended
        if may_stay and channel.open_and_written and (answered or self._body_ended):
            self._transport.rest(Resting(self._route, channel, body))
        else:
            self._transport.drop(channel)

    def _cut(self) -> None:
        if self._channel is not None:
            self._transport.drop(self._channel)
            self._channel = None


def _said(error: h11.RemoteProtocolError) -> str:
    """Return h11's error message, shortened, with quoted data as plain text."""
    return str(error).replace("bytearray(b'", "'").replace("')", "'")[:200]


def _cause(error: OSError) -> str:
    return error.strerror or type(error).__name__


def _headers(event: h11.Response) -> dict[str, str]:
    out: dict[str, str] = {}
    for name, value in event.headers:
        key = name.decode("ascii")
        text = value.decode("utf-8", "replace")
        out[key] = f"{out[key]}, {text}" if key in out else text
    return out

"""HTTP/1.1 behind the seam: h11 over a channel, and a pool of the connections at rest.

Must never follow a redirect (credentials would travel with it) and never send a request twice,
but for one case: a connection at rest that the server had closed, before a byte came back.
"""

import asyncio
from typing import TypeAlias

import h11

from clew.transport.body import Decoder, Identity, decoder_for
from clew.transport.channel import Channel
from clew.transport.dial import Admits, dial
from clew.transport.network import Network
from clew.transport.proxy import Proxy, ProxyRules, rules_of
from clew.transport.request import headers_for, unsendable, where
from clew.transport.seam import Head, HttpRequest, TransportError
from clew.transport.tls import Trust
from clew.transport.url import Url

MOST_JOINED_BYTES = 1 << 16
MAX_HEAD_BYTES = 131_072
MAX_IDLE = 8

Route: TypeAlias = tuple[str, str, int, Proxy | None]


class HttpTransport:
    """Connections of one program, on one event loop."""

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
        self._busy: set[Channel] = set()

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
        """How many connections are in use, and how many at rest."""
        return len(self._busy), len(self._idle)

    def take_idle(self, route: Route) -> Channel | None:
        """A connection at rest that can be used, the youngest first; the dead ones are let go."""
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

    async def connect(self, url: Url, proxy: Proxy | None) -> Channel:
        channel = await dial(
            url, proxy, self.trust, timeout_s=self.connect_timeout_s, admits=self._admits
        )
        self._busy.add(channel)
        return channel

    def rest(self, resting: "Resting") -> None:
        self._busy.discard(resting.channel)
        self._idle.append(resting)
        if len(self._idle) > MAX_IDLE:
            self._idle.pop(0).channel.abort()

    def drop(self, channel: Channel) -> None:
        self._busy.discard(channel)
        channel.abort()


class Resting:
    """A connection between two exchanges; the last one's end mark may still be on its way."""

    def __init__(self, route: Route, channel: Channel, http: h11.Connection) -> None:
        self.route = route
        self.channel = channel
        self._http = http

    def usable(self) -> bool:
        """Whether the last exchange is through and the line is open and silent."""
        return self._through() and not self._http.trailing_data[0] and self.channel.quiet

    def _through(self) -> bool:
        while self._http.their_state is h11.SEND_BODY:
            try:
                if self._http.next_event() is h11.NEED_DATA:
                    arrived = self.channel.take_arrived()
                    if not arrived:
                        return False
                    self._http.receive_data(arrived)
            except h11.RemoteProtocolError:
                return False
        return self._http.their_state is h11.DONE and self._http.our_state is h11.DONE


class HttpExchange:
    """One request and its response; after `close` it holds nothing."""

    def __init__(self, transport: HttpTransport, request: HttpRequest) -> None:
        self._transport = transport
        self._request = request
        self._channel: Channel | None = None
        self._route: Route = ("", "", 0, None)
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._received_before = 0
        self._decoder: Decoder = Identity()
        self._body_ended = False
        self._line_ended = False
        # What came behind the last piece of the body and is not data: an end, or a fault.
        self._ahead: h11.Event | TransportError | None = None

    @property
    def bytes_received(self) -> int:
        channel = self._channel
        return 0 if channel is None else channel.bytes_received - self._received_before

    async def open(self) -> Head:
        url = where(self._request)
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
        headers = headers_for(request, url)
        target = url.target
        if proxy is not None and not proxy.is_socks and url.scheme == "http":
            target = f"http://{url.authority}{target}"
            if proxy.authorization is not None:
                headers.append((b"Proxy-Authorization", proxy.authorization.encode()))
        try:
            event = h11.Request(method=request.method, target=target, headers=headers)
        except h11.LocalProtocolError as error:
            raise unsendable(request) from error
        events = [
            event,
            *([h11.Data(data=request.body)] if request.body else []),
            h11.EndOfMessage(),
        ]
        return b"".join(self._http.send(each) or b"" for each in events)

    async def _ask(self, channel: Channel, wire: bytes, *, gone_is_fine: bool) -> Head | None:
        """Writes the request and reads the head; None if a connection at rest proved closed."""
        self._channel = channel
        self._received_before = channel.bytes_received
        answered = False
        try:
            channel.send(wire)
            head = await self._head(channel)
            self._decoder = decoder_for(head.headers.get("content-encoding", ""))
            answered = True
            return head
        except TransportError as error:
            if gone_is_fine and error.kind == "reset" and self.bytes_received == 0:
                return None
            raise
        finally:
            if not answered:
                self._cut()

    async def _head(self, channel: Channel) -> Head:
        while True:
            event = await self._next(channel)
            if isinstance(event, h11.Response):
                return Head(status=event.status_code, headers=_headers(event))
            if isinstance(event, h11.ConnectionClosed):
                raise TransportError("reset", "the connection ended before an answer came")

    async def _next(self, channel: Channel) -> h11.Event:
        ahead, self._ahead = self._ahead, None
        if isinstance(ahead, TransportError):
            raise ahead
        if ahead is not None:
            return ahead
        while True:
            try:
                event = self._http.next_event()
                if isinstance(event, h11.Event):
                    return event
                data = await channel.receive()
                self._line_ended = not data
                self._http.receive_data(data)
            except h11.RemoteProtocolError as error:
                raise self._refused(error) from error
            except OSError as error:
                raise TransportError("reset", f"the connection broke ({_cause(error)})") from error

    def _joined(self, first: h11.Data) -> bytes:
        """A piece of the body with those that have come behind it: servers send an event at a time."""
        pieces, size = [first.data], len(first.data)
        try:
            # No more than that: what is one piece here is one frame to a host, and long ones are cut.
            while size < MOST_JOINED_BYTES:
                event = self._http.next_event()
                if not isinstance(event, h11.Data):
                    self._ahead = event if isinstance(event, h11.Event) else None
                    break
                pieces.append(event.data)
                size += len(event.data)
        except h11.RemoteProtocolError as error:
            # What came before it is whole, and is taken first.
            self._ahead = self._refused(error)
        return b"".join(pieces)

    def _refused(self, error: h11.RemoteProtocolError) -> TransportError:
        if not self._line_ended:
            return TransportError("protocol", f"what came is not HTTP/1.1 ({_said(error)})")
        if self.bytes_received == 0:
            return TransportError("reset", "the connection ended before an answer came")
        return TransportError("truncated", f"the connection ended too early ({error})")

    async def read(self) -> bytes:
        channel = self._channel
        if channel is None or self._body_ended:
            return b""
        while True:
            if self._decoder.has_more:
                await asyncio.sleep(0)  # nothing is waited for, and others want their turn
                if data := self._decoder.feed(b""):
                    return data
            event = await self._next(channel)
            if isinstance(event, h11.Data):
                data = self._decoder.feed(self._joined(event))
                if data:
                    return data
            else:
                self._body_ended = True
                return self._decoder.close()

    async def close(self, *, answered: bool = False) -> None:
        channel = self._channel
        if channel is None:
            return
        self._channel = None
        keeps = self._http.their_state in (h11.SEND_BODY, h11.DONE) and channel.open_and_written
        if keeps and (answered or self._body_ended):
            self._transport.rest(Resting(self._route, channel, self._http))
        else:
            self._transport.drop(channel)

    def _cut(self) -> None:
        if self._channel is not None:
            self._transport.drop(self._channel)
            self._channel = None


def _said(error: h11.RemoteProtocolError) -> str:
    """The library's words with what came as plain text, in short."""
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

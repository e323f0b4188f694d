"""HTTP/2 where a server offers it, behind the same seam: httpcore2 over connections that we make.

Owns the words in which its faults are told. The library speaks the protocol and shares connections;
names, proxies, certificates and the making of a connection are the same as for HTTP/1.1, and a
cancellation leaves no half-made one behind. What is not `https:` cannot be HTTP/2 and goes the other way.

Decision: docs/decisions/030-http-transport.md
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from typing import Any

import h2.exceptions
import httpcore2
import msgspec

from clew.system.transport.body import BodyDecoder, Identity, choose_decoder
from clew.system.transport.channel import ByteChannel
from clew.system.transport.connection import Trust, open_channel
from clew.system.transport.http import (
    MAX_IDLE,
    HttpTransport,
    find_header_fault,
    make_headers,
    make_send_error,
    resolve_target,
)
from clew.system.transport.network import BadUrlError, Network, Url, split_url
from clew.system.transport.seam import Exchange, Head, HttpRequest, TransportError, TransportFault

Faults = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    h2.exceptions.ProtocolError,
)


class WideTransport:
    """Exchanges with `https:` by one pool of the library's, all others by a transport of our own."""

    def __init__(self, network: Network, *, connect_timeout_s: float = 20.0) -> None:
        plain = msgspec.structs.replace(network, http2=False)
        self.connect_timeout_s = connect_timeout_s
        self.trust = Trust(network)
        self._plain = HttpTransport(plain, connect_timeout_s=connect_timeout_s)
        self.rules = self._plain.rules
        self.channels: set[ByteChannel] = set()
        self.pool = httpcore2.AsyncConnectionPool(
            http2=True,
            max_connections=None,
            max_keepalive_connections=MAX_IDLE,
            network_backend=Http2Connector(self),
            # Never used (see `Http2Stream.start_tls`); without one the library loads the system's
            # certificates for each connection.
            ssl_context=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        )

    def exchange(self, request: HttpRequest) -> Exchange:
        try:
            url = split_url(request.url)
        except BadUrlError:
            return self._plain.exchange(request)  # which says what is wrong with it
        return WideExchange(self, request) if self._is_wide(url) else self._plain.exchange(request)

    def warm(self, url: str) -> None:
        try:
            wide = self._is_wide(split_url(url))
        except BadUrlError:
            return  # said when it is asked for
        if wide:
            self.trust.warm()
        else:
            self._plain.warm(url)

    def _is_wide(self, url: Url) -> bool:
        if url.scheme != "https":
            return False
        # A proxy behind TLS is asked in HTTP/1.1, and must not be offered anything else.
        proxy = self.rules.choose(url)
        return proxy is None or proxy.scheme != "https"

    async def aclose(self) -> None:
        await self.pool.aclose()
        for channel in self.channels:
            channel.abort()
        self.channels.clear()
        await self._plain.aclose()
        await self.trust.aclose()

    async def line(self, host: str, port: int) -> "Http2Stream":
        url = Url(scheme="https", host=host, port=port, target="/")
        proxy = self.rules.choose(url)
        channel = await open_channel(url, proxy, self.trust, timeout_s=self.connect_timeout_s)
        self.channels = {channel for channel in self.channels if not channel.ended}
        self.channels.add(channel)
        return Http2Stream(channel)


class Http2Connector(httpcore2.AsyncNetworkBackend):
    """Makes connections for the library."""

    def __init__(self, transport: WideTransport) -> None:
        self._transport = transport

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> "Http2Stream":
        del timeout, local_address, socket_options
        return await self._transport.line(host, port)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Http2Stream(httpcore2.AsyncNetworkStream):
    """A connection as the library wants it; encrypted from its first byte on."""

    def __init__(self, channel: ByteChannel) -> None:
        self._channel = channel

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        del max_bytes, timeout  # all that came is taken; who waits how long is our caller's
        try:
            return await self._channel.receive()
        except OSError as error:
            raise httpcore2.ReadError(str(error)) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        del timeout
        if self._channel.ended:
            raise httpcore2.WriteError("the connection had ended")
        self._channel.send(buffer)

    async def aclose(self) -> None:
        self._channel.abort()

    async def start_tls(
        self,
        ssl_context: Any,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> "Http2Stream":
        del ssl_context, server_hostname, timeout
        return self

    def get_extra_info(self, info: str) -> Any:
        match info:
            case "is_readable":
                return not self._channel.quiet
            case _:
                return self._channel.about(info)


class WideExchange:
    """One request and its response; see `clew.system.transport.seam.Exchange`."""

    def __init__(self, transport: WideTransport, request: HttpRequest) -> None:
        self._transport = transport
        self._request = request
        self._response: httpcore2.Response | None = None
        self._pieces: AsyncIterator[bytes] | None = None
        self._decoder: BodyDecoder = Identity()
        self._body_ended = False
        self.bytes_received = 0

    async def open(self) -> Head:
        url = resolve_target(self._request)
        self._response = response = await self._asked(url)
        headers: dict[str, str] = {}
        for raw_name, raw_value in response.headers:
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
            self.bytes_received += len(raw_name) + len(raw_value)
        self._decoder = choose_decoder(headers.get("content-encoding", ""))
        self._pieces = response.aiter_stream()
        return Head(status=response.status, headers=headers)

    async def _asked(self, url: Url) -> httpcore2.Response:
        pool = self._transport.pool
        headers = make_headers(self._request, url)
        if find_header_fault(self._request) is not None:
            raise make_send_error(self._request)
        try:
            request = httpcore2.Request(
                self._request.method,
                httpcore2.URL(scheme="https", host=url.host, port=url.port, target=url.target),
                headers=headers,
                content=self._request.body,
            )
            try:
                return await pool.handle_async_request(request)
            except httpcore2.WriteError:
                # A connection at rest had ended; what could not be written was not heard.
                return await pool.handle_async_request(request)
        except Faults as error:
            raise _fault(error) from error

    async def read(self) -> bytes:
        while self._pieces is not None and not self._body_ended:
            if self._decoder.has_more:
                await asyncio.sleep(0)  # nothing is waited for, and others want their turn
                if data := self._decoder.feed(b""):
                    return data
            try:
                piece = await anext(self._pieces, None)
            except Faults as error:
                kind: TransportFault = "reset"
                if isinstance(error, httpcore2.RemoteProtocolError):
                    kind = "truncated"
                message = f"the connection ended too early ({_words(error)})"
                raise TransportError(kind, message) from error
            if piece is None:
                self._body_ended = True
                return self._decoder.close()
            self.bytes_received += len(piece)
            if data := self._decoder.feed(piece):
                return data
        return b""

    async def close(self, *, answered: bool = False) -> None:
        del answered  # the library keeps a connection only after its last byte
        response, self._response, self._pieces = self._response, None, None
        if response is not None:
            # Whoever is cancelled here must not leave the connection half given back.
            await asyncio.shield(response.aclose())


def _fault(error: Exception) -> TransportError:
    """What the library raised before a head came, in our words and without a credential."""
    match error:
        case httpcore2.RemoteProtocolError() if "disconnected" not in str(error):
            return TransportError("protocol", f"what came is not HTTP ({_words(error)})")
        case httpcore2.NetworkError() | httpcore2.RemoteProtocolError():
            return TransportError("reset", "the connection ended before an answer came")
    return TransportError("configuration", f"the request cannot be sent ({type(error).__name__})")


def _words(error: Exception) -> str:
    return str(error)[:200] or type(error).__name__

"""HTTP/2 where a server offers it, behind the same seam: httpx2, loaded when it is needed.

Owns the words in which its faults are told. Like the transport of our own it follows no redirect,
asks for no encoding, and puts no credential into an error. The library asks no environment here.
"""

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

from clew.transport.body import Decoder, Identity, decoder_for
from clew.transport.network import Network
from clew.transport.proxy import Proxy, rules_of
from clew.transport.seam import Head, HttpRequest, TransportError, TransportFault
from clew.transport.tls import Trust
from clew.transport.url import BadUrlError, Url, split_url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx2

MISSING = "HTTP/2 needs the extra `http2` (pip install 'clew[http2]'); without it, unset CLEW_HTTP2"
NO_SOCKS = "HTTP/2 does not go through a SOCKS proxy; unset CLEW_HTTP2, and HTTP/1.1 does"


class WideTransport:
    """One client for each proxy, made when it is first asked for."""

    def __init__(self, network: Network, *, connect_timeout_s: float = 20.0) -> None:
        self.connect_timeout_s = connect_timeout_s
        self.rules = rules_of(network)
        self.trust = Trust(network)
        self._http2 = network.http2
        self._clients: dict[Proxy | None, httpx2.AsyncClient] = {}

    def exchange(self, request: HttpRequest) -> "WideExchange":
        return WideExchange(self, request)

    def warm(self, url: str) -> None:
        if url.startswith("https:"):
            self.trust.warm()

    async def aclose(self) -> None:
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.aclose()
        await self.trust.aclose()

    async def client(self, url: Url) -> "httpx2.AsyncClient":
        proxy = self.rules.choose(url)
        if proxy is not None and proxy.is_socks:
            raise TransportError("configuration", NO_SOCKS)
        if proxy not in self._clients:
            context = await self.trust.context()
            if proxy not in self._clients:
                self._clients[proxy] = self._made(proxy, context)
        return self._clients[proxy]

    def _made(self, proxy: Proxy | None, context: ssl.SSLContext) -> "httpx2.AsyncClient":
        try:
            import httpx2

            return httpx2.AsyncClient(
                verify=context,
                http2=self._http2,
                proxy=None if proxy is None else _proxy(proxy, context),
                trust_env=False,
                follow_redirects=False,
                timeout=httpx2.Timeout(None, connect=self.connect_timeout_s),
            )
        except ImportError as error:
            raise TransportError("configuration", MISSING) from error


def _proxy(proxy: Proxy, context: ssl.SSLContext) -> "httpx2.Proxy":
    import httpx2

    secure = context if proxy.scheme == "https" else None
    return httpx2.Proxy(f"{proxy.scheme}://{proxy.place}", auth=proxy.login, ssl_context=secure)


class WideExchange:
    """One request and its response; see `clew.transport.seam.Exchange`."""

    def __init__(self, transport: WideTransport, request: HttpRequest) -> None:
        self._transport = transport
        self._request = request
        self._response: httpx2.Response | None = None
        self._pieces: AsyncIterator[bytes] | None = None
        self._decoder: Decoder = Identity()
        self._head_bytes = 0
        self._body_ended = False

    @property
    def bytes_received(self) -> int:
        body = 0 if self._response is None else self._response.num_bytes_downloaded
        return self._head_bytes + body

    async def open(self) -> Head:
        url = self._url()
        client = await self._transport.client(url)
        response = await self._asked(client, url)
        self._response = response
        headers = {name.lower(): value for name, value in response.headers.items()}
        self._head_bytes = 1 + sum(len(name) + len(value) for name, value in headers.items())
        self._decoder = decoder_for(headers.get("content-encoding", ""))
        self._pieces = response.aiter_raw()
        return Head(status=response.status_code, headers=headers)

    def _url(self) -> Url:
        try:
            url = split_url(self._request.url)
        except BadUrlError as error:
            message = f"the base URL cannot be used: {error}"
            raise TransportError("configuration", message) from error
        if url.scheme not in ("http", "https"):
            raise TransportError("configuration", f"{url.scheme}:// is not http:// or https://")
        return url

    async def _asked(self, client: "httpx2.AsyncClient", url: Url) -> "httpx2.Response":
        import httpx2

        own = [(name.encode(), value.encode()) for name, value in self._request.headers]
        try:
            request = client.build_request(
                self._request.method,
                self._request.url,
                headers=[(b"accept-encoding", b"identity"), *own],
                content=self._request.body,
            )
            try:
                return await client.send(request, stream=True)
            except httpx2.WriteError:
                # A connection that the library kept had died, as one may that a request was cancelled
                # on; it was put away with this, and what could not be written was not heard.
                return await client.send(request, stream=True)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            raise _fault(error, url, self._transport.rules.choose(url)) from error

    async def read(self) -> bytes:
        import httpx2

        while self._pieces is not None and not self._body_ended:
            if self._decoder.has_more:
                await asyncio.sleep(0)  # nothing is waited for, and others want their turn
                if data := self._decoder.feed(b""):
                    return data
            try:
                piece = await anext(self._pieces, None)
            except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
                kind: TransportFault = "reset"
                if isinstance(error, httpx2.RemoteProtocolError):
                    kind = "truncated"
                message = f"the connection ended too early ({_words(error)})"
                raise TransportError(kind, message) from error
            if piece is None:
                self._body_ended = True
                return self._decoder.close()
            if data := self._decoder.feed(piece):
                return data
        return b""

    async def close(self, *, answered: bool = False) -> None:
        del answered  # the library keeps a connection only after its last byte
        response, self._response, self._pieces = self._response, None, None
        if response is not None:
            # Whoever is cancelled here must not leave the connection half given back.
            await asyncio.shield(response.aclose())


def _fault(error: Exception, url: Url, proxy: Proxy | None) -> TransportError:
    """What the library raised before a head came, in our words and without a credential."""
    import httpx2

    where = url.host_and_port if proxy is None else f"{url.host_and_port} by proxy {proxy.place}"
    certificate = _cause(error, ssl.SSLCertVerificationError)
    if isinstance(certificate, ssl.SSLCertVerificationError):
        said = certificate.verify_message
        return TransportError("tls", f"the certificate of {where} was not accepted ({said})")
    if _cause(error, ssl.SSLError) is not None:
        return TransportError("tls", f"no TLS with {where}")
    match error:
        case httpx2.ConnectTimeout():
            return TransportError("connect_timeout", f"no connection to {where} in time")
        case httpx2.ProxyError():
            return TransportError("proxy", f"no way to {where} ({_words(error)})")
        case httpx2.ConnectError() | OSError():
            return TransportError("connect", f"no connection to {where} ({_words(error)})")
        case httpx2.RemoteProtocolError() if "disconnected" not in str(error):
            return TransportError("protocol", f"what came is not HTTP ({_words(error)})")
        case httpx2.NetworkError() | httpx2.RemoteProtocolError():
            return TransportError("reset", "the connection ended before an answer came")
    return TransportError("configuration", f"the request cannot be sent ({type(error).__name__})")


def _cause(error: BaseException, kind: type[BaseException]) -> BaseException | None:
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, kind):
        seen = seen.__cause__ or seen.__context__
    return seen


def _words(error: Any) -> str:
    return str(error)[:200] or type(error).__name__

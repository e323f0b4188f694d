"""Makes a connection: name to socket, tunnel through a proxy, TLS; each failure with its kind."""

import asyncio
import ssl

import h11

from clew.transport.channel import Channel
from clew.transport.proxy import Proxy
from clew.transport.seam import TransportError
from clew.transport.tls import Trust
from clew.transport.url import Url

MAX_TUNNEL_ANSWER_BYTES = 65_536


async def dial(url: Url, proxy: Proxy | None, trust: Trust, *, timeout_s: float) -> Channel:
    """A channel on which the request for `url` can be written at once."""
    where = url.host_and_port if proxy is None else f"{url.host_and_port} by proxy {proxy.place}"
    try:
        async with asyncio.timeout(timeout_s):
            return await _dial(url, proxy, trust)
    except TimeoutError as error:
        raise TransportError(
            "connect_timeout", f"no connection to {where} within {timeout_s:g} s"
        ) from error
    except ssl.SSLCertVerificationError as error:
        raise TransportError(
            "tls",
            f"the certificate of {where} was not accepted ({error.verify_message}); if a proxy or a "
            "server of your own signs it, name its certificates in NODE_EXTRA_CA_CERTS or SSL_CERT_FILE",
        ) from error
    except ssl.SSLEOFError as error:
        raise TransportError("connect", f"{where} hung up during the TLS handshake") from error
    except ssl.SSLError as error:
        raise TransportError("tls", f"no TLS with {where} ({error.reason or error})") from error
    except OSError as error:
        raise TransportError("connect", f"no connection to {where} ({_reason(error)})") from error


def _reason(error: OSError) -> str:
    """The system's word for it, without the addresses asyncio mixes in."""
    return error.strerror if error.errno is not None and error.strerror else str(error)


async def _dial(url: Url, proxy: Proxy | None, trust: Trust) -> Channel:
    first = url if proxy is None else proxy
    context = await trust.context() if "https" in (url.scheme, first.scheme) else None
    loop = asyncio.get_running_loop()
    _, channel = await loop.create_connection(
        Channel,
        first.host,
        first.port,
        ssl=context if first.scheme == "https" else None,
        happy_eyeballs_delay=0.25,
    )
    done = False
    try:
        if proxy is not None and url.scheme == "https":
            await _tunnel(channel, url, proxy)
            assert context is not None
            await channel.start_tls(context, url.host)
        done = True
    finally:
        if not done:
            channel.abort()
    return channel


async def _tunnel(channel: Channel, url: Url, proxy: Proxy) -> None:
    headers = [("Host", url.host_and_port)]
    if proxy.authorization is not None:
        headers.append(("Proxy-Authorization", proxy.authorization))
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_TUNNEL_ANSWER_BYTES)
    asked = http.send(h11.Request(method="CONNECT", target=url.host_and_port, headers=headers))
    channel.send((asked or b"") + (http.send(h11.EndOfMessage()) or b""))
    try:
        status = await _tunnel_status(channel, http)
        open_and_silent = channel.quiet and not http.trailing_data[0]
    except h11.RemoteProtocolError as error:
        raise TransportError(
            "proxy", f"the proxy {proxy.place} does not answer as one ({error})"
        ) from error
    if not 200 <= status < 300:
        hint = "; it wants a user and a password in its URL" if status == 407 else ""
        raise TransportError(
            "proxy", f"the proxy {proxy.place} gave HTTP {status} for {url.host_and_port}{hint}"
        )
    if not open_and_silent:
        raise TransportError("proxy", f"the proxy {proxy.place} broke the tunnel it had opened")


async def _tunnel_status(channel: Channel, http: h11.Connection) -> int:
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await channel.receive())
        elif isinstance(event, h11.Response):
            return int(event.status_code)
        elif isinstance(event, h11.ConnectionClosed):
            raise h11.RemoteProtocolError("it hung up")

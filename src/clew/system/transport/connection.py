"""Open a connection: resolve the name, connect, tunnel through a proxy, start TLS.

Every failure is classified by a kind.
"""

import asyncio
import contextlib
import os
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeAlias, TypeVar

import h11

from clew.system.transport.channel import ByteChannel
from clew.system.transport.network import Network, Proxy, Url
from clew.system.transport.seam import TransportError

# Runs a blocking function in a daemon thread.


T = TypeVar("T")


def aside(function: Callable[[], T]) -> "asyncio.Future[T]":
    """Run `function` in a thread and return a future for its result.

    If the future is cancelled, the thread keeps running and its result is dropped.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(results: list[T], error: BaseException | None) -> None:
        if future.done():
            return
        if results:
            future.set_result(results[0])
        else:
            future.set_exception(error or RuntimeError("the thread ended without a result"))

    def work() -> None:
        results: list[T] = []
        error: BaseException | None = None
        try:
            results.append(function())
        except (OSError, TransportError) as expected:
            error = expected
        finally:
            # Pass unexpected errors to the caller too, in addition to the thread's own report.
            error = error or sys.exc_info()[1]
            with contextlib.suppress(RuntimeError):  # The loop is closed, so no caller waits.
                loop.call_soon_threadsafe(settle, results, error)

    threading.Thread(target=work, daemon=True, name="aside").start()
    return future


# One TLS context for all connections, built once and in advance.


BUILT_S = 2.0


class Trust:
    """Builds the TLS context on first use. `warm` starts building it without waiting."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._building: asyncio.Future[ssl.SSLContext] | None = None

    def warm(self) -> None:
        if self._building is None:
            self._building = aside(partial(build_context, self._network))
            # A failure is raised when a connection is opened. A warmed context may never be used.
            self._building.add_done_callback(lambda f: f.cancelled() or f.exception())

    async def context(self) -> ssl.SSLContext:
        self.warm()
        assert self._building is not None
        # Shielded, because cancelling one waiter must not cancel the others.
        return await asyncio.shield(self._building)

    async def aclose(self) -> None:
        """Wait, for a limited time, until no context is being built.

        The interpreter crashes if it exits while a thread is inside the TLS library.
        """
        if self._building is not None:
            await asyncio.wait({self._building}, timeout=BUILT_S)


def build_context(network: Network) -> ssl.SSLContext:
    context = _loaded("SSL_CERT_FILE or SSL_CERT_DIR", network.cert_file, network.cert_folder, None)
    if network.extra_certs is not None:
        context = _loaded("CLEW_CA_FILE or NODE_EXTRA_CA_CERTS", network.extra_certs, None, context)
    # The same rules in every Python version: since 3.13, certificates of company proxies with a
    # formal defect are rejected, and before it a named certificate is only trusted as a root.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # Announcing the protocol lets a server that prefers HTTP/2 fall back immediately.
    context.set_alpn_protocols(["http/1.1"])
    return context


def _loaded(
    variable: str, file: str | None, folder: str | None, onto: ssl.SSLContext | None
) -> ssl.SSLContext:
    try:
        if folder is not None:
            _must_be_folder(folder)
        if onto is None:
            return ssl.create_default_context(cafile=file, capath=folder)
        onto.load_verify_locations(cafile=file, capath=folder)
    except (OSError, ValueError) as error:  # `ssl.SSLError` is an `OSError`.
        path = file or folder
        raise TransportError(
            "configuration",
            f"cannot read certificates from {path!r}, which {variable} specifies ({error})",
        ) from error
    return onto


def _must_be_folder(path: str) -> None:
    """Raise an error if a certificate folder is missing.

    OpenSSL treats a missing folder as empty and then trusts no certificate.
    """
    from pathlib import Path

    if not Path(path).is_dir():
        raise NotADirectoryError("folder not found")


MAX_TUNNEL_ANSWER_BYTES = 65_536
# The time limit for one address of a host that has others.
NEXT_ADDRESS_AFTER_S = 3.0

# Returns whether the host may be connected to at this port and numeric address.
Admits: TypeAlias = Callable[[str, int, str], bool]
Address: TypeAlias = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]


async def open_channel(
    url: Url, proxy: Proxy | None, trust: Trust, *, timeout_s: float, admits: Admits | None = None
) -> ByteChannel:
    """Open a channel on which the request for `url` can be sent immediately."""
    where = (
        url.host_and_port if proxy is None else f"{url.host_and_port} through proxy {proxy.place}"
    )
    try:
        async with asyncio.timeout(timeout_s):
            return await _dial(url, proxy, trust, None if proxy is not None else admits)
    except TimeoutError as error:
        raise TransportError(
            "connect_timeout", f"cannot connect to {where} within {timeout_s:g} s"
        ) from error
    except ssl.SSLCertVerificationError as error:
        raise TransportError(
            "tls",
            f"the certificate of {where} was rejected ({error.verify_message}); if your own proxy"
            f" or server signed it, set CLEW_CA_FILE or SSL_CERT_FILE to its certificates",
        ) from error
    except ssl.SSLEOFError as error:
        raise TransportError(
            "connect", f"{where} closed the connection during the TLS handshake"
        ) from error
    except ssl.SSLError as error:
        raise TransportError("tls", f"TLS with {where} failed ({error.reason or error})") from error
    except OSError as error:
        is_refused = isinstance(error, ConnectionRefusedError) and proxy is None
        raise TransportError(
            "no_server" if is_refused and is_own(url.host) else "connect",
            f"cannot connect to {where} ({_reason(error)})",
        ) from error


def is_own(host: str) -> bool:
    """Return whether a host is this machine."""
    return host in ("localhost", "::1") or host.startswith("127.")


def _reason(error: OSError) -> str:
    """Return the system's message for an error, without the addresses that asyncio adds."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error) or type(error).__name__


async def _dial(url: Url, proxy: Proxy | None, trust: Trust, admits: Admits | None) -> ByteChannel:
    first = url if proxy is None else proxy
    context = await trust.context() if "https" in (url.scheme, first.scheme) else None
    channel = await _connect(first.host, first.port, admits)
    done = False
    try:
        if first.scheme == "https" and context is not None:
            await channel.start_tls(context, first.host)
        if proxy is not None and proxy.is_socks:
            from clew.system.transport.socks import (
                open_by_socks,  # Few connections need this import.
            )

            await open_by_socks(channel, url, proxy)
        elif proxy is not None and url.scheme == "https":
            await _tunnel(channel, url, proxy)
        if proxy is not None and url.scheme == "https" and context is not None:
            await channel.start_tls(context, url.host)
        done = True
    finally:
        if not done:
            channel.abort()
    return channel


async def _connect(host: str, port: int, admits: Admits | None) -> ByteChannel:
    """Connect to the first address of the host that accepts a connection.

    This function tries the addresses in turn itself: in Python 3.11 to 3.13, `create_connection`
    with happy eyeballs leaks the socket of an attempt that succeeds at the moment it is cancelled.
    """
    addresses = await _addresses(host, port)
    if admits is not None:
        # Connect to the address that was checked: the name is not resolved again.
        addresses = [place for place in addresses if admits(host, port, str(place[1][0]))]
        if not addresses:
            raise TransportError(
                "configuration", f"connections to the addresses of {host} are not allowed"
            )
    for address in addresses[:-1]:
        try:
            async with asyncio.timeout(NEXT_ADDRESS_AFTER_S):
                return await _connect_to(*address)
        except OSError:
            continue
    return await _connect_to(*addresses[-1])


async def _connect_to(family: int, address: Address) -> ByteChannel:
    loop = asyncio.get_running_loop()
    connection = socket.socket(family, socket.SOCK_STREAM)
    handed_over = False
    try:
        connection.setblocking(False)
        await loop.sock_connect(connection, address)
        _, channel = await loop.create_connection(ByteChannel, sock=connection)
        handed_over = True
    finally:
        if not handed_over:
            connection.close()
    return channel


async def _addresses(host: str, port: int) -> list[tuple[int, Address]]:
    """Return the addresses of a host, alternating between families.

    A literal address needs no resolver.
    """
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return [(family, (host, port))]
    addresses = await aside(partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM))
    places: list[tuple[int, Address]] = [(family, address) for family, *_, address in addresses]
    firsts = [place for place in places if place[0] == places[0][0]]
    others = [place for place in places if place[0] != places[0][0]]
    mixed = [place for pair in zip(firsts, others, strict=False) for place in pair]
    return list(dict.fromkeys([*mixed, *firsts, *others]))


async def _tunnel(channel: ByteChannel, url: Url, proxy: Proxy) -> None:
    headers = [("Host", url.host_and_port)]
    if proxy.authorization is not None:
        headers.append(("Proxy-Authorization", proxy.authorization))
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_TUNNEL_ANSWER_BYTES)
    request_bytes = http.send(
        h11.Request(method="CONNECT", target=url.host_and_port, headers=headers)
    )
    channel.send((request_bytes or b"") + (http.send(h11.EndOfMessage()) or b""))
    try:
        status = await _tunnel_status(channel, http)
        open_and_silent = channel.quiet and not http.trailing_data[0]
    except h11.RemoteProtocolError as error:
        raise TransportError(
            "proxy", f"the proxy {proxy.place} sent an invalid response ({error})"
        ) from error
    if not 200 <= status < 300:
        hint = "; add a user and a password to its URL" if status == 407 else ""
        raise TransportError(
            "proxy",
            f"the proxy {proxy.place} responded with HTTP {status} for {url.host_and_port}{hint}",
            status,
        )
    if not open_and_silent:
        raise TransportError(
            "proxy", f"the proxy {proxy.place} closed the tunnel or sent unexpected data through it"
        )


async def _tunnel_status(channel: ByteChannel, http: h11.Connection) -> int:
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await channel.receive())
        elif isinstance(event, h11.Response):
            return int(event.status_code)
        elif isinstance(event, h11.ConnectionClosed):
            raise h11.RemoteProtocolError("the connection was closed")

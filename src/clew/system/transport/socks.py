"""The client side of SOCKS 5 (RFC 1928, RFC 1929): messages of a few bytes over a channel.

The proxy always receives the host name and resolves it, whether the scheme is `socks5` or
`socks5h`, because clients behind such a proxy often cannot resolve names. Must never put the
password into an error.

Decision: docs/decisions/030-http-transport.md
"""

import ipaddress

from clew.system.transport.channel import ByteChannel
from clew.system.transport.network import Proxy, Url
from clew.system.transport.seam import TransportError

VERSION, LOGIN_VERSION = 5, 1
NO_LOGIN, BY_LOGIN = 0, 2
CONNECT = 1
IPV4, NAME, IPV6 = 1, 3, 4
ADDRESS_BYTES = {IPV4: 4, IPV6: 16}
LONGEST = 255  # The longest name, user or password, because the length is a single byte.

SAID = {
    1: "general failure",
    2: "not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "timed out",
    7: "command not supported",
    8: "address type not supported",
}


async def open_by_socks(channel: ByteChannel, url: Url, proxy: Proxy) -> None:
    """Connect the channel to the host of `url`."""
    talk = _Talk(channel, proxy)
    await _agree(talk, proxy)
    talk.send(bytes((VERSION, CONNECT, 0)) + _address(url.host) + url.port.to_bytes(2, "big"))
    version, answer, _, kind = await talk.read(4)
    if version != VERSION:
        raise talk.fault("sent an invalid response")
    if answer:
        why = SAID.get(answer, f"error {answer}")
        raise talk.fault(f"cannot connect to {url.host_and_port}: {why}")
    length = ADDRESS_BYTES.get(kind) or (await talk.read(1))[0]
    await talk.read(length + 2)
    if not talk.is_silent:
        raise talk.fault("closed the tunnel or sent unexpected data through it")


async def _agree(talk: "_Talk", proxy: Proxy) -> None:
    methods = (NO_LOGIN,) if proxy.login is None else (NO_LOGIN, BY_LOGIN)
    talk.send(bytes((VERSION, len(methods), *methods)))
    version, method = await talk.read(2)
    if version != VERSION:
        raise talk.fault("sent an invalid response")
    if method not in methods:
        raise talk.fault("requires another login method, or a user and a password in its URL")
    if method == BY_LOGIN and proxy.login is not None:
        user, password = (_sized(part.encode(), "user or password") for part in proxy.login)
        talk.send(bytes((LOGIN_VERSION,)) + user + password)
        if (await talk.read(2))[1]:
            raise talk.fault("rejected the user and password in its URL")


class _Talk:
    """Reads exactly the expected number of bytes, and keeps the bytes after them."""

    def __init__(self, channel: ByteChannel, proxy: Proxy) -> None:
        self._channel = channel
        self._proxy = proxy
        self._rest = b""

    def send(self, data: bytes) -> None:
        self._channel.send(data)

    async def read(self, count: int) -> bytes:
        while len(self._rest) < count:
            data = await self._channel.receive()
            if not data:
                raise self.fault("closed the connection")
            self._rest += data
        chunk, self._rest = self._rest[:count], self._rest[count:]
        return chunk

    @property
    def is_silent(self) -> bool:
        return not self._rest and self._channel.quiet

    def fault(self, what: str) -> TransportError:
        return TransportError("proxy", f"the proxy {self._proxy.place} {what}")


def _address(host: str) -> bytes:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return bytes((NAME,)) + _sized(host.encode("ascii"), "host name")
    return bytes((IPV4 if address.version == 4 else IPV6,)) + address.packed


def _sized(data: bytes, what: str) -> bytes:
    if len(data) > LONGEST:
        raise TransportError("configuration", f"the {what} is too long for a SOCKS proxy")
    return bytes((len(data),)) + data

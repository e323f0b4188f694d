"""Which proxy a URL goes through.

Owns the rules of proxies by scheme and of the hosts that need none. Must never connect, and never
show a proxy's credentials: `Proxy.place` is what errors may say.
"""

from base64 import b64encode

from msgspec import Struct

from clew.transport.network import Network
from clew.transport.seam import TransportError
from clew.transport.url import BadUrlError, Url, split_url, unquote

SOCKS = ("socks5", "socks5h")


class Proxy(Struct, frozen=True, kw_only=True):
    """A proxy: one that speaks HTTP, itself over TCP or TLS, or SOCKS. `login` is never shown."""

    scheme: str
    host: str
    port: int
    login: tuple[str, str] | None = None

    @property
    def place(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_socks(self) -> bool:
        return self.scheme in SOCKS

    @property
    def authorization(self) -> str | None:
        return None if self.login is None else _basic(*self.login)


class ProxyRules(Struct, frozen=True, kw_only=True):
    """The proxies for each scheme, and where none is to be used."""

    http: str | None = None
    https: str | None = None
    exceptions: tuple[str, ...] = ()

    def choose(self, url: Url) -> Proxy | None:
        chosen = self.https if url.scheme == "https" else self.http
        if chosen is None or any(_covers(e, url) for e in self.exceptions):
            return None
        return read_proxy(chosen)


def rules_of(network: Network) -> ProxyRules:
    return ProxyRules(
        http=network.http_proxy,
        https=network.https_proxy,
        exceptions=tuple(network.exceptions.replace(",", " ").split()),
    )


def read_proxy(text: str) -> Proxy:
    try:
        url = split_url(text, default_scheme="http")
    except BadUrlError as error:
        raise TransportError("configuration", f"the proxy's URL cannot be read: {error}") from error
    if url.scheme not in ("http", "https", *SOCKS):
        raise TransportError(
            "configuration",
            f"the proxy {url.host_and_port} is a {url.scheme}:// one, which clew does not speak; "
            "name an http://, https:// or socks5:// proxy or add the host to NO_PROXY",
        )
    return Proxy(scheme=url.scheme, host=url.host, port=url.port, login=login_of(url.credentials))


def login_of(credentials: str | None) -> tuple[str, str] | None:
    """User and password of a URL, which writes them in percent signs."""
    if credentials is None:
        return None
    user, _, password = credentials.partition(":")
    return unquote(user), unquote(password)


def basic(credentials: str | None) -> str | None:
    """The header for the user and password of a URL, as written there."""
    login = login_of(credentials)
    return None if login is None else _basic(*login)


def _basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode("ascii")


def _covers(exception: str, url: Url) -> bool:
    """Whether one word of NO_PROXY names this URL's host."""
    if exception == "*":
        return True
    if "/" in exception:
        return _in_network(exception, url.host)
    name, port = _split_exception(exception.lower())
    if port is not None and port != str(url.port):
        return False
    name = name.removeprefix("*").removeprefix(".")
    return bool(name) and (url.host == name or url.host.endswith("." + name))


def _split_exception(text: str) -> tuple[str, str | None]:
    if text.startswith("["):
        name, _, port = text[1:].partition("]")
        return name, port.removeprefix(":") or None
    if text.count(":") == 1:
        name, _, port = text.partition(":")
        return name, port
    return text, None


def _in_network(network: str, host: str) -> bool:
    from ipaddress import ip_address, ip_network

    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False

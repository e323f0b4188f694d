"""Which proxy a URL goes through, from the usual variables or an explicit choice.

Owns the rules of HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY. Must never connect, and never
show a proxy's credentials: `Proxy.place` is what errors may say.
"""

from base64 import b64encode
from collections.abc import Mapping

from msgspec import Struct

from clew.transport.seam import TransportError
from clew.transport.url import BadUrlError, Url, split_url, unquote


class Proxy(Struct, frozen=True, kw_only=True):
    """A proxy that speaks HTTP, itself over TCP or TLS."""

    scheme: str
    host: str
    port: int
    authorization: str | None = None

    @property
    def place(self) -> str:
        return f"{self.host}:{self.port}"


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


def rules_from_environment(
    environment: Mapping[str, str], *, explicit: str | None = None
) -> ProxyRules:
    """The rules of the environment; an explicit proxy stands above the proxy variables."""

    def value(name: str) -> str | None:
        return environment.get(name) or environment.get(name.upper()) or None

    everything = explicit or None
    return ProxyRules(
        http=everything or value("http_proxy") or value("all_proxy"),
        https=everything or value("https_proxy") or value("all_proxy"),
        exceptions=tuple((value("no_proxy") or "").replace(",", " ").split()),
    )


def read_proxy(text: str) -> Proxy:
    try:
        url = split_url(text, default_scheme="http")
    except BadUrlError as error:
        raise TransportError("configuration", f"the proxy's URL cannot be read: {error}") from error
    if url.scheme not in ("http", "https"):
        raise TransportError(
            "configuration",
            f"the proxy {url.host_and_port} is a {url.scheme}:// one, which clew does not speak; "
            "name an http:// or https:// proxy (most SOCKS servers offer one) or add the host to NO_PROXY",
        )
    return Proxy(
        scheme=url.scheme, host=url.host, port=url.port, authorization=basic(url.credentials)
    )


def basic(credentials: str | None) -> str | None:
    """The header for the user and password of a URL, as written there."""
    if credentials is None:
        return None
    user, _, password = credentials.partition(":")
    return "Basic " + b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode("ascii")


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

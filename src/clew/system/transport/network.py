"""Network settings of this machine: its proxies and trusted certificates, as one value.

Nothing here reads the process's environment. The variables are passed in under the field names of
`clew.system.config.environment`.
"""

from base64 import b64encode
from typing import Protocol

from msgspec import Struct

from clew.system.transport.seam import TransportError

# Parses the few kinds of URL that clew's clients use. Importing `urllib` would cost more than
# everything else here.


DEFAULT_PORTS = {"http": 80, "https": 443}


class BadUrlError(ValueError):
    """A URL to which no request can be sent. The message contains no user or password."""


class Url(Struct, frozen=True, kw_only=True):
    """An absolute URL with a host.

    `credentials` is `user:password` as written, and is never shown.
    """

    scheme: str
    host: str
    port: int
    target: str
    credentials: str | None = None

    @property
    def authority(self) -> str:
        """The `Host` header: `host:port`, or only the host for a default port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS.get(self.scheme) else f"{host}:{self.port}"

    @property
    def host_and_port(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def split_url(text: str, *, default_scheme: str | None = None) -> Url:
    """Parse `scheme://[user[:password]@]host[:port][/path][?query]`."""
    if any("\ud800" <= c <= "\udfff" for c in text):
        raise BadUrlError("it contains bytes that are not UTF-8")
    scheme, separator, rest = text.strip().partition("://")
    if not separator:
        if default_scheme is None:
            raise BadUrlError("it must begin with http:// or https://")
        scheme, rest = default_scheme, text.strip()
    authority, target = _split_target(rest)
    credentials, _, place = authority.rpartition("@")
    host, port = _split_port(place)
    if not host or "\\" in host or any(c <= " " or c == "\x7f" for c in host + target):
        raise BadUrlError(
            f"{scheme}://... must have a valid host, and must not contain spaces or control characters"
        )
    scheme = scheme.lower()
    return Url(
        scheme=scheme,
        host=_ascii(host),
        port=port if port is not None else DEFAULT_PORTS.get(scheme, 1080),
        target=_sendable(target),
        credentials=credentials or None,
    )


def _split_target(rest: str) -> tuple[str, str]:
    rest = rest.partition("#")[0]
    end = min((i for i in (rest.find("/"), rest.find("?")) if i >= 0), default=len(rest))
    target = rest[end:]
    return rest[:end], target if target.startswith("/") else "/" + target


def _sendable(target: str) -> str:
    """Return the request target in ASCII, with other characters percent-encoded as UTF-8."""
    if target.isascii():
        return target
    return "".join(c if c.isascii() else "".join(f"%{b:02X}" for b in c.encode()) for c in target)


def _split_port(place: str) -> tuple[str, int | None]:
    if place.startswith("["):
        host, _, after = place[1:].partition("]")
        digits = after.removeprefix(":")
    else:
        host, _, digits = place.partition(":")
    if not digits:
        return host.lower(), None
    if not (digits.isascii() and digits.isdigit() and 0 < int(digits) < 65536):
        raise BadUrlError(f"the port after {host!r} is not a number from 1 to 65535")
    return host.lower(), int(digits)


def _ascii(host: str) -> str:
    """Return the host name in ASCII, as name servers know it.

    Raise an error for a host name that the resolver would reject.
    """
    try:
        return host if host.isascii() and _resolvable(host) else host.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise BadUrlError(f"{host!r} is not a host name") from error


def _resolvable(host: str) -> bool:
    """Return whether DNS allows the length of every label of an ASCII name."""
    return all(0 < len(label) < 64 for label in host.removesuffix(".").split("."))


def unquote(text: str) -> str:
    """Decode percent-encoding, which the user and password of a proxy may contain."""
    out = bytearray()
    raw = text.encode()
    i = 0
    while i < len(raw):
        if raw[i] == 0x25 and _is_hex(raw[i + 1 : i + 3]):
            out.append(int(raw[i + 1 : i + 3], 16))
            i += 3
        else:
            out.append(raw[i])
            i += 1
    return out.decode("utf-8", "replace")


def _is_hex(pair: bytes) -> bool:
    return len(pair) == 2 and all(c in b"0123456789abcdefABCDEF" for c in pair)


class Variables(Protocol):
    """The values of environment variables, by field."""

    def text(self, field: str) -> str | None: ...

    def switch(self, field: str) -> bool: ...


class Network(Struct, frozen=True, kw_only=True):
    """The values of the usual network variables, None or empty if unset.

    Proxy URLs may contain a password.
    """

    http_proxy: str | None = None
    https_proxy: str | None = None
    # Hosts to connect to without a proxy, separated by commas or spaces.
    exceptions: str = ""
    # Certificates that replace the system's, and certificates that are added to them.
    cert_file: str | None = None
    cert_folder: str | None = None
    extra_certs: str | None = None


def read_network(environment: Variables, *, proxy: str | None = None) -> Network:
    """Read the network variables.

    `proxy` replaces the proxies in the variables, but the hosts that need no proxy remain.
    """
    everything = proxy or None
    usual = environment.text("all_proxy")
    return Network(
        http_proxy=everything or environment.text("http_proxy") or usual,
        https_proxy=everything or environment.text("https_proxy") or usual,
        exceptions=environment.text("no_proxy") or "",
        cert_file=environment.text("cert_file"),
        cert_folder=environment.text("cert_folder"),
        extra_certs=environment.text("extra_certs"),
    )


# The choice of a proxy for a URL.


SOCKS = ("socks5", "socks5h")


class Proxy(Struct, frozen=True, kw_only=True):
    """An HTTP proxy, reached over TCP or TLS, or a SOCKS proxy. `login` is never shown."""

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
    """The proxies for each scheme, and the hosts that need none."""

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
        raise TransportError("configuration", f"invalid proxy URL: {error}") from error
    if url.scheme not in ("http", "https", *SOCKS):
        raise TransportError(
            "configuration",
            f"unsupported scheme {url.scheme}:// of the proxy {url.host_and_port}; "
            "use an http://, https:// or socks5:// proxy, or add the host to NO_PROXY",
        )
    return Proxy(scheme=url.scheme, host=url.host, port=url.port, login=login_of(url.credentials))


def login_of(credentials: str | None) -> tuple[str, str] | None:
    """Return the user and password from a URL, percent-decoded, or None if it has none."""
    if credentials is None:
        return None
    user, _, password = credentials.partition(":")
    return unquote(user), unquote(password)


def make_basic_header(credentials: str | None) -> str | None:
    """Return the Authorization header for the user and password from a URL, or None."""
    login = login_of(credentials)
    return None if login is None else _basic(*login)


def _basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode("ascii")


def _covers(exception: str, url: Url) -> bool:
    """Return whether an entry of NO_PROXY matches this URL's host."""
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

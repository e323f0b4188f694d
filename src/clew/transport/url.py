"""Splits the few kinds of URL a client of ours is given; `urllib` would cost more than the rest."""

from msgspec import Struct

DEFAULT_PORTS = {"http": 80, "https": 443}


class BadUrlError(ValueError):
    """Not a URL a request can go to; its text repeats no user or password."""


class Url(Struct, frozen=True, kw_only=True):
    """An absolute URL with a host; `credentials` is `user:password` as written, never shown."""

    scheme: str
    host: str
    port: int
    target: str
    credentials: str | None = None

    @property
    def authority(self) -> str:
        """`host:port` as a `Host` header wants it: the port only where it is not the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS.get(self.scheme) else f"{host}:{self.port}"

    @property
    def host_and_port(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def split_url(text: str, *, default_scheme: str | None = None) -> Url:
    """Reads `scheme://[user[:password]@]host[:port][/path][?query]`."""
    if any("\ud800" <= c <= "\udfff" for c in text):
        raise BadUrlError("it holds bytes that are not UTF-8")
    scheme, separator, rest = text.strip().partition("://")
    if not separator:
        if default_scheme is None:
            raise BadUrlError("a URL must begin with http:// or https://")
        scheme, rest = default_scheme, text.strip()
    authority, target = _split_target(rest)
    credentials, _, place = authority.rpartition("@")
    host, port = _split_port(place)
    if not host or "\\" in host or any(c <= " " or c == "\x7f" for c in host + target):
        raise BadUrlError(f"{scheme}://... names no host that can be reached")
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
    """The target as HTTP carries it: what is not ASCII as its UTF-8, in percent signs."""
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
    """The host as name servers know it; the resolver raises on the same ones, in a thread."""
    try:
        return host if host.isascii() and _resolvable(host) else host.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise BadUrlError(f"{host!r} is not a host name") from error


def _resolvable(host: str) -> bool:
    """Whether every label of an ASCII name has a length that DNS can carry."""
    return all(0 < len(label) < 64 for label in host.removesuffix(".").split("."))


def unquote(text: str) -> str:
    """Undoes percent-encoding, as the parts of a proxy's user and password may carry it."""
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

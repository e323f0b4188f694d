"""Access checks of the server: host names, origins, tokens and scopes.

A web page must not reach a server on this machine (DNS rebinding, cross-site requests). So the
server accepts only listed host names, and a request needs a token in its `Authorization` header.
The server sets no cookie and sends no CORS header.
"""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from msgspec import Struct
from starlette.datastructures import Headers

from clew.serve.log import RefusedError, hash_secret

LOOPBACK = ("127.0.0.1", "localhost", "::1")
# How many invalid tokens from one address, or uses of one invalid token, are answered per minute.
MOST_FAILURES = 20
FAILURES_S = 60.0
# The rate of a viewer's messages: far above what a user sends.
PER_SECOND, BURST = 100.0, 1_000.0
# User names that a proxy may send: names and email addresses.
USER = re.compile(r"[A-Za-z0-9_.@+-]{1,128}")


def split_address(text: str) -> tuple[str, int]:
    """Return the host and port of an address. Raise ValueError unless it is `HOST:PORT`."""
    parts = urlsplit(f"//{text}")
    if not parts.hostname or parts.port is None or parts.path:
        raise ValueError(f"{text!r} must be HOST:PORT, such as 127.0.0.1:7480")
    return parts.hostname, parts.port


def is_loopback(host: str) -> bool:
    return host in LOOPBACK


def check_origin(headers: Mapping[str, str], hosts: frozenset[str]) -> None:
    """Refuse a request with an unlisted host name, or from another site."""
    host = (urlsplit(f"//{headers.get('host', '')}").hostname or "").lower()
    if host not in hosts:
        raise RefusedError(
            421,
            "unknown_host",
            f"this server does not accept the host name {host!r}; start it with"
            f" --host {host or 'NAME'}",
        )
    origin = headers.get("origin")
    if origin is not None and (urlsplit(origin).hostname or "").lower() not in hosts:
        raise RefusedError(403, "foreign_origin", f"requests from {origin!r} are not allowed")


def check_single(headers: Headers, names: Iterable[str]) -> None:
    """Refuse a request that a proxy could interpret differently than this server.

    A request with two lengths could contain a second request that no proxy has checked.
    """
    if "content-length" in headers and "transfer-encoding" in headers:
        message = "content-length and transfer-encoding must not be sent together"
        raise RefusedError(400, "ambiguous_request", message)
    for name in names:
        if len(headers.getlist(name)) > 1:
            raise RefusedError(400, "ambiguous_request", f"{name} must be sent only once")


class ProxyUsers(Struct, frozen=True, kw_only=True):
    """Users whom a trusted proxy has identified, for example by OpenID Connect.

    `header` is the request header with the user's name; `scopes` are the scopes of these users.
    """

    header: str
    scopes: frozenset[str]

    def find(self, headers: Mapping[str, str], peer: str, proxies: frozenset[str]) -> str:
        """Return the user that the proxy identified; empty if no proxy sent the request."""
        user = headers.get(self.header, "")
        if not user or peer not in proxies:
            return ""
        if not USER.fullmatch(user):
            raise RefusedError(403, "invalid_user", "the proxy sent an invalid user name")
        return user


def bearer_of(headers: Mapping[str, str]) -> str:
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


class DeviceRates:
    """A rate limit for each device: a token bucket of requests."""

    def __init__(self, *, per_second: float = PER_SECOND, burst: float = BURST) -> None:
        self._per_second, self._burst = per_second, burst
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, name: str, now_s: float) -> None:
        """Count a request. Refuse it if the device has sent too many."""
        if len(self._left) > 10_000:
            self._left.clear()
        left, at_s = self._left.get(name, (self._burst, now_s))
        left = min(self._burst, left + (now_s - at_s) * self._per_second)
        if left < 1:
            raise RefusedError(429, "too_many_requests", "too many requests; try again later")
        self._left[name] = (left - 1, now_s)


class Failures:
    """The invalid tokens of the last minute, counted to prevent fast guessing.

    A valid token is never refused, even if other tokens from the same address, such as a proxy's,
    have failed. A token that has failed too often is no longer looked up.
    """

    def __init__(self) -> None:
        self._times: dict[str, list[float]] = {}

    def check(self, token: str, now_s: float) -> None:
        """Refuse a token that has failed too often."""
        if len(self._recent(hash_secret(token), now_s)) >= MOST_FAILURES:
            raise refuse_guess()

    def note(self, token: str, address: str, now_s: float) -> None:
        """Record an invalid token. Raise RefusedError if its address has sent too many."""
        if len(self._times) > 10_000:
            self._times = {
                name: times for name in self._times if (times := self._recent(name, now_s))
            }
        names = (hash_secret(token), f"address {address}")
        for name in names:
            self._times[name] = [*self._recent(name, now_s), now_s][-MOST_FAILURES:]
        if len(self._times[names[1]]) >= MOST_FAILURES:
            raise refuse_guess()

    def _recent(self, name: str, now_s: float) -> list[float]:
        return [at for at in self._times.get(name, ()) if now_s - at < FAILURES_S]


def refuse_guess() -> RefusedError:
    return RefusedError(429, "too_many_attempts", "too many invalid tokens; wait a minute")

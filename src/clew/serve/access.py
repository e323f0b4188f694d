"""Who may ask the server for what: host names, origins, tokens and scopes.

A page in a browser must not reach a server on this machine (DNS rebinding, cross-site requests), so
the names under which the server is addressed are listed, and a request needs a token in its
`Authorization` header. The server sets no cookie and sends no CORS header.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from clew.serve.log import RefusedError, hash_secret

LOOPBACK = ("127.0.0.1", "localhost", "::1")
# Invalid tokens of one address, or uses of one invalid token, within a minute before the server
# stops answering them.
MOST_FAILURES = 20
FAILURES_S = 60.0


def split_address(text: str) -> tuple[str, int]:
    """Return host and port. Raise ValueError for anything else."""
    parts = urlsplit(f"//{text}")
    if not parts.hostname or parts.port is None or parts.path:
        raise ValueError(f"{text!r} must be HOST:PORT, such as 127.0.0.1:7480")
    return parts.hostname, parts.port


def is_loopback(host: str) -> bool:
    return host in LOOPBACK


def check_origin(headers: Mapping[str, str], hosts: frozenset[str]) -> None:
    """Refuse a request that addresses the server by another name, or comes from another site."""
    host = (urlsplit(f"//{headers.get('host', '')}").hostname or "").lower()
    if host not in hosts:
        raise RefusedError(
            421,
            "unknown_host",
            f"this server does not answer for {host!r}; start it with --host {host or 'NAME'}",
        )
    origin = headers.get("origin")
    if origin is not None and (urlsplit(origin).hostname or "").lower() not in hosts:
        raise RefusedError(403, "foreign_origin", f"requests from {origin!r} are not allowed")


def bearer_of(headers: Mapping[str, str]) -> str:
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


class Failures:
    """Invalid tokens of the last minute, so that none can be guessed quickly.

    A valid token is never refused, whoever else fails at the same address, such as that of a proxy.
    A token that failed too often is no longer looked up.
    """

    def __init__(self) -> None:
        self._times: dict[str, list[float]] = {}

    def check(self, token: str, now_s: float) -> None:
        """Refuse a token that failed too often."""
        if len(self._recent(hash_secret(token), now_s)) >= MOST_FAILURES:
            raise refuse_guess()

    def note(self, token: str, address: str, now_s: float) -> None:
        """Record an invalid token. Refuse it in other words if its address sent too many."""
        if len(self._times) > 10_000:
            self._times = {
                name: times for name in self._times if (times := self._recent(name, now_s))
            }
        named = (hash_secret(token), f"address {address}")
        for name in named:
            self._times[name] = [*self._recent(name, now_s), now_s][-MOST_FAILURES:]
        if len(self._times[named[1]]) >= MOST_FAILURES:
            raise refuse_guess()

    def _recent(self, name: str, now_s: float) -> list[float]:
        return [at for at in self._times.get(name, ()) if now_s - at < FAILURES_S]


def refuse_guess() -> RefusedError:
    return RefusedError(429, "too_many_attempts", "too many invalid tokens; wait a minute")

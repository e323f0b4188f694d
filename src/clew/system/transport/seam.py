"""The seam between who speaks HTTP and who uses it: open, read, close.

Owns the words of an exchange and the one exception of this folder. Whatever stands behind the seam
must never put a secret (a key, a proxy's password) into an error's text.
"""

from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from clew.core.messages.errors import OutsideError

TransportFault: TypeAlias = Literal[
    "configuration", "connect", "connect_timeout", "proxy", "tls", "reset", "protocol", "content",
    "truncated",
]  # fmt: skip


class TransportError(OutsideError):
    """An exchange that could not be finished: of what kind, and what came instead."""

    def __init__(self, kind: TransportFault, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.kind: TransportFault = kind
        self.message = message
        # What a proxy answered instead of opening its tunnel.
        self.status = status


class HttpRequest(Struct, frozen=True, kw_only=True):
    """One request, whole; `host`, `content-length` and `accept-encoding` are the transport's own."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


class Head(Struct, frozen=True, kw_only=True):
    """The head of a response; header names in lower case, repeated ones joined with a comma."""

    status: int
    headers: Mapping[str, str]


class Exchange(Protocol):
    """One request and its response. Closing is idempotent and may come at any time."""

    @property
    def bytes_received(self) -> int:
        """What came over the wire so far, the head included."""
        ...

    async def open(self) -> Head:
        """Sends the request and waits for the head; raises `TransportError`."""
        ...

    async def read(self) -> bytes:
        """The next piece of the body as it comes, decoded; `b""` at its end."""
        ...

    async def close(self, *, answered: bool = False) -> None:
        """Gives the connection back when it can be used again, else cuts it.

        `answered`: all that matters was read, so the connection may be kept for the case that the
        rest of the body, an end mark as a rule, comes by itself.
        """
        ...


class Transport(Protocol):
    def exchange(self, request: HttpRequest) -> Exchange: ...

    def warm(self, url: str) -> None:
        """Begins what the first exchange with `url` will need, without waiting for it."""
        ...

    async def aclose(self) -> None: ...

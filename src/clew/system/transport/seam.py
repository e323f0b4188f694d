"""The interface between HTTP and its users: open, read, close.

Owns the types of an exchange and the only exception type of this package. An implementation must
never put a secret (a key, a proxy's password) into an error message.
"""

from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from clew.core.messages.errors import OutsideError

TransportFault: TypeAlias = Literal[
    "configuration", "connect", "no_server", "connect_timeout", "proxy", "tls", "reset", "protocol", "content",
    "truncated",
]  # fmt: skip


class TransportError(OutsideError):
    """An exchange failed. `kind` classifies the failure, and the message describes it."""

    def __init__(self, kind: TransportFault, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.kind: TransportFault = kind
        self.message = message
        # The HTTP status with which a proxy refused to open a tunnel.
        self.status = status


class HttpRequest(Struct, frozen=True, kw_only=True):
    """A complete request. The transport sets `host`, `content-length` and `accept-encoding`."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


class Head(Struct, frozen=True, kw_only=True):
    """The head of a response.

    Header names are in lower case. The values of repeated headers are joined with commas.
    """

    status: int
    headers: Mapping[str, str]


class Exchange(Protocol):
    """One request and its response. Closing is idempotent and possible at any time."""

    @property
    def bytes_received(self) -> int:
        """The number of bytes received so far, including the head."""
        ...

    async def open(self) -> Head:
        """Send the request and wait for the head. Raise `TransportError` if this fails."""
        ...

    async def read(self) -> bytes:
        """Return the next decoded piece of the body, or `b""` after the last one."""
        ...

    async def close(self, *, answered: bool = False) -> None:
        """Return the connection to the pool if it can be reused, otherwise close it.

        `answered` means that everything relevant was read. The connection may then be kept although
        the rest of the body, usually an end marker, has not arrived yet.
        """
        ...


class Transport(Protocol):
    def exchange(self, request: HttpRequest) -> Exchange: ...

    def warm(self, url: str) -> None:
        """Prepare the first exchange with `url`, without waiting for it."""
        ...

    async def aclose(self) -> None: ...

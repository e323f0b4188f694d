"""What the two manners of reaching a server behind a URL have in common: who asks, and how a line ends.

A redirect is never followed, because tokens would travel with it.
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from clew.jsonrpc.connection import Connection
from clew.mcp.config import Http
from clew.mcp.host import ServerHost
from clew.mcp.line import CannotReachError, UnauthorizedError
from clew.mcp.protocol import Json
from clew.messages.encoding import encode
from clew.transport.seam import Exchange, Head, HttpRequest, Transport, TransportError


class Credentials(Protocol):
    """What proves to a server who asks."""

    async def headers(self) -> Mapping[str, str]: ...

    async def renew(self, challenge: str) -> bool:
        """Whether there is other proof than that which a server just turned down."""
        ...


class WebLine:
    """Exchanges with one server, each with the credentials of now; which manner it is sets `connection`."""

    connection: Connection

    def __init__(
        self,
        reach: Http,
        host: ServerHost,
        group: asyncio.TaskGroup,
        *,
        transport: Transport,
        credentials: Credentials,
    ) -> None:
        self._reach = reach
        self._host = host
        self._group = group
        self._transport = transport
        self._credentials = credentials
        self._version = ""
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def ended(self) -> str:
        return await asyncio.shield(self._over)

    async def _asked(
        self, method: str, url: str, said: Mapping[str, str], message: Json | None
    ) -> tuple[Exchange, Head]:
        """Asks, with other credentials once more if these are turned down."""
        for is_last in (False, True):
            exchange = await self._exchange(method, url, said, message)
            done = False
            try:
                head = await exchange.open()
                challenge = head.headers.get("www-authenticate", "")
                wants_more = head.status == 403 and "insufficient_scope" in challenge
                done = head.status != 401 and not wants_more
                if done:
                    return exchange, head
            finally:
                if not done:
                    await exchange.close()
            if is_last or not await self._credentials.renew(challenge):
                raise UnauthorizedError(
                    f"the server wants a login (status {head.status})", challenge
                )
        raise AssertionError

    async def _exchange(
        self, method: str, url: str, said: Mapping[str, str], message: Json | None = None
    ) -> Exchange:
        # What a person wrote stands; what the protocol needs stands above it.
        own = {k: v for k, v in (await self._credentials.headers()).items() if not clashes(k, said)}
        body = b"" if message is None else encode(message)
        headers = tuple({**own, **said}.items())
        return self._transport.exchange(
            HttpRequest(method=method, url=url, headers=headers, body=body)
        )

    def _end(self, error: CannotReachError | UnauthorizedError | TransportError) -> None:
        """The line is over, and why."""
        if isinstance(error, TransportError):
            error = CannotReachError(str(error), is_final=error.kind == "configuration")
        if not self._over.done():
            self._over.set_exception(error)
            # Whoever waits for the end hears of it; perhaps nobody does any more.
            self._over.exception()
        self.connection.lose(str(error))


def kind(head: Head) -> str:
    return head.headers.get("content-type", "").partition(";")[0].strip().lower()


def clashes(name: str, said: Mapping[str, str]) -> bool:
    return name.lower() in {key.lower() for key in said}

"""Fetch a web page from a public address, within limits of size and time.

Redirects to another host are reported instead of followed. A name is resolved once, and the
connection uses the address that was checked, so it does not matter if the name resolves differently
the next time. If a proxy is configured, the proxy resolves names, and only literal addresses can be
checked.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection

from msgspec import Struct

from clew.core.messages.errors import OutsideError
from clew.system.transport.addresses import is_admitted, is_literal
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import BadUrlError, Network, Url, split_url
from clew.system.transport.seam import Head, HttpRequest, TransportError
from clew.version import VERSION

MAX_BYTES = 10 << 20
TIMEOUT_S = 60.0
MAX_REDIRECTS = 10
REDIRECTS = frozenset({301, 302, 303, 307, 308})
ACCEPTED = "text/markdown, text/html;q=0.9, text/*;q=0.8, application/json;q=0.8, */*;q=0.5"


class WebError(OutsideError):
    """The reason why a page was not fetched, as text for the model."""


class Fetched(Struct, frozen=True, kw_only=True):
    """A complete response."""

    url: str
    status: int
    media_type: str
    charset: str
    body: bytes


class OtherHost(Struct, frozen=True, kw_only=True):
    """The page is on another host, which needs its own permission."""

    url: str
    status: int


class Web:
    """Fetches pages, each over its own connection.

    `allowed` returns the private hosts that the settings allow.
    """

    def __init__(self, network: Network, allowed: Callable[[], Collection[str]]) -> None:
        self._allowed = allowed
        self._transport = HttpTransport(network, admits=self._admits)

    def _admits(self, host: str, port: int, address: str) -> bool:
        return is_admitted(host, port, address, self._allowed())

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def fetch(
        self,
        url: str,
        *,
        accept: str = ACCEPTED,
        follow: bool = False,
        may_fetch: Callable[[str], bool] = lambda _: True,
    ) -> Fetched | OtherHost:
        """Return the page at `url`. With `follow`, also follow redirects to another host.

        Without `follow`, a redirect that only adds or removes `www` is followed if `may_fetch`
        returns true for its URL.
        """
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self._followed(url, accept, may_fetch, follow=follow)
        except TimeoutError:
            raise WebError(f"{url} did not respond within {TIMEOUT_S:g} s.") from None
        except TransportError as error:
            raise WebError(f"{url} was not fetched: {error.message}.") from None

    async def _followed(
        self, url: str, accept: str, may_fetch: Callable[[str], bool], *, follow: bool
    ) -> Fetched | OtherHost:
        target = parts_of(url)
        for _ in range(MAX_REDIRECTS):
            answer = await self._one(url, target, accept)
            if isinstance(answer, Fetched):
                return answer
            asked_next = parts_of(answer.url)
            is_other = asked_next.host != target.host
            is_far = bare(asked_next.host) != bare(target.host)
            if not follow and (is_far or (is_other and not may_fetch(answer.url))):
                return answer
            url, target = answer.url, asked_next
        raise WebError(f"{url} was not fetched: more than {MAX_REDIRECTS} redirects.")

    async def _one(self, url: str, target: Url, accept: str) -> Fetched | OtherHost:
        if is_literal(target.host) and not self._admits(target.host, target.port, target.host):
            raise WebError(f"{url} was not fetched: {private(target.host, target.port)}.")
        request = HttpRequest(
            method="GET",
            url=url,
            headers=(("User-Agent", f"clew/{VERSION}"), ("Accept", accept)),
        )
        exchange = self._transport.exchange(request)
        try:
            head = await exchange.open()
            location = head.headers.get("location")
            if head.status in REDIRECTS and location:
                from urllib.parse import urljoin

                return OtherHost(url=urljoin(url, location), status=head.status)
            body = await whole(exchange.read, url)
        finally:
            await exchange.close()
        return fetched(url, head, body)


def private(host: str, port: int) -> str:
    return (
        f"{host} is a private address; the user can allow it with "
        f"clew config set webPrivateHosts '[\"{host}:{port}\"]'"
    )


def parts_of(url: str) -> Url:
    try:
        target = split_url(url)
    except BadUrlError as error:
        raise WebError(f"{url[:200]!r} is not a valid URL: {error}.") from None
    if target.scheme not in ("http", "https"):
        raise WebError(f"Only http:// and https:// URLs can be fetched, not {target.scheme}://.")
    if target.credentials is not None:
        raise WebError("URLs with a user name or a password are not fetched.")
    return target


def bare(host: str) -> str:
    return host.removeprefix("www.")


async def whole(read: Callable[[], Awaitable[bytes]], url: str) -> bytes:
    """Return the entire body. Raise `WebError` if it exceeds the limit."""
    pieces: list[bytes] = []
    size = 0
    while piece := await read():
        size += len(piece)
        if size > MAX_BYTES:
            raise WebError(f"{url} was not fetched: it is larger than {MAX_BYTES >> 20} MiB.")
        pieces.append(piece)
    return b"".join(pieces)


def fetched(url: str, head: Head, body: bytes) -> Fetched:
    media_type, _, rest = head.headers.get("content-type", "").partition(";")
    charset = ""
    for part in rest.split(";"):
        name, _, value = part.partition("=")
        if name.strip().lower() == "charset":
            charset = value.strip(" \"'")
    return Fetched(
        url=url,
        status=head.status,
        media_type=media_type.strip().lower(),
        charset=charset,
        body=body,
    )

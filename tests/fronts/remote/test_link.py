"""A worker's registration: repeated, late and unanswered requests do not look like a takeover."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from clew.fronts.remote.link import ExpiredTokenError, WorkerLink
from clew.fronts.remote.service import ServiceError, SessionService
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import Network
from clew.system.transport.seam import Exchange, Head, HttpRequest, TransportError
from tests.requirements import requirement
from tests.serve.served import Served, served

SESSION = "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a"


class FaultyTransport:
    """A transport that repeats registrations, or loses the responses to them."""

    def __init__(self, transport: HttpTransport) -> None:
        self._transport = transport
        self.repeats = self.losses = 0
        self.registrations: list[HttpRequest] = []

    def exchange(self, request: HttpRequest) -> Exchange:
        if not request.url.endswith("/bridge"):
            return self._transport.exchange(request)
        self.registrations.append(request)
        return FaultyExchange(self, request)

    def warm(self, url: str) -> None:
        self._transport.warm(url)

    async def deliver(self, request: HttpRequest) -> int:
        """Let a request reach the server, and return the status of the response."""
        exchange = self._transport.exchange(request)
        try:
            head = await exchange.open()
            while await exchange.read():
                pass
        finally:
            await exchange.close()
        return head.status

    def begin(self, request: HttpRequest) -> Exchange:
        return self._transport.exchange(request)


class FaultyExchange:
    def __init__(self, transport: FaultyTransport, request: HttpRequest) -> None:
        self._transport = transport
        self._request = request
        self._exchange = transport.begin(request)

    @property
    def bytes_received(self) -> int:
        return self._exchange.bytes_received

    async def open(self) -> Head:
        head = await self._exchange.open()
        if self._transport.repeats:
            self._transport.repeats -= 1
            await self._transport.deliver(self._request)
        if self._transport.losses:
            self._transport.losses -= 1
            raise TransportError("reset", "the response was lost")
        return head

    async def read(self) -> bytes:
        return await self._exchange.read()

    async def close(self, *, answered: bool = False) -> None:
        await self._exchange.close(answered=answered)


class Workshop:
    """A server, and workers of one session over a connection that fails on request."""

    def __init__(self, server: Served, transport: FaultyTransport) -> None:
        self.server = server
        self.transport = transport

    def link(self) -> WorkerLink:
        service = SessionService(self.server.url, self.server.token, self.transport)
        return WorkerLink(service, SESSION, "title", {})

    async def beat(self, link: WorkerLink) -> None:
        await link.ask("POST", "/heartbeat", {})

    async def register(self, link: WorkerLink) -> None:
        """Register, and try again when another worker did so at the same moment."""
        while True:
            try:
                return await link.renew()
            except ServiceError as error:
                if not error.is_passing:
                    raise

    async def is_replaced(self, link: WorkerLink) -> bool:
        while True:
            try:
                await self.beat(link)
            except ExpiredTokenError:
                continue
            except ServiceError as error:
                if error.status != 409:
                    raise
                return True
            return False


@asynccontextmanager
async def workshop(folder: Path) -> AsyncIterator[Workshop]:
    transport = HttpTransport(Network())
    async with served(folder) as server:
        try:
            yield Workshop(server, FaultyTransport(transport))
        finally:
            await transport.aclose()


async def persist(link: WorkerLink, is_done: Callable[[], bool]) -> list[ServiceError]:
    """Work as a bridge does until it is done; return the failures on the way."""
    failures: list[ServiceError] = []

    async def work() -> None:
        await link.ask("POST", "/heartbeat", {})
        if is_done():
            raise asyncio.CancelledError

    def note(error: ServiceError | None) -> None:
        if error is not None:
            failures.append(error)

    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(20):
            await link.persist(work, note, is_up=lambda: True)
    return failures


@requirement("R210")
async def test_a_registration_that_arrives_twice_replaces_nobody(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        shop.transport.repeats = 1
        link = shop.link()
        await link.renew()
        assert not await shop.is_replaced(link)
        assert link.epoch == 1


async def test_a_registration_whose_response_is_lost_is_repeated(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        shop.transport.losses = 2
        link = shop.link()
        failures = await persist(link, lambda: True)
        assert [error.status for error in failures] == [0, 0]
        assert link.epoch == 1


async def test_a_renewal_whose_response_is_lost_does_not_look_like_a_takeover(
    tmp_path: Path,
) -> None:
    async with workshop(tmp_path) as shop:
        link = shop.link()
        await shop.beat(link)
        await shop.server.expire_workers()
        shop.transport.losses = 1
        failures = await persist(link, lambda: len(shop.transport.registrations) == 3)
        assert [error.status for error in failures] == [0]
        assert not await shop.is_replaced(link)


async def test_requests_with_an_expired_token_renew_it_once(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        link = shop.link()
        await shop.beat(link)
        await shop.server.expire_workers()
        work = [persist(link, lambda: True) for _ in range(5)]
        assert await asyncio.gather(*work) == [[]] * 5
        assert len(shop.transport.registrations) == 2


async def test_a_late_repetition_does_not_replace_the_next_worker(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        killed, next_one = shop.link(), shop.link()
        await shop.beat(killed)
        await shop.beat(next_one)
        assert await shop.transport.deliver(shop.transport.registrations[0]) == 409
        assert not await shop.is_replaced(next_one)
        assert await shop.is_replaced(killed)


async def test_a_replaced_worker_cannot_come_back(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        old, new = shop.link(), shop.link()
        await shop.beat(old)
        await shop.beat(new)
        await shop.server.expire_workers()
        assert [await shop.is_replaced(link) for link in (new, old)] == [False, True]


async def test_workers_that_register_together_leave_one(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        links = [shop.link() for _ in range(4)]
        await asyncio.gather(*(shop.register(link) for link in links))
        assert [await shop.is_replaced(link) for link in links].count(False) == 1

"""Both providers conform to the protocol with the same messages.

A provider that does not is detected.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from clew.providers.anthropic import AnthropicProvider
from clew.providers.base import Failure, ModelRequest, Provider
from clew.providers.endpoint import Endpoint
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import Network
from clew.testing.conform_provider import ConformanceError, conform_provider
from clew.testing.scenario import Scenario
from clew.testing.scripted import ScriptedProvider
from clew.testing.server import LoopbackServer


@asynccontextmanager
async def over_loopback(scenario: Scenario) -> AsyncIterator[Provider]:
    async with LoopbackServer(scenario, strict=True) as server:
        provider = AnthropicProvider(Endpoint(base_url=server.url), HttpTransport(Network()))
        try:
            yield provider
        finally:
            await provider.aclose()


@asynccontextmanager
async def in_memory(scenario: Scenario) -> AsyncIterator[Provider]:
    provider = ScriptedProvider(scenario)
    assert provider.describe().credentials == "none"
    try:
        yield provider
    finally:
        await provider.aclose()


def test_both_providers_conform_and_give_equal_messages() -> None:
    loopback = asyncio.run(conform_provider(over_loopback))
    scripted = asyncio.run(conform_provider(in_memory))
    assert list(loopback) == list(scripted)
    for name, outcome in loopback.items():
        assert outcome.message == scripted[name].message, name
        kinds = [o.failure.kind if o.failure else None for o in (outcome, scripted[name])]
        assert kinds[0] == kinds[1], name


class Breaking:
    """A provider with one fault of its own; everything else is the scripted one's."""

    def __init__(self, scenario: Scenario, fault: str) -> None:
        self._inner = ScriptedProvider(scenario)
        self._fault = fault

    def stream(self, request: ModelRequest) -> Any:
        if self._fault == "changes the request":
            request.messages.append({"role": "user", "content": "more"})
        return BreakingAttempt(self._inner.stream(request), self._fault)

    async def count_tokens(self, request: ModelRequest) -> int | Failure:
        return 0 if self._fault == "counts nothing" else await self._inner.count_tokens(request)

    def describe(self) -> Any:
        return self._inner.describe()

    async def aclose(self) -> None:
        await self._inner.aclose()


class BreakingAttempt:
    def __init__(self, inner: Any, fault: str) -> None:
        self._inner = inner
        self._fault = fault
        self._over = False

    @property
    def bytes_received(self) -> int:
        return 0 if self._fault == "receives nothing" else self._inner.bytes_received

    @property
    def request_id(self) -> Any:
        return self._inner.request_id

    @property
    def headers(self) -> Any:
        return self._inner.headers

    @property
    def refusal(self) -> Any:
        return self._inner.refusal

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        try:
            event = await self._inner.__anext__()
        except StopAsyncIteration:
            if self._fault == "goes on after the end" and self._over:
                return {"type": "ping"}
            self._over = True
            raise
        except asyncio.CancelledError:
            if self._fault == "swallows a cancellation":
                return Failure(kind="reset", message="cancelled")
            raise
        if self._fault == "hides failures" and isinstance(event, Failure):
            raise StopAsyncIteration
        if self._fault == "says another kind" and isinstance(event, Failure):
            return Failure(kind="tls", message="no")
        if self._fault == "loses a delta" and not isinstance(event, Failure) and "delta" in event:
            return {"type": "ping"}
        return event

    async def aclose(self) -> None:
        await self._inner.aclose()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("changes the request", "a text: the request was modified"),
        ("receives nothing", "a text: events arrived, but bytes_received is 0"),
        ("goes on after the end", "a text: "),
        ("hides failures", "overloaded: "),
        ("says another kind", "overloaded: expected a failure of kind"),
        ("loses a delta", "a text: expected "),
        ("swallows a cancellation", "cancelled: not cancelled at"),
        ("counts nothing", "count_tokens: expected 4711, got 0"),
    ],
)
def test_a_provider_that_breaks_a_promise_is_told_which(fault: str, said: str) -> None:
    @asynccontextmanager
    async def broken(scenario: Scenario) -> AsyncIterator[Provider]:
        yield Breaking(scenario, fault)

    with pytest.raises(ConformanceError) as caught:
        asyncio.run(conform_provider(broken))
    assert str(caught.value).startswith(said)

"""A scenario in place of the network: the transport interface, answered in memory.

Code above the transport runs unchanged, with the same requests, decoding and failures, but without
a socket. The scripted provider is the Messages provider over this transport, so that no second
client has to be maintained. The transport must never wait except through the `sleep` that is passed
in.

Decision: docs/decisions/040-scripted-models.md
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from urllib.parse import urlsplit

from msgspec import Struct

from clew.core.catalog.lookup import CATALOG, ModelCatalog
from clew.core.json_object import Json
from clew.providers.anthropic import AnthropicProvider
from clew.providers.base import Attempt, Description, Failure, ModelRequest
from clew.providers.endpoint import Endpoint
from clew.system.transport.body import choose_decoder
from clew.system.transport.seam import Head, HttpRequest, TransportError
from clew.testing.scenario import Scenario
from clew.testing.scenario_answer import ScriptedResponse
from clew.testing.scenario_steps import (
    ENDPOINTS,
    Cut,
    ScenarioHost,
    Step,
    WaitStep,
    before_headers,
    steps,
)

Sleep = Callable[[float], Awaitable[None]]


class AnsweredRequest(Struct, frozen=True, kw_only=True):
    """An answered request, with the path of the answer (None if none matched) and the status."""

    body: Json
    place: str | None
    status: int


class ScriptedProvider:
    """A provider that answers from a scenario."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        sleep: Sleep = asyncio.sleep,
        catalog: ModelCatalog = CATALOG,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self.transport = ScriptedTransport(scenario, sleep=sleep)
        self._name = scenario.name or "unnamed"
        endpoint = Endpoint(base_url="http://scenario")
        self._provider = AnthropicProvider(endpoint, self.transport, catalog=catalog, wall_s=wall_s)

    def stream(self, request: ModelRequest) -> Attempt:
        return self._provider.stream(request)

    async def count_tokens(self, request: ModelRequest) -> int | Failure:
        return await self._provider.count_tokens(request)

    def describe(self) -> Description:
        return Description(
            name="scripted model", endpoint=f"scenario {self._name}", credentials="none"
        )

    async def aclose(self) -> None:
        await self._provider.aclose()


class ScriptedTransport:
    """A transport that answers from a scenario. `heard` contains the requests in order."""

    def __init__(self, scenario: Scenario, *, sleep: Sleep = asyncio.sleep) -> None:
        self.heard: list[AnsweredRequest] = []
        self.sleep = sleep
        self._host = ScenarioHost(scenario)

    def exchange(self, request: HttpRequest) -> "ScriptedExchange":
        return ScriptedExchange(self, request)

    def warm(self, url: str) -> None:
        """Do nothing, because no network is used."""

    async def aclose(self) -> None:
        """Do nothing, because no resources are held."""

    def unused(self) -> list[str]:
        """Return the answers that were never sent."""
        return self._host.unused()

    def answer(self, request: HttpRequest) -> ScriptedResponse:
        endpoint = ENDPOINTS.get(urlsplit(request.url).path)
        body = json.loads(request.body)
        if endpoint is None:
            path = urlsplit(request.url).path
            raise TransportError("configuration", f"the scenario has no answers for {path}")
        place, reply = self._host.respond(endpoint, body)
        self.heard.append(AnsweredRequest(body=body, place=place, status=reply.status))
        return reply


class ScriptedExchange:
    """One request and its scripted response, with the faults that a socket would show."""

    def __init__(self, transport: ScriptedTransport, request: HttpRequest) -> None:
        self._transport = transport
        self._request = request
        self._steps: Iterator[Step] = iter(())
        self._decoder = choose_decoder("")
        self.bytes_received = 0

    async def open(self) -> Head:
        reply = self._transport.answer(self._request)
        for step in before_headers(reply):
            if isinstance(step, Cut):
                raise TransportError("reset", "the connection ended before a response arrived")
            await self._wait(step)
        if reply.http is not None:
            raise TransportError("protocol", "the response is not HTTP/1.1 (a scripted response)")
        headers: dict[str, str] = dict(reply.headers)
        self._decoder = choose_decoder(headers.get("content-encoding", ""))
        self._steps = steps(reply)
        self.bytes_received += sum(len(k) + len(v) + 4 for k, v in reply.headers)
        return Head(status=reply.status, headers=headers)

    async def read(self) -> bytes:
        for step in self._steps:
            if isinstance(step, WaitStep):
                await self._wait(step)
            elif isinstance(step, Cut):
                self._steps = iter(())
                if step.how == "reset":
                    raise TransportError("reset", "the connection was reset (scripted)")
                if step.how == "close":
                    raise TransportError("truncated", "the connection ended too early (scripted)")
                break
            else:
                self.bytes_received += len(step)
                if data := self._decoder.feed(step):
                    return data
        return self._decoder.close()

    async def close(self, *, answered: bool = False) -> None:
        del answered  # no connection to reuse
        self._steps = iter(())

    async def _wait(self, step: WaitStep) -> None:
        if step.seconds is None:
            await asyncio.Event().wait()
        else:
            await self._transport.sleep(step.seconds)

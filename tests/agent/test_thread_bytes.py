"""The size of requests in a long conversation: with message threads, only new messages are sent.

Runs the real engine and provider over a connection that counts bytes, to a service that stores
threads and rejects what the API rejects.
"""

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace

from clew.agent.conversation import Conversation
from clew.core.normalize.target import Target
from clew.providers.answer import Answering
from clew.providers.anthropic import AnthropicProvider
from clew.providers.endpoint import Endpoint
from clew.providers.message_threads import Threads
from clew.system.transport.seam import Head, HttpRequest
from clew.testing.strict import find_complaint
from clew.testing.threads import Holding, ThreadRefusal
from tests.agent.world import PERSON, World

Json = dict[str, Any]
TURNS = 2_000
QUICK_TURNS = 60


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class CountingLine:
    """A connection to the service. Every other answer calls a tool."""

    def __init__(self, service: Holding, *, is_strict: bool) -> None:
        self.sizes: list[int] = []
        self._service = service
        self._is_strict = is_strict

    def exchange(self, request: HttpRequest) -> "CountedExchange":
        return CountedExchange(self.answered(request))

    def answered(self, request: HttpRequest) -> bytes:
        self.sizes.append(len(request.body))
        betas = next((said for name, said in request.headers if name == "anthropic-beta"), "")
        taken = self._service.take(json.loads(request.body), betas)
        assert not isinstance(taken, ThreadRefusal), taken
        assert not self._is_strict or find_complaint(taken.body) is None
        number = len(self.sizes)
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {"n": number}}
        said = {"type": "text", "text": f"Answer {number:06}."}
        message = {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": taken.body["model"],
            "content": [call if number % 2 else said],
            "stop_reason": "tool_use" if number % 2 else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 5_000 + 50 * number, "output_tokens": 10},
        }
        self._service.keep(taken, message)
        self._service.settle(taken)
        return json.dumps(message).encode()

    def warm(self, url: str) -> None:
        del url

    async def aclose(self) -> None:
        pass


class CountedExchange:
    def __init__(self, body: bytes) -> None:
        self._pieces = [body]
        self.bytes_received = len(body)

    async def open(self) -> Head:
        return Head(status=200, headers={"content-type": "application/json"})

    async def read(self) -> bytes:
        return self._pieces.pop() if self._pieces else b""

    async def close(self, *, answered: bool = False) -> None:
        del answered


async def sent(turns: int, *, with_threads: bool, is_strict: bool = False) -> list[int]:
    """Return the size of each request of these turns, two requests per turn."""
    line = CountingLine(Holding(lambda _: {}, now_s=Clock()), is_strict=is_strict)
    provider = AnthropicProvider(Endpoint(base_url="http://service", api_key="key"), line)
    if with_threads:
        provider.threads = Threads()
    world = World()
    told = replace(world.requests.template, system="Do as you are told. " * 200)
    world.requests.change(told, Target())
    model = replace(
        world.deps.model, new_answer=lambda: Answering(provider, new_tool_id=lambda: "toolu_own")
    )
    deps = replace(world.deps, model=model)
    conversation = Conversation(deps, world.inbox)
    for _ in range(turns):
        ended = await conversation.submit("and now?", world.emit, said_by=PERSON)
        assert ended.reason == "completed", ended
    assert len(line.sizes) == 2 * turns
    return line.sizes


@pytest.mark.no_cover
def test_each_request_is_as_long_as_what_is_new() -> None:
    sizes = asyncio.run(sent(QUICK_TURNS, with_threads=True, is_strict=True))
    assert max(sizes[1:]) < sizes[0] / 4
    assert max(sizes[1:]) - min(sizes[1:]) < 100
    without = asyncio.run(sent(20, with_threads=False))
    assert without[-1] > without[0] + 19 * 100


@pytest.mark.laws
@pytest.mark.timeout(900)
def test_so_it_stays_over_two_thousand_turns(record_property: Any) -> None:
    sizes = asyncio.run(sent(TURNS, with_threads=True))
    first, last = sizes[2:202], sizes[-200:]
    # The numbers in calls and answers grow by digits, and nothing else does.
    assert sum(last) <= sum(first) + 8 * len(last)
    assert max(sizes[1:]) < 600
    record_property("bytes of a request after 2,000 turns", sizes[-1])

"""Providers and clocks that do what a test says, without waiting in real time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from itertools import count
from typing import Any, TypeAlias

from clew.core.json_object import Json
from clew.providers.answer import Answering
from clew.providers.answer_events import DriverEvent, Ended
from clew.providers.base import Description, Failure, ModelRequest

BOUND_S = 30.0

# One step of an attempt: an event, a failure, a pause until the clock has moved so far (with or
# without bytes coming meanwhile), silence for ever.
Step: TypeAlias = "Json | Failure | Pause | Hang"


class Pause:
    """Silence for a while; with `ping_s`, bytes arrive that are no events of an answer."""

    def __init__(self, seconds: float, *, ping_s: float | None = None) -> None:
        self.seconds = seconds
        self.ping_s = ping_s


class Hang:
    """Endless silence; with `ping_s`, with regular pings."""

    def __init__(self, *, ping_s: float | None = None) -> None:
        self.ping_s = ping_s


class VirtualClock:
    """A clock that advances at once: the earliest sleeper is woken when everything waits."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()
        self._turning: asyncio.Task[None] | None = None

    def now_s(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        future = asyncio.get_running_loop().create_future()
        entry = (self.now + seconds, next(self._order), future)
        self._sleepers.append(entry)
        if self._turning is None or self._turning.done():
            self._turning = asyncio.create_task(self._turn())
        try:
            await future
        finally:
            if entry in self._sleepers:
                self._sleepers.remove(entry)

    def jump(self, seconds: float) -> None:
        """Advance the clock as if the machine had slept."""
        self.now += seconds

    async def settled(self) -> None:
        """Return when nothing can proceed without time passing."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def _turn(self) -> None:
        """Let everything proceed, then wake the next sleeper."""
        while self._sleepers:
            await self.settled()
            if self._sleepers:
                at, _, future = min(self._sleepers, key=lambda e: e[:2])
                self.now = max(self.now, at)
                if not future.done():
                    future.set_result(None)
                await asyncio.sleep(0)


class ScriptedAttempt:
    """Plays its steps, on the test's clock."""

    def __init__(self, steps: Sequence[Step], clock: VirtualClock, request_id: str) -> None:
        self._steps = list(steps)
        self._clock = clock
        self.bytes_received = 0
        self.request_id: str | None = request_id
        self.headers: Mapping[str, str] = {}
        self.refusal: Failure | None = None
        self.closed = 0

    def __aiter__(self) -> AsyncIterator[Json | Failure]:
        return self

    async def __anext__(self) -> Json | Failure:
        while self._steps:
            step = self._steps.pop(0)
            if isinstance(step, Pause):
                until = self._clock.now + step.seconds
                while step.ping_s and self._clock.now + step.ping_s < until:
                    await self._clock.sleep(step.ping_s)
                    self.bytes_received += 1
                await self._clock.sleep(until - self._clock.now)
            elif isinstance(step, Hang):
                while step.ping_s:
                    await self._clock.sleep(step.ping_s)
                    self.bytes_received += 1
                await asyncio.Event().wait()
            else:
                self.bytes_received += 1
                return step
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.closed += 1


class FakeProvider:
    """Answers the n-th request with the n-th list of steps."""

    def __init__(self, clock: VirtualClock, *attempts: Sequence[Step]) -> None:
        self.clock = clock
        self.requests: list[ModelRequest] = []
        self.attempts: list[ScriptedAttempt] = []
        self._scripts = list(attempts)

    def stream(self, request: ModelRequest) -> ScriptedAttempt:
        self.requests.append(request)
        steps = (
            self._scripts[len(self.requests) - 1]
            if len(self._scripts) >= len(self.requests)
            else []
        )
        attempt = ScriptedAttempt(steps, self.clock, f"req_{len(self.requests)}")
        self.attempts.append(attempt)
        return attempt

    async def count_tokens(self, request: ModelRequest) -> int | Failure:
        return 0

    def describe(self) -> Description:
        return Description(name="fake", endpoint="nowhere", credentials="none")

    async def aclose(self) -> None:
        pass


def start(message_id: str = "msg_1", model: str = "claude-opus-5-5") -> Json:
    return {
        "type": "message_start",
        "message": {
            "id": message_id,
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 5, "output_tokens": 1},
        },
    }


def text(index: int, *pieces: str, stop: bool = True) -> list[Json]:
    events: list[Json] = [
        {
            "type": "content_block_start",
            "index": index,
            "content_block": {"type": "text", "text": ""},
        }
    ]
    for piece in pieces:
        delta = {"type": "text_delta", "text": piece}
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
    return [*events, {"type": "content_block_stop", "index": index}] if stop else events


def tool(index: int, raw: str, *, stop: bool = True) -> list[Json]:
    block = {"type": "tool_use", "id": f"toolu_{index}", "name": "Read", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": raw}
    events: list[Json] = [
        {"type": "content_block_start", "index": index, "content_block": block},
        {"type": "content_block_delta", "index": index, "delta": delta},
    ]
    return [*events, {"type": "content_block_stop", "index": index}] if stop else events


def end(reason: str = "end_turn") -> list[Json]:
    return [
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 9},
        },
        {"type": "message_stop"},
    ]


def hello(words: str = "hello") -> list[Json]:
    return [start(), *text(0, words), *end()]


class Asked:
    """One run of the driver over a fake provider: its events and its outcome."""

    def __init__(self, clock: VirtualClock, provider: FakeProvider, **options: Any) -> None:
        self.clock = clock
        self.provider = provider
        self.events: list[DriverEvent] = []
        self._emitted = asyncio.Event()
        options.setdefault("random", lambda: 0.5)
        numbers = count(1)
        self.answering = Answering(
            provider, new_tool_id=lambda: f"own_{next(numbers)}", clock=clock, **options
        )

    async def emit(self, event: DriverEvent) -> None:
        self.events.append(event)
        self._emitted.set()

    async def seen(self, kind: str) -> None:
        """Returns once an event of this kind was emitted."""
        while kind not in [type(e).__name__ for e in self.events]:
            self._emitted.clear()
            await self._emitted.wait()

    async def run(self, request: ModelRequest) -> Ended:
        async with asyncio.timeout(BOUND_S):
            return await self.answering.run(request, self.emit)

    def kinds(self, *without: str) -> list[str]:
        hidden = {"BlockStarted", "TextDelta", "InputDelta", "UsageChanged", *without}
        return [name for e in self.events if (name := type(e).__name__) not in hidden]


def ask(
    *attempts: Sequence[Step],
    request: ModelRequest | None = None,
    before: Callable[[Asked], Awaitable[None]] | None = None,
    **options: Any,
) -> tuple[Asked, Ended]:
    """Runs the driver once over these attempts."""

    async def main() -> tuple[Asked, Ended]:
        clock = VirtualClock()
        asked = Asked(clock, FakeProvider(clock, *attempts), **options)
        if before is not None:
            await before(asked)
        ended = await asked.run(request or ModelRequest(model="opus", messages=[]))
        assert all(attempt.closed for attempt in asked.provider.attempts)
        return asked, ended

    return asyncio.run(main())

"""Distinguish a slow response from a dead connection, with two timers that run only while waiting.

Owns the limits and the measurement. It only ends a wait for the provider, and never interrupts
the code that consumes the events. Time during which the machine was asleep does not count.

Decision: docs/decisions/032-retries.md
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Protocol

from msgspec import Struct

from clew.core.json_object import Json
from clew.providers.answer_events import Waiting
from clew.providers.base import Attempt, Failure
from clew.system.config.environment import Environment

# The clock used by `Answering`: a monotonic reading and a sleep, both replaceable in tests.


class Clock(Protocol):
    def now_s(self) -> float:
        """Return seconds on a monotonic clock; only differences are meaningful."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class MonotonicClock:
    """The system's monotonic clock."""

    def now_s(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SilenceLimits(Struct, frozen=True, kw_only=True):
    """Seconds of silence until a hint is emitted, and until the attempt is abandoned.

    The service sends pings while the model thinks, so a lack of bytes indicates a dead connection
    long before a lack of events does. A response that is not streamed sends neither bytes nor
    events until it is complete, so it has its own limit.
    """

    hint_s: float = 20.0
    bytes_s: float = 90.0
    events_s: float = 300.0
    whole_s: float = 300.0
    tick_s: float = 1.0
    # A tick that took this much longer than expected means that the machine was asleep.
    asleep_s: float = 10.0

    def within(self, left_s: float) -> "SilenceLimits":
        """Return the limits, reduced to fit the remaining time.

        Silence is detected up to two ticks late.
        """
        left_s = max(self.tick_s, left_s - 2 * self.tick_s)
        return SilenceLimits(
            hint_s=self.hint_s,
            bytes_s=min(self.bytes_s, left_s),
            events_s=min(self.events_s, left_s),
            whole_s=min(self.whole_s, left_s),
            tick_s=self.tick_s,
            asleep_s=self.asleep_s,
        )


def read_limits(environment: Environment) -> SilenceLimits:
    """Return the limits with the variables' values. None of the limits can be disabled."""

    def seconds(field: str, usual_s: float) -> float:
        said_ms = environment.number(field)
        return said_ms / 1000 if said_ms else usual_s

    usual = SilenceLimits()
    return SilenceLimits(
        hint_s=seconds("wait_hint_ms", usual.hint_s),
        bytes_s=seconds("bytes_timeout_ms", usual.bytes_s),
        events_s=seconds("events_timeout_ms", usual.events_s),
        whole_s=seconds("api_timeout_ms", usual.whole_s),
    )


class Watchdog:
    """Watches one attempt from a separate task. Leaves no timer running at the end."""

    def __init__(
        self,
        attempt: Attempt,
        *,
        limits: SilenceLimits,
        clock: Clock,
        hint: Callable[[Waiting], Awaitable[None]],
        is_unstreamed: bool = False,
    ) -> None:
        self._attempt = attempt
        self._events: AsyncIterator[Json | Failure] = attempt.__aiter__()
        self._limits = limits
        self._clock = clock
        self._hint = hint
        self._whole = is_unstreamed
        self._reader: asyncio.Task[object] | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._waiting = False
        self._seen = 0
        self._verdict: Failure | None = None

    async def __aenter__(self) -> "Watchdog":
        self._reader = asyncio.current_task()
        self._ticking = asyncio.create_task(self._watch(), name="watchdog")
        self._ticking.add_done_callback(self._ended)
        return self

    def _ended(self, ticking: "asyncio.Task[None]") -> None:
        """Cancel the waiting reader if the watching task failed.

        Otherwise the reader would wait forever.
        """
        if self._waiting and self._reader is not None and self._broken(ticking):
            self._reader.cancel()

    @staticmethod
    def _broken(ticking: "asyncio.Task[None]") -> BaseException | None:
        return None if ticking.cancelled() or not ticking.done() else ticking.exception()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        ticking = self._ticking
        assert ticking is not None
        ticking.cancel()
        await asyncio.wait([ticking])
        if (failed := self._broken(ticking)) is not None and error is None:
            raise failed

    async def next(self) -> Json | Failure | None:
        """Return the attempt's next event, a `Failure` if it stays silent, or None at its end."""
        self._waiting = True
        try:
            event = await anext(self._events, None)
        except asyncio.CancelledError:
            # The watchdog itself cancelled this wait, unless another cancellation arrived too,
            # which then takes effect.
            assert self._reader is not None
            assert self._ticking is not None
            failed = self._broken(self._ticking)
            if (self._verdict is None and failed is None) or self._reader.uncancel() > 0:
                raise
            if failed is not None:
                raise failed from None
            return self._verdict
        finally:
            self._waiting = False
        if not isinstance(event, dict) or event.get("type") != "ping":
            self._seen += 1
        return event

    async def _watch(self) -> None:
        limits = self._limits
        bytes_before, seen_before = -1, -1
        no_bytes_s = no_event_s = 0.0
        next_hint_s = limits.hint_s
        last_s = self._clock.now_s()
        while self._verdict is None:
            await self._clock.sleep(limits.tick_s)
            now_s = self._clock.now_s()
            passed_s, last_s = now_s - last_s, now_s
            if passed_s > limits.tick_s + limits.asleep_s:
                passed_s = 0.0
            got, seen = self._attempt.bytes_received, self._seen
            no_bytes_s = no_bytes_s + passed_s if self._waiting and got == bytes_before else 0.0
            no_event_s = no_event_s + passed_s if self._waiting and seen == seen_before else 0.0
            bytes_before, seen_before = got, seen
            if no_event_s == 0.0:
                next_hint_s = limits.hint_s
            self._judge(no_bytes_s, no_event_s)
            if no_event_s >= next_hint_s and self._reader_waits():
                next_hint_s = no_event_s + limits.hint_s
                await self._hint(Waiting(silent_s=no_event_s, limit_s=self._limit_s(no_bytes_s)))

    def _reader_waits(self) -> bool:
        return self._waiting and self._verdict is None

    def _limit_s(self, no_bytes_s: float) -> float:
        """Return how long this kind of silence may last before the attempt ends."""
        if self._whole:
            return self._limits.whole_s
        return self._limits.bytes_s if no_bytes_s > 0 else self._limits.events_s

    def _judge(self, no_bytes_s: float, no_event_s: float) -> None:
        limits = self._limits
        if self._whole:
            dead = no_event_s >= limits.whole_s
            what = f"no response within {limits.whole_s:g} s"
        elif no_bytes_s >= limits.bytes_s:
            dead, what = True, f"no data received for {limits.bytes_s:g} s"
        else:
            dead = no_event_s >= limits.events_s
            what = f"only pings received for {limits.events_s:g} s"
        if dead and self._reader_waits() and self._reader is not None:
            self._verdict = self._attempt.refusal or self._silence(what)
            self._reader.cancel()

    def _silence(self, what: str) -> Failure:
        where = "" if self._attempt.headers else ", not even response headers"
        return Failure(
            kind="stalled",
            message=what + where,
            status=200 if self._attempt.headers else None,
            request_id=self._attempt.request_id,
        )

"""One response to one request: attempts under the retry policy, each with a watchdog.

Owns the order of events, and which events are shown, withdrawn and kept. Must never retry after a
block was completed, because the tool call in it may have run, and must never swallow a
cancellation. After a cancellation, `last_words` contains the completed and the dropped blocks,
including an event whose delivery was interrupted, and the message if it was finished but `run` did
not return it.

Decision: docs/decisions/032-retries.md
"""

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Container
from typing import TypeAlias

from msgspec.structs import replace

from clew.core.catalog.lookup import CATALOG, ModelCatalog
from clew.core.json_object import Json
from clew.core.stream.accumulate import Accumulator
from clew.core.stream.events import AnswerEvent, MessageFinished, MessageStarted, StreamFault
from clew.providers.answer_events import (
    Answered,
    Asking,
    CompactionDue,
    DriverEvent,
    Ended,
    FellBack,
    GaveUp,
    HeldByRateLimit,
    Incomplete,
    Retrying,
    Shrunk,
    Streamed,
    Withdrawn,
)
from clew.providers.base import Attempt, Cap, Failure, ModelRequest, Provider
from clew.providers.failure_kinds import Overflow, fit_request, is_busy, with_output
from clew.providers.refusal import make_fault_failure
from clew.providers.retry import (
    Again,
    CompactFirst,
    Decision,
    FallBack,
    GiveUp,
    RetryPolicy,
    Shrink,
    Spent,
    count_attempt,
    decide,
    find_max_attempts,
    is_uncounted,
    is_waited_out,
)
from clew.providers.watchdog import Clock, MonotonicClock, SilenceLimits, Watchdog

Emit: TypeAlias = Callable[[DriverEvent], Awaitable[None]]
ForFallback: TypeAlias = Callable[[ModelRequest, str], Awaitable[ModelRequest]]

# The output limit of a response that is not streamed: what a service can write in the allowed time.
WHOLE_MAX_TOKENS = 21_000


class Gate:
    """The time until which no request may be sent because a service asked for a pause.

    All callers share it. The pause always has an end. `service_of` returns the service of a model;
    each has its own pause.
    """

    def __init__(self, service_of: Callable[[str], str] | None = None) -> None:
        self._service_of = service_of or (lambda _: "")
        self._until_s: dict[str, float] = {}

    def hold(self, until_s: float, model: str = "") -> None:
        service = self._service_of(model)
        self._until_s[service] = max(self._until_s.get(service, until_s), until_s)

    def left_s(self, now_s: float, model: str = "") -> float:
        until_s = self._until_s.get(self._service_of(model))
        return 0.0 if until_s is None else max(0.0, until_s - now_s)


async def with_model(request: ModelRequest, model: str) -> ModelRequest:
    """Return the request with only its model replaced."""
    return replace(request, model=model)


def chance() -> float:
    """Return a random number in [0, 1) without importing `random`."""
    return int.from_bytes(os.urandom(6), "big") / (1 << 48)


class Answering:
    """The process of getting one response. An instance is used once."""

    def __init__(
        self,
        provider: Provider,
        *,
        new_tool_id: Callable[[], str],
        taken_tool_ids: Container[str] = frozenset(),
        policy: RetryPolicy | None = None,
        limits: SilenceLimits | None = None,
        fallbacks: tuple[str, ...] = (),
        catalog: ModelCatalog = CATALOG,
        gate: Gate | None = None,
        clock: Clock | None = None,
        random: Callable[[], float] = chance,
        with_events: bool = False,
        cap: Cap | None = None,
        describe_refusal: Callable[[str], str] | None = None,
    ) -> None:
        self.last_words: list[AnswerEvent] = []
        self._provider = provider
        self._catalog = catalog
        self._new_tool_id = new_tool_id
        self._taken_tool_ids = taken_tool_ids
        self._policy = policy or RetryPolicy()
        self._limits = limits or SilenceLimits()
        self._gate = gate or Gate()
        self._clock = clock or MonotonicClock()
        self._random = random
        self._with_events = with_events
        self._cap = cap
        self._describe_refusal = describe_refusal or (lambda _: "")
        self._spent = Spent(fallbacks=fallbacks)
        self._attempts = 0
        self._began_s = self._clock.now_s()
        self._accumulator = self._new_accumulator()
        self._shown = False
        self._closing: list[AnswerEvent] = []
        self._untold: deque[AnswerEvent] = deque()
        self._finished: list[MessageFinished] = []
        self._request_id: str | None = None

    async def run(
        self, request: ModelRequest, emit: Emit, for_fallback: ForFallback = with_model
    ) -> Ended:
        """Send the request until it is answered or no further attempt can help.

        All events go to `emit`. `for_fallback` builds the request for the next model of the chain.
        If a message arrived, its cost stays reserved until the caller has charged it (`release`).
        """
        ended = await self._run(request, emit, for_fallback)
        if not isinstance(ended, Answered | Incomplete):
            self.release()
        return ended

    def release(self) -> None:
        """Release the cost reserved for the response, once it is charged or known not to be due."""
        if self._cap is not None:
            self._cap.release(self)

    async def _run(self, request: ModelRequest, emit: Emit, for_fallback: ForFallback) -> Ended:
        is_unstreamed = False
        try:
            while True:
                if refusal := self._describe_refusal(request.model):
                    unsent = Failure(kind="configuration", message=refusal)
                    return await self._over(request, unsent, GiveUp(why="not allowed"), emit)
                fitting = fit_request(request, self._catalog.entry(request.model))
                if isinstance(fitting, Overflow):
                    return CompactionDue(failure=None, overflow=fitting, model=request.model)
                sent_request = in_one_piece(fitting) if is_unstreamed else fitting
                if self._cap is not None:
                    paid = await self._cap.hold(self, sent_request)
                    if isinstance(paid, Failure):
                        why = "the budget is spent"
                        return await self._over(request, paid, GiveUp(why=why), emit)
                    sent_request = paid
                failure = await self._attempt(sent_request, emit)
                if failure is None:
                    return self._answered(request)
                if self._accumulator.completed_blocks:
                    return await self._kept(request, failure, emit)
                self._count(failure)
                decision = decide(
                    failure, request, self._spent, self._policy, random=self._random()
                )
                if isinstance(decision, GiveUp | CompactFirst):
                    return await self._over(request, failure, decision, emit)
                await self._withdraw(emit)
                is_unstreamed = isinstance(decision, Again) and decision.whole
                request = await self._next(request, failure, decision, emit, for_fallback)
        except asyncio.CancelledError:
            self.last_words = [*self._untold, *self._accumulator.abort()]
            if not any(isinstance(e, MessageFinished) for e in self.last_words):
                self.last_words += self._finished
            raise

    def _new_accumulator(self) -> Accumulator:
        return Accumulator(new_tool_id=self._new_tool_id, taken_tool_ids=self._taken_tool_ids)

    async def _attempt(self, request: ModelRequest, emit: Emit) -> Failure | None:
        """Make one attempt and pass its events to `emit`.

        Return None if the message is complete.
        """
        self._accumulator = self._new_accumulator()
        self._shown, self._closing, self._finished, self._request_id = False, [], [], None
        await self._pass_gate(request.model, emit)
        self._attempts += 1
        request = replace(request, retry_count=self._spent.attempts)
        await emit(
            Asking(model=request.model, attempt=self._spent.attempts + 1, stream=request.stream)
        )
        attempt = self._provider.stream(request)
        try:
            async with Watchdog(
                attempt,
                limits=self._limits_now(),
                clock=self._clock,
                hint=emit,
                is_unstreamed=not request.stream,
            ) as watch:
                return await self._read(watch, attempt, emit)
        finally:
            self._request_id = attempt.request_id
            await attempt.aclose()

    def _limits_now(self) -> SilenceLimits:
        """Return the silence limits of this attempt.

        From the second attempt on, the limits are reduced to what is left of the retry budget.
        """
        if self._attempts == 1:
            return self._limits
        elapsed_s = self._clock.now_s() - self._began_s
        left_s = max(self._policy.least_attempt_s, self._policy.budget_s - elapsed_s)
        return self._limits.within(left_s)

    async def _read(self, watch: Watchdog, attempt: Attempt, emit: Emit) -> Failure | None:
        accumulator = self._accumulator
        while True:
            event = await watch.next()
            if isinstance(event, Failure):
                self._closing = accumulator.abort()
                return event
            events = accumulator.close() if event is None else accumulator.feed(event)
            if accumulator.state == "finished":
                fault = next((e for e in events if isinstance(e, StreamFault) and e.fatal), None)
                if fault is not None:
                    self._closing = events
                    return make_fault_failure(fault, headers=attempt.headers)
            self._shown = self._shown or any(isinstance(e, MessageStarted) for e in events)
            await self._tell(events, emit)
            if self._with_events and isinstance(event, dict):
                # Sent after the block that the event completes: consumers expect a block before the
                # event that ends it.
                # The record of origin is for the transcript only.
                plain = {name: value for name, value in event.items() if name != "origin"}
                await emit(Streamed(event=plain))
            if accumulator.state == "finished":
                return None

    async def _tell(self, events: list[AnswerEvent], emit: Emit) -> None:
        """Pass on events of the response.

        Events that a cancellation leaves undelivered are kept for `last_words`.
        """
        self._untold.extend(events)
        while self._untold:
            await emit(self._untold[0])
            event = self._untold.popleft()
            if isinstance(event, MessageFinished):
                self._finished = [event]

    async def _pass_gate(self, model: str, emit: Emit) -> None:
        while (left_s := self._gate.left_s(self._clock.now_s(), model)) > 0:
            await emit(HeldByRateLimit(delay_s=left_s))
            await self._clock.sleep(left_s)

    def _count(self, failure: Failure) -> None:
        now_s = self._clock.now_s()
        spent = count_attempt(self._spent, failure, self._policy)
        self._spent = replace(spent, elapsed_s=now_s - self._began_s)

    async def _next(
        self,
        request: ModelRequest,
        failure: Failure,
        decision: Decision,
        emit: Emit,
        for_fallback: ForFallback,
    ) -> ModelRequest:
        """Carry out the decision and return the next request to send."""
        match decision:
            case Again():
                self._spent = replace(
                    self._spent, asked_whole=self._spent.asked_whole or decision.whole
                )
                if failure.retry_after_s is not None and is_busy(failure):
                    # With the gate closed, other requests are not refused one by one. If the pause
                    # is so long that this run gives up, the gate stays open: the user's next prompt
                    # is sent at once.
                    wait_s = min(failure.retry_after_s, self._policy.budget_s)
                    self._gate.hold(self._clock.now_s() + wait_s, request.model)
                await self._pause(failure, decision, emit)
                return request
            case Shrink(request=smaller):
                self._spent = replace(self._spent, shrunk=True)
                await emit(Shrunk(failure=failure, max_tokens=smaller.max_tokens or 0))
                return smaller
            case FallBack(model=model):
                self._spent = Spent(
                    elapsed_s=self._spent.elapsed_s, fallbacks=self._spent.fallbacks[1:]
                )
                await emit(FellBack(failure=failure, model=model))
                return await for_fallback(request, model)
            case _:
                raise AssertionError(f"unexpected decision: {decision}")

    async def _pause(self, failure: Failure, decision: Again, emit: Emit) -> None:
        policy, spent = self._policy, self._spent
        unlimited = is_waited_out(failure, policy)
        uncounted = is_uncounted(failure, policy)
        left_s = max(0.0, policy.budget_s - spent.elapsed_s - decision.delay_s)
        await emit(
            Retrying(
                failure=failure,
                attempt=spent.attempts if uncounted else spent.attempts - spent.uncounted,
                max_attempts=None if uncounted else find_max_attempts(failure, policy),
                delay_s=decision.delay_s,
                budget_left_s=None if unlimited else left_s,
                whole=decision.whole,
            )
        )
        await self._clock.sleep(decision.delay_s)
        if unlimited:
            self._began_s = self._clock.now_s()

    async def _withdraw(self, emit: Emit) -> None:
        message = self._accumulator.message
        if self._shown and message is not None:
            await emit(Withdrawn(message=message))

    def _answered(self, request: ModelRequest) -> Answered:
        return Answered(
            message=self._accumulator.message or {},
            model=request.model,
            request_id=self._request_id,
            attempts=self._attempts,
        )

    async def _kept(self, request: ModelRequest, failure: Failure, emit: Emit) -> Incomplete:
        """Pass on the remaining events and return the message marked as incomplete."""
        message: Json = self._accumulator.message or {}
        for out in self._closing:
            if isinstance(out, MessageFinished):
                message = out.message
        await self._tell(self._closing, emit)
        return Incomplete(
            message=message,
            failure=failure,
            model=request.model,
            request_id=self._request_id or failure.request_id,
            attempts=self._attempts,
        )

    async def _over(
        self, request: ModelRequest, failure: Failure, decision: GiveUp | CompactFirst, emit: Emit
    ) -> Ended:
        if isinstance(decision, CompactFirst):
            await self._withdraw(emit)
            return CompactionDue(failure=failure, overflow=decision.overflow, model=request.model)
        if any(isinstance(e, MessageFinished) and e.message["content"] for e in self._closing):
            # Part of the response was shown, and no complete one will follow, so that part stays.
            return await self._kept(request, failure, emit)
        await self._withdraw(emit)
        return GaveUp(
            failure=failure,
            why=decision.why,
            retry_in_s=decision.retry_in_s,
            model=request.model,
            attempts=self._attempts,
            elapsed_s=self._spent.elapsed_s,
        )


def in_one_piece(request: ModelRequest) -> ModelRequest:
    """Return the request without streaming, with the output limited to fit the time limit."""
    room = min(request.max_tokens or WHOLE_MAX_TOKENS, WHOLE_MAX_TOKENS)
    return replace(with_output(request, room), stream=False)

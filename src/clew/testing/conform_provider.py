"""A conformance suite for providers, which runs them against scenarios.

`await conform_provider(make)` raises `ConformanceError` with the case and the broken promise. It
returns the outcome of each case, so that two providers can be compared. `make(scenario)` is an
async context manager that yields a provider whose requests the scenario answers.
"""

import asyncio
import copy
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

from msgspec import Struct

from clew.core.json_object import Json
from clew.core.messages.errors import OutsideError
from clew.core.stream.accumulate import Accumulator
from clew.core.stream.events import AnswerEvent, StreamFault
from clew.providers.base import Attempt, Failure, FailureKind, ModelRequest, Provider
from clew.providers.refusal import make_fault_failure
from clew.testing.scenario import Defaults, Scenario, from_value
from clew.testing.scenario_answer import message_of
from clew.testing.scenario_rules import facts_of

Make: TypeAlias = Callable[[Scenario], AbstractAsyncContextManager[Provider]]

PATIENCE_S = 30.0
# The request of every case, as far as answers depend on it.
ASKED: Json = {"model": "scripted-model", "messages": [{}]}


class ConformanceError(OutsideError):
    """Raised when a provider breaks a promise of the protocol.

    The text names the case and the promise.
    """


class Case(Struct, frozen=True, kw_only=True):
    """An answer and the expected outcome: a complete message, or a failure of certain kinds."""

    name: str
    answer: Json
    kinds: tuple[FailureKind, ...] = ()
    status: int | None = None
    error_type: str | None = None
    retry_after_s: float | None = None


class AttemptOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of an attempt: the completed part of the message, and the failure, if any."""

    message: Json | None
    failure: Failure | None


WORDS = "Grüße aus Łódź \u2028 und 1 \U0001f9f6, " * 5
CALLS: list[Any] = [
    {"thinking": "First this, then that."},
    {"redacted_thinking": "b3BhcXVl"},
    WORDS,
    {"tool": "Bash", "input": {"command": "ls", "nested": [{"a": None}]}},
    {"tool": "Now"},
]
OVERLOADED = {"type": "overloaded_error", "message": "Overloaded"}

CASES: tuple[Case, ...] = (
    Case(name="a text", answer={"text": WORDS}),
    Case(name="every kind of block", answer={"content": CALLS, "usage": {"output_tokens": 9}}),
    Case(name="no content at all", answer={"content": []}),
    Case(name="bytes one by one", answer={"content": CALLS, "send": {"chunk_bytes": 1}}),
    Case(name="a pause", answer={"text": WORDS, "faults": [{"after_events": 3, "stall_s": 0.01}]}),
    Case(name="an unknown stop reason", answer={"text": "x", "stop_reason": "of_tomorrow"}),
    Case(name="unknown members", answer={"text": "x", "message": {"of_tomorrow": {"a": 1}}}),
    Case(name="overloaded", answer={"status": 529, "headers": {"retry-after": 7}},
         kinds=("status",), status=529, error_type="overloaded_error", retry_after_s=7.0),
    Case(name="refused", answer={"status": 400}, kinds=("status",), status=400,
         error_type="invalid_request_error"),
    Case(name="a gateway's page", answer={"status": 502, "body": "<html>Bad gateway</html>",
         "headers": {"content-type": "text/html"}}, kinds=("status",), status=502),
    Case(name="a page with status 200", answer={"body": "<html>Log in</html>",
         "headers": {"content-type": "text/html"}}, kinds=("content",)),
    Case(name="an overload in the stream",
         answer={"text": WORDS, "faults": [{"after_events": 4, "error": OVERLOADED}]},
         kinds=("error_event",)),
    Case(name="cut in the stream",
         answer={"text": WORDS, "faults": [{"after_bytes": 700, "cut": "close"}]},
         kinds=("truncated", "reset")),
    Case(name="ended in an event",
         answer={"text": WORDS, "faults": [{"after_bytes": 700, "cut": "end"}]},
         kinds=("truncated", "event")),
    Case(name="closed without a response", answer={"text": "x", "faults": [{"at": "headers", "cut": "close"}]},
         kinds=("reset",)),
    Case(name="an event that is not JSON",
         answer={"text": WORDS, "faults": [{"after_events": 4, "insert": "data: {no\n\n"}]},
         kinds=("event",)),
)  # fmt: skip


async def conform_provider(make: Make) -> dict[str, AttemptOutcome]:
    """Run every check and return the outcome of each case by name."""
    outcomes = {case.name: await _case(make, case) for case in CASES}
    await _in_one_piece(make, outcomes["every kind of block"])
    await _several_at_once(make)
    await _cancelled(make)
    await _left_early(make)
    await _counted(make)
    return outcomes


async def _case(make: Make, case: Case) -> AttemptOutcome:
    async with make(_scenario(case.answer)) as provider:
        outcome = await _outcome(provider, case.name)
    failure = outcome.failure
    if not case.kinds:
        _hold(failure is None, case.name, f"expected a complete answer, got {failure}")
        expected_message = message_of(
            _scenario(case.answer).answers[0], facts_of(ASKED, 1), Defaults()
        )
        _hold(
            outcome.message == expected_message,
            case.name,
            f"expected {expected_message}, got {outcome.message}",
        )
        return outcome
    if failure is None:
        raise ConformanceError(f"{case.name}: expected a Failure, got none")
    _hold(
        failure.kind in case.kinds,
        case.name,
        f"expected a failure of kind {case.kinds}, got {failure.kind}",
    )
    _hold(bool(failure.message), case.name, "the failure has no message")
    expected = (case.status, case.error_type, case.retry_after_s)
    if case.status is not None:
        actual = (failure.status, failure.error_type, failure.retry_after_s)
        _hold(actual == expected, case.name, f"expected {expected}, got {actual}")
    return outcome


async def _outcome(provider: Provider, name: str, **options: Any) -> AttemptOutcome:
    """Run an attempt to its end and check every promise about attempts."""
    request = question(**options)
    before = copy.deepcopy(request)
    attempt = provider.stream(request)
    accumulator = Accumulator(new_tool_id=lambda: "toolu_new")
    failure: Failure | None = None
    answer_events: list[AnswerEvent] = []
    events = received = 0
    try:
        async with asyncio.timeout(PATIENCE_S):
            async for event in attempt:
                _hold(failure is None, name, f"{event} arrived after a Failure")
                _hold(attempt.bytes_received >= received, name, "bytes_received decreased")
                received = attempt.bytes_received
                if isinstance(event, Failure):
                    failure = event
                else:
                    events += 1
                    answer_events += accumulator.feed(event)
        await _after_the_end(attempt, name)
    finally:
        await attempt.aclose()
        await attempt.aclose()
    _hold(events == 0 or received > 0, name, "events arrived, but bytes_received is 0")
    _hold(request == before, name, "the request was modified")
    answer_events += accumulator.close() if failure is None else accumulator.abort()
    fault = next((e for e in answer_events if isinstance(e, StreamFault) and e.fatal), None)
    if failure is None and fault is not None:
        failure = make_fault_failure(fault, headers=attempt.headers)
    return AttemptOutcome(message=accumulator.message, failure=failure)


async def _after_the_end(attempt: Attempt, name: str) -> None:
    try:
        event = await anext(attempt)
    except StopAsyncIteration:
        return
    raise ConformanceError(f"{name}: {event} arrived after the end")


async def _in_one_piece(make: Make, streamed: AttemptOutcome) -> None:
    async with make(_scenario(CASES[1].answer)) as provider:
        outcome = await _outcome(provider, "in one piece", stream=False)
    same = outcome.message == streamed.message
    _hold(same, "in one piece", "the message differs from the streamed one")


async def _several_at_once(make: Make) -> None:
    """Check that answers that pause in the middle do not get mixed up."""
    name = "several at once"
    answers = [
        {"when": {"user": f"number {i}."}, "text": f"answer {i} " * 20, "send": {"chunk_bytes": 64}}
        for i in range(8)
    ]
    async with make(_scenario(*answers)) as provider, asyncio.TaskGroup() as group:
        tasks = [group.create_task(_outcome(provider, name, text=f"number {i}.")) for i in range(8)]
    for i, task in enumerate(tasks):
        content = (task.result().message or {}).get("content")
        _hold(
            content == [{"type": "text", "text": f"answer {i} " * 20}],
            name,
            f"answer {i} has the wrong content: {content}",
        )


async def _cancelled(make: Make) -> None:
    """Check that an attempt can be cancelled wherever it waits, and that the next one succeeds."""
    name = "cancelled"
    for place in ({"at": "headers"}, {"after_events": 3}, {"after_bytes": 500}):
        stalled = {"text": WORDS, "faults": [{**place, "stall_s": "forever"}]}
        async with make(_scenario(stalled, {"text": "after"})) as provider:
            attempt = provider.stream(question())
            reading = asyncio.ensure_future(_read_all(attempt))
            # The attempt is now waiting; this case does not depend on how far it got.
            await asyncio.wait({reading}, timeout=0.02)
            reading.cancel()
            done, _ = await asyncio.wait({reading}, timeout=PATIENCE_S)
            _hold(bool(done) and reading.cancelled(), name, f"not cancelled at {place}")
            await attempt.aclose()
            outcome = await _outcome(provider, name)
            _hold(outcome.failure is None, name, f"the next answer failed: {outcome.failure}")


async def _left_early(make: Make) -> None:
    """Check that closing an attempt early does not affect the next one."""
    name = "left early"
    async with make(_scenario({"text": WORDS * 50}, {"text": "after"})) as provider:
        attempt = provider.stream(question())
        await anext(attempt)
        await attempt.aclose()
        outcome = await _outcome(provider, name)
        content = (outcome.message or {}).get("content")
        _hold(
            content == [{"type": "text", "text": "after"}],
            name,
            f"the next answer has the wrong content: {content}",
        )


async def _counted(make: Make) -> None:
    name = "count_tokens"
    counts = [{"input_tokens": 4711}, {"status": 529}]
    async with make(from_value({"scenario": 1, "count_tokens": counts})) as provider:
        tokens = await provider.count_tokens(question())
        _hold(tokens == 4711, name, f"expected 4711, got {tokens}")
        failed = await provider.count_tokens(question())
        _hold(
            isinstance(failed, Failure) and failed.status == 529,
            name,
            f"expected a Failure with status 529, got {failed}",
        )


async def _read_all(attempt: Attempt) -> None:
    async for _ in attempt:
        pass


def question(text: str = "What is a clew?", *, stream: bool = True) -> ModelRequest:
    return ModelRequest(
        model="scripted-model",
        messages=[{"role": "user", "content": [{"type": "text", "text": text}]}],
        system="You are scripted.",
        max_tokens=1000,
        stream=stream,
    )


def _scenario(*answers: Json) -> Scenario:
    return from_value({"scenario": 1, "answers": list(answers)})


def _hold(promise: bool, name: str, broken: str) -> None:
    if not promise:
        raise ConformanceError(f"{name}: {broken}")

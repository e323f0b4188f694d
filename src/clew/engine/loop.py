"""One turn: ask, listen, run the tools while the model still talks, go on or end.

Reads aloud from `run_turn` down. The history grows through the story alone. A turn that is cancelled
keeps what was complete, answers every call, marks the place, and lets the cancellation go on.
"""

import asyncio
from typing import Any, TypeAlias

from msgspec.structs import replace

from clew.engine.deps import Answer, Deps, Emit
from clew.engine.events import NotSaved, Recorded, TurnEnded
from clew.engine.executor import ToolExecutor
from clew.engine.repetition import Repetition
from clew.engine.transitions import Continue, Recoveries, Reply, Terminal, after_answer
from clew.messages import factories
from clew.messages.messages import Assistant
from clew.providers.answer_events import (
    Answered,
    CompactionDue,
    DriverEvent,
    Ended,
    GaveUp,
    Incomplete,
    Withdrawn,
)
from clew.providers.base import Failure
from clew.stream.events import (
    ENDINGS,
    AnswerEvent,
    BlockFinished,
    MessageFinished,
    MessageStarted,
    ToolUseReady,
    ToolUseUnusable,
)

Json: TypeAlias = dict[str, Any]

# The categories that readers of transcripts know, by the service's own type or status.
ERROR_CATEGORIES = {
    "authentication_error": "authentication_failed",
    "permission_error": "authentication_failed",
    "billing_error": "billing_error",
    "rate_limit_error": "rate_limit",
    "overloaded_error": "overloaded",
    "invalid_request_error": "invalid_request",
    "not_found_error": "model_not_found",
    "api_error": "server_error",
}

TOO_LONG = "the conversation no longer fits into the model's window"


async def run_turn(deps: Deps, emit: Emit) -> TurnEnded:
    """Answers what the conversation ends with; the turn's end is a value."""
    recoveries = Recoveries()
    repetition = Repetition()
    rounds = 0
    while True:
        rounds += 1
        reply = await run_round(deps, emit, repetition)
        step = after_answer(reply, recoveries)
        if isinstance(step, Continue) and deps.max_rounds is not None and rounds >= deps.max_rounds:
            step = Terminal(reason="max_turns", message=f"reached {deps.max_rounds} rounds")
        if isinstance(step, Terminal):
            return TurnEnded(
                reason=step.reason,
                message=step.message,
                rounds=rounds,
                stop_reason=reply.stop_reason,
                status=reply.status,
                error_type=reply.error_type,
            )
        recoveries = recoveries.after(step.cause)
        await go_on(deps, emit, step)


async def run_round(deps: Deps, emit: Emit, repetition: Repetition) -> Reply:
    """One request and everything its answer asked for."""
    await saved(deps, emit)
    hearing = Hearing(deps, emit, repetition)
    try:
        async with hearing.running:
            ended = await hearing.listen()
            reply = await hearing.settle(ended)
            hearing.running.release()
    except asyncio.CancelledError:
        hearing.keep_what_was_said()
        raise
    return replace(
        reply,
        has_results=bool(hearing.running.results),
        is_stopped=hearing.running.is_stopped,
        repeats=repetition.question if repetition.is_endless else "",
    )


async def go_on(deps: Deps, emit: Emit, step: Continue) -> None:
    """Says what the next request needs to hear first, and what a person said meanwhile."""
    more = list(deps.arrived())
    if step.words:
        more.insert(0, factories.user(step.words, uuid=deps.new_id(), at=deps.now(), is_meta=True))
    if more:
        deps.story.add(more)
        await emit(Recorded(entries=more))


async def saved(deps: Deps, emit: Emit) -> None:
    """Everything said so far is durable before the next request leaves, or it is told why not."""
    answer = await deps.story.durable()
    if answer.troubles:
        await emit(NotSaved(messages=tuple(str(trouble) for trouble in answer.troubles)))


class Hearing:
    """One answer while it comes: its blocks so far, the entries they will be, its running calls."""

    def __init__(self, deps: Deps, emit: Emit, repetition: Repetition) -> None:
        self.running = ToolExecutor(deps, emit, repetition)
        self._deps = deps
        self._emit = emit
        self._answer: Answer = deps.answer()
        self._begin()

    def _begin(self) -> None:
        self._message: Json = {}
        self._blocks: list[Json] = []
        self._uuids: list[str] = []
        self._request_id = f"clew_{self._deps.new_id()}"
        self._is_settled = False

    async def listen(self) -> Ended:
        return await self._answer.run(self._deps.request(self._deps.story), self._heard)

    async def _heard(self, event: DriverEvent) -> None:
        match event:
            case MessageStarted():
                self._message = event.message
            case BlockFinished():
                self._blocks.append(event.block)
                self._uuids.append(self._deps.new_id())
            case Withdrawn():
                self._begin()
        await self._emit(event)
        match event:
            case ToolUseReady():
                await self.running.start(event.block, self._so_far())
            case ToolUseUnusable():
                words = f"{event.message}. The input arrived as: {event.raw[:2000]}"
                await self.running.refuse(event.block, self._uuids[-1], words)

    def _so_far(self) -> list[Json]:
        return self._entries(self._message | {"content": list(self._blocks)})

    def _entries(self, message: Json, *, is_aborted: bool = False) -> list[Json]:
        """The entries of an answer; those its calls already point at keep their ids."""
        missing = len(message.get("content") or [None]) - len(self._uuids)
        self._uuids += [self._deps.new_id() for _ in range(missing)]
        return factories.assistant(
            message,
            uuids=self._uuids,
            at=self._deps.now(),
            request_id=self._request_id,
            is_aborted_mid_stream=is_aborted,
        )

    async def settle(self, ended: Ended) -> Reply:
        """Makes the answer part of the conversation, with its final usage."""
        match ended:
            case Answered() | Incomplete():
                self._request_id = ended.request_id or self._request_id
                entries = self._entries(ended.message)
                self._add(entries)
                await self._emit(Recorded(entries=entries))
                return self._reply(ended)
            case GaveUp():
                return await self._failed(ended.failure, ended.why, reason="api_error")
            case CompactionDue():
                failure = ended.failure or Failure(kind="status", message=TOO_LONG)
                return await self._failed(failure, TOO_LONG, reason="cut_by_context")

    def _add(self, entries: list[Json]) -> None:
        self._deps.story.add(entries)
        self._is_settled = True

    def _reply(self, ended: Answered | Incomplete) -> Reply:
        stop_reason = ended.message.get("stop_reason")
        failure = ended.failure if isinstance(ended, Incomplete) else None
        said = Assistant({"type": "assistant", "message": ended.message})
        return Reply(
            ending=ENDINGS.get(stop_reason or "", "unknown"),
            stop_reason=stop_reason,
            is_complete=failure is None,
            is_empty=said.is_empty,
            failure=failure.message if failure else "",
            status=failure.status if failure else None,
            error_type=failure.error_type if failure else None,
        )

    async def _failed(self, failure: Failure, why: str, *, reason: str) -> Reply:
        """A request that was given up becomes an entry a person can read; the API never sees it."""
        deps = self._deps
        words = (
            f"API Error: {failure.status} {failure.message}"
            if failure.status
            else (f"API Error: {failure.message}")
        )
        entry = factories.api_error(
            words,
            uuid=deps.new_id(),
            at=deps.now(),
            message_id=deps.new_id(),
            error=ERROR_CATEGORIES.get(failure.error_type or "", "unknown"),
            error_details=why,
            status=failure.status,
            error_type=failure.error_type,
            request_id=failure.request_id,
        )
        self._add([entry])
        await self._emit(Recorded(entries=[entry]))
        return Reply(
            ending=reason,
            is_complete=False,
            is_final=True,
            failure=words,
            status=failure.status,
            error_type=failure.error_type,
        )

    def keep_what_was_said(self) -> None:
        """After a cancellation: finished blocks stay, every call has its answer, the place is marked."""
        last = self._finished(self._answer.last_words)
        if not self._is_settled and last is not None and last["content"]:
            self._add(self._entries(last, is_aborted=True))
        self.running.release()
        self._deps.story.add(
            [
                factories.interruption(
                    uuid=self._deps.new_id(),
                    at=self._deps.now(),
                    for_tool_use=bool(self.running.results),
                    message_id=self._message.get("id"),
                )
            ]
        )

    @staticmethod
    def _finished(events: list[AnswerEvent]) -> Json | None:
        return next((e.message for e in events if isinstance(e, MessageFinished)), None)

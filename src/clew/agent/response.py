"""One request and its response: send, run calls while it streams, add the result to the history.

Read this file from `Response.receive` down. The turn loop (loop.py) decides what follows.

Decision: docs/decisions/004-turn-loop.md
"""

from collections.abc import Sequence

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from clew.agent.charging import charge
from clew.agent.deps import AnswerDriver, Deps, Emit
from clew.agent.events import BlockSaid, Doubted, Noticed, Recorded, Repaired
from clew.agent.executor import ToolExecutor
from clew.agent.requests import Prepared
from clew.agent.transitions import (
    Repetition,
    ResponseSpeed,
    TurnReply,
    describe_api_error,
    find_removable_media,
    make_failure_entry,
    with_advice,
)
from clew.core.json_object import Json
from clew.core.ledger.cache_miss import RECORD as CACHE_MISS
from clew.core.ledger.ledger import find_charges
from clew.core.ledger.state import ApiTimed, FallbackChanged
from clew.core.messages import factories
from clew.core.messages.history import History, with_cost
from clew.core.messages.messages import AssistantMessage
from clew.core.normalize.block_rules import RequestViolation
from clew.core.normalize.origin import with_origins
from clew.core.normalize.prefix import with_bound
from clew.core.normalize.repairs import Repair
from clew.core.stream.events import (
    ENDINGS,
    AnswerEvent,
    BlockFinished,
    MessageFinished,
    MessageStarted,
    TextDelta,
    ThinkingDelta,
    ToolUseReady,
    ToolUseUnusable,
)
from clew.providers.answer_events import (
    Answered,
    Asking,
    CompactionDue,
    DriverEvent,
    Ended,
    FellBack,
    GaveUp,
    Incomplete,
    Retrying,
    Shrunk,
    Withdrawn,
)
from clew.providers.base import Failure, ModelRequest
from clew.providers.failure_kinds import category_of, why_no_credit
from clew.providers.retry import final

TOO_LONG = "the conversation no longer fits into the context window"


NOT_SENT = "Request not sent, because the API would reject it"
ASK_AGAIN = "Nothing is lost; submit the prompt again to send it anyway"
SHOWN_VIOLATIONS = 3
# The newest images and documents are omitted first, then all.
MEDIA_TRIES = 2


class HeldRequest(Struct, frozen=True, kw_only=True):
    """A request that was held back instead of being sent, and the reason."""

    words: str


class Response:
    """A response while it streams: its blocks, their entries and its running calls."""

    def __init__(self, deps: Deps, emit: Emit, repetition: Repetition) -> None:
        self.running = ToolExecutor(deps, emit, repetition)
        self._deps = deps
        self._emit = emit
        self._answer: AnswerDriver = deps.model.new_answer()
        self._took = ApiTimed(duration_ms=0)
        self._attempt_s = deps.clock.monotonic_s()
        # The times of the first token and of the end of the response.
        self._first_s: float | None = None
        self._end_s = self._attempt_s
        self._asked_model = ""
        self._attempt = 1
        self._begin()

    def _begin(self) -> None:
        self._message: Json = {}
        self._blocks: list[Json] = []
        # The record of origin of each block.
        self._origins: list[Json | None] = []
        self._uuids: list[str] = []
        self._told = 0
        self._request_id = f"clew_{self._deps.clock.new_id()}"
        self._is_recorded = False

    async def receive(self) -> Ended | HeldRequest:
        deps = self._deps
        await deps.compaction.make_sendable(deps, self._emit)
        prepared = await prepare(deps, self._emit)
        if await deps.compaction.make_room(deps, prepared.request, self._emit):
            prepared = await prepare(deps, self._emit)
        prepared = await self._shrunk(prepared)
        self._request = prepared.request
        if prepared.violations:
            held_request = HeldRequest(words=describe_violations(prepared.violations))
            is_held = not is_resent(deps.story.history, held_request.words)
            await self._emit(Doubted(violations=prepared.violations, is_held=is_held))
            if is_held:
                return held_request
        request = await deps.model.measure(prepared.request, deps.story.history)
        request = replace(request, in_thread=True)
        if deps.limits.cap is not None:
            request = deps.limits.cap.measure(request, deps.story.history)
            if warning := deps.limits.cap.find_unpriced(request.model):
                await self._emit(Noticed(messages=(warning,)))
        begin_s = self._attempt_s = deps.clock.monotonic_s()
        self._asked_model = request.model
        if deps.spending.state.is_on_fallback:
            deps.spending.change(FallbackChanged(active=False))
        deps.model.cache.sent(request, deps.story.history, deps.clock.now())
        try:
            return await self._answer.run(request, self._take, self._for_fallback)
        finally:
            end_s = self._end_s = deps.clock.monotonic_s()
            self._took = ApiTimed(
                duration_ms=(end_s - begin_s) * 1000,
                without_retries_ms=(end_s - self._attempt_s) * 1000,
            )
            deps.spending.change(self._took)

    async def _shrunk(self, prepared: Prepared) -> Prepared:
        """Compact the conversation if the request is too large; return the request to send."""
        for tries in (2, 3):
            if any(violation.is_of_size for violation in prepared.violations):
                request = prepared.request
                compact = self._deps.compaction.after_overflow
                if not await compact(self._deps, request, None, tries, self._emit):
                    break
                prepared = await prepare(self._deps, self._emit)
        return prepared

    async def _for_fallback(self, request: ModelRequest, model: str) -> ModelRequest:
        """Switch to the next model in the fallback chain; return the request for it."""
        deps = self._deps
        if not deps.spending.state.is_on_fallback:
            deps.spending.change(FallbackChanged(active=True))
        if deps.model.for_fallback is None:
            return replace(request, model=model)
        prepared = deps.model.for_fallback(deps.story, model)
        await tell_repairs(deps, self._emit, prepared.news)
        return replace(
            prepared.request,
            max_tokens=request.max_tokens,
            input_tokens=request.input_tokens,
            most_input_tokens=request.most_input_tokens,
            in_thread=request.in_thread,
        )

    async def try_shorter(self, ended: Ended | HeldRequest, tries: int) -> bool:
        """Compact a conversation that did not fit; return whether to send the request again."""
        if not isinstance(ended, CompactionDue):
            return False
        if ended.failure is not None:
            self._note_failed(ended.failure)
        return await self._deps.compaction.after_overflow(
            self._deps, self._request, ended, tries, self._emit
        )

    def try_other_thinking(self, ended: Ended | HeldRequest) -> bool:
        """Handle a rejection because of thinking blocks; return whether to retry.

        The retry contains different thinking blocks.
        """
        return isinstance(ended, GaveUp) and self._deps.model.thoughts.refused(
            ended.failure.message
        )

    async def try_without_media(self, ended: Ended | HeldRequest, tries: int) -> bool:
        """Handle a rejection because of an image or a document; return whether to retry.

        The first retry omits the newest images and documents, and the second omits all of them.
        """
        if not isinstance(ended, GaveUp) or tries > MEDIA_TRIES:
            return False
        kinds = find_removable_media(ended.failure, self._request.messages)
        if not kinds:
            return False
        self._note_failed(ended.failure, delay_s=0, refused_media=kinds)
        why = f"{describe_api_error(ended.failure)} · retrying without the {' or '.join(kinds)}"
        await self._emit(Noticed(messages=(why,)))
        return True

    async def _take(self, event: DriverEvent) -> None:
        match event:
            case Asking():
                self._attempt_s, self._attempt = self._deps.clock.monotonic_s(), event.attempt
                self._first_s = None
            case TextDelta() | ThinkingDelta() if self._first_s is None:
                self._first_s = self._deps.clock.monotonic_s()
            case Retrying():
                most = event.max_attempts
                self._note_failed(event.failure, max_attempts=most, delay_s=event.delay_s)
            case Shrunk():
                self._note_failed(event.failure, delay_s=0)
            case MessageStarted():
                self._message = event.message
                await tell_repairs(
                    self._deps, self._emit, self._deps.model.thoughts.dropped(event.message)
                )
            case BlockFinished():
                self._first_s = self._first_s or self._deps.clock.monotonic_s()
                self._blocks.append(event.block)
                self._origins.append(event.origin)
                self._uuids.append(self._deps.clock.new_id())
            case FellBack():
                self._note_failed(event.failure, delay_s=0)
                self._asked_model = event.model
            case Withdrawn():
                self._charge_withdrawn(event.message)
                self._begin()
        await self._emit(event)
        match event:
            case BlockFinished():
                await self._emit(BlockSaid(entry=self._last_block()))
            case ToolUseReady():
                await self._start(event.block)
            case ToolUseUnusable():
                words = f"{event.message}. The input arrived as: {event.raw[:2000]}"
                await self.running.refuse(event.block, self._uuids[-1], words)

    def _note_failed(
        self,
        failure: Failure,
        *,
        max_attempts: int | None = None,
        delay_s: float | None = None,
        refused_media: Sequence[str] = (),
    ) -> None:
        """Record a failed request in the transcript; front ends see the driver's event."""
        entry = make_failure_entry(
            failure,
            uuid=self._deps.clock.new_id(),
            at=self._deps.clock.now(),
            attempt=self._attempt,
            max_attempts=max_attempts,
            delay_s=delay_s,
            refused_media=refused_media,
        )
        self._deps.story.add([entry])

    def _last_block(self) -> Json:
        """Return the entry of the block that has just ended."""
        (entry,) = self._written_from(len(self._blocks) - 1)
        return entry

    async def _start(self, block: Json) -> None:
        """Start a call.

        Only the entries since the previous call are passed on, so that the cost stays linear.
        """
        previous_count, self._told = self._told, len(self._blocks)
        after = self._uuids[previous_count - 1] if previous_count else None
        await self.running.start(block, self._written_from(previous_count), after)

    def _entries(self, message: Json, *, is_aborted: bool = False) -> list[Json]:
        """Return the entries of a response. An entry that a call already refers to keeps its ID."""
        missing = len(message.get("content") or [None]) - len(self._uuids)
        self._uuids += [self._deps.clock.new_id() for _ in range(missing)]
        return self._written(message, self._uuids, is_aborted=is_aborted)

    def _written_from(self, place: int) -> list[Json]:
        """Return the entries of the blocks received so far, from the index `place` on."""
        part = self._message | {"content": self._blocks[place:]}
        return self._written(part, self._uuids[place:], first=place)

    def _written(
        self, message: Json, uuids: list[str], *, first: int = 0, is_aborted: bool = False
    ) -> list[Json]:
        entries = factories.make_assistant(
            message,
            uuids=uuids,
            at=self._deps.clock.now(),
            request_id=self._request_id,
            first=first,
            is_aborted_mid_stream=is_aborted,
            requested_model=self._asked_model,
        )
        entries = with_origins(entries, self._origins[first:])
        return with_bound(entries, self._deps.model.thoughts.bound)

    async def record(self, ended: Ended | HeldRequest) -> TurnReply:
        """Add the response to the conversation with its final usage."""
        match ended:
            case Answered() | Incomplete():
                self._request_id = ended.request_id or self._request_id
                entries = self._costed(self._entries(ended.message))
                self._add(entries)
                self._note_cost(entries[0])
                await self._emit(Recorded(entries=entries))
                if warning := self._deps.model.find_flaw(self._request, ended.message):
                    await self._emit(Noticed(messages=(warning,)))
                return self._reply(ended)
            case GaveUp(failure=Failure(kind="budget") as failure):
                return TurnReply(
                    ending="over_budget",
                    is_complete=False,
                    is_final=True,
                    failure=failure.message,
                    error=category_of(failure),
                )
            case GaveUp():
                self._note_failed(ended.failure)
                advice = self._deps.model.advise(ended.failure, self._request.model)
                words = with_advice(ended, self._deps.clock.now(), advice)
                return await self._failed(ended.failure, ended.why, reason="api_error", words=words)
            case HeldRequest():
                failure = Failure(
                    kind="status", message=ended.words, error_type="invalid_request_error"
                )
                return await self._failed(failure, NOT_SENT, reason="api_error", words=ended.words)
            case CompactionDue():
                failure = ended.failure or Failure(kind="status", message=TOO_LONG)
                return await self._failed(failure, TOO_LONG, reason="cut_by_context")

    def _costed(self, entries: list[Json]) -> list[Json]:
        """Add the cost and the duration of the request to the entries."""
        charge = next(find_charges(entries, self._deps.model.catalog), None)
        cost_usd = None if charge is None or charge.usd is None else float(charge.usd)
        took_ms = round(self._took.duration_ms)
        costed = [with_cost(entry, cost_usd=cost_usd, duration_ms=took_ms) for entry in entries]
        miss = self._deps.model.cache.answered(
            costed[0]["message"], self._asked_model, self._deps.clock.now()
        )
        if miss is not None:
            costed[0] |= {CACHE_MISS: miss.as_json()}
        return costed

    def _note_cost(self, entry: Json) -> None:
        """Record the request's cost as a separate line, with data that entries can't contain."""
        message = AssistantMessage(entry)
        if message.is_synthetic:
            return
        cost_fields = {"costUSD": entry["costUSD"]} if "costUSD" in entry else {}
        self._deps.story.recorder.request_cost(
            message_id=message.message_id,
            requestId=message.request_id,
            model=message.model,
            purpose="turn",
            usage=message.usage.data,
            **cost_fields,
            durationMs=entry["durationMs"],
            durationWithoutRetriesMs=round(self._took.without_retries_ms),
        )

    def _add(self, entries: list[Json]) -> None:
        self._deps.story.add(entries)
        for entry_charge in find_charges(entries, self._deps.model.catalog):
            self._deps.spending.charge(entry_charge)
        self._answer.release()
        self._is_recorded = True

    def _charge_withdrawn(self, message: Json) -> None:
        """Charge a withdrawn response, which has no entries."""
        deps = self._deps
        charge(
            deps.spending,
            deps.story.recorder,
            message,
            request_id=None,
            purpose="withdrawn",
            duration_ms=(deps.clock.monotonic_s() - self._attempt_s) * 1000,
            at=deps.clock.now(),
            catalog=deps.model.catalog,
        )

    def _reply(self, ended: Answered | Incomplete) -> TurnReply:
        failure = ended.failure if isinstance(ended, Incomplete) else None
        message = AssistantMessage({"type": "assistant", "message": ended.message})
        ending = ENDINGS.get(message.stop_reason or "", "unknown")
        reply = TurnReply(
            ending=ending,
            # If the turn ends here, hooks receive this as the category of the failure.
            error="max_output_tokens" if ending == "cut_by_max_tokens" else "unknown",
            stop_reason=message.stop_reason,
            is_complete=failure is None,
            is_empty=message.is_empty,
            speed=self._speed(message),
        )
        if failure is None:
            return reply
        no_credit = why_no_credit(failure)
        return replace(
            reply,
            failure=failure.message
            if no_credit is None
            else f"{failure.message.rstrip('.')} ({no_credit})",
            # A request for the rest of the response would fail, too.
            is_final=final(failure) is not None,
            status=failure.status,
            error=category_of(failure),
            error_type=failure.error_type,
        )

    def _speed(self, message: AssistantMessage) -> ResponseSpeed | None:
        if self._first_s is None or self._end_s <= self._first_s:
            return None
        return ResponseSpeed(
            first_ms=(self._first_s - self._attempt_s) * 1000,
            tokens_per_s=message.usage.output_tokens / (self._end_s - self._first_s),
        )

    async def _failed(
        self, failure: Failure, why: str, *, reason: str, words: str | None = None
    ) -> TurnReply:
        """Add an entry about a failed request for the user; it is never sent to the service."""
        deps = self._deps
        words = words or describe_api_error(failure)
        entry = factories.make_api_error(
            words,
            uuid=deps.clock.new_id(),
            at=deps.clock.now(),
            message_id=deps.clock.new_id(),
            error=category_of(failure),
            error_details=why,
            status=failure.status,
            error_type=failure.error_type,
            request_id=failure.request_id,
        )
        self._add([entry])
        await self._emit(Recorded(entries=[entry]))
        return TurnReply(
            ending=reason,
            is_complete=False,
            is_final=True,
            failure=words,
            status=failure.status,
            error=category_of(failure),
            error_type=failure.error_type,
        )

    def keep_what_was_said(self) -> None:
        """After a cancellation, keep finished blocks and record the interruption.

        Every call is answered.
        """
        last = self._finished(self._answer.last_words)
        if not self._is_recorded and last is not None and last.message["content"]:
            entries = self._entries(last.message, is_aborted=not last.complete)
            entries = self._costed(entries)
            self._add(entries)
            self._note_cost(entries[0])
        self._answer.release()
        self.running.release()
        self._deps.story.add([self.make_interruption()])

    def make_interruption(self) -> Json:
        """Return the message that marks where the user stopped the turn."""
        return factories.make_interruption(
            uuid=self._deps.clock.new_id(),
            at=self._deps.clock.now(),
            for_tool_use=bool(self.running.results),
            message_id=self._message.get("id"),
        )

    @staticmethod
    def _finished(events: list[AnswerEvent]) -> MessageFinished | None:
        return next((e for e in events if isinstance(e, MessageFinished)), None)


async def prepare(deps: Deps, emit: Emit) -> Prepared:
    """Build the next request, and report the repairs that the history needed."""
    prepared = deps.model.prepare(deps.story)
    await tell_repairs(deps, emit, prepared.news)
    return prepared


async def tell_repairs(deps: Deps, emit: Emit, repairs: list[Repair]) -> None:
    if repairs:
        deps.story.recorder.request_repairs([to_builtins(repair) for repair in repairs])
        await emit(Repaired(repairs=repairs))


def describe_violations(violations: list[RequestViolation]) -> str:
    """Describe what the service would reject; the same faults always give the same text."""
    lines = [f"{v.where}: {v.what} ({v.rule})" for v in violations[:SHOWN_VIOLATIONS]]
    omitted_count = len(violations) - len(lines)
    more = f"; and {omitted_count} more" if omitted_count else ""
    return f"{NOT_SENT}: {'; '.join(lines)}{more}. {ASK_AGAIN}"


def is_resent(history: History, words: str) -> bool:
    """Return whether the user is resending a request that was just held back.

    The validator can be wrong, because the service's limits grow. Therefore, it holds back a
    request only once. The transcript records this, so that a new process does not hold back the
    request again.
    """
    for place in range(len(history) - 1, -1, -1):
        if history[place].get("type") == "assistant":
            return without_numbers(AssistantMessage(history[place]).text) == without_numbers(words)
    return False


def without_numbers(words: str) -> str:
    """Drop the digits, so that the same fault compares equal.

    Sizes and positions change when the request is sent again; the fault does not.
    """
    return "".join(c for c in words if not c.isdigit())

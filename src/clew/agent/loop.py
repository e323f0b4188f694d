"""The loop of one turn: send a request, run tools while the response streams, continue or end.

Read this file from `run_turn` down. The history grows only through the story. A cancelled turn
keeps what was complete, answers every call, records the interruption and passes the cancellation
on.

Decision: docs/decisions/004-turn-loop.md
"""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from clew.agent.deps import Deps, Emit, ensure_saved
from clew.agent.events import ENDED_WELL, Noticed, Recorded, TurnEnded
from clew.agent.hooked import (
    STOP_FEEDBACK,
    calls_of,
    find_last_words,
    fire_event,
    join_outcome,
    report_notices,
)
from clew.agent.response import Response, prepare
from clew.agent.transitions import (
    FULL,
    MAX_FAILED_ANSWERS,
    Continue,
    Recoveries,
    Repetition,
    ResponseSpeed,
    TokenBudget,
    Transition,
    TurnEnd,
    TurnReply,
    choose_transition,
    make_speed_entry,
)
from clew.core.json_object import Json
from clew.core.messages import factories
from clew.core.messages.text import format_count


async def run_turn(deps: Deps, emit: Emit, tokens: TokenBudget | None = None) -> TurnEnded:
    """Answer the last message of the conversation, and return how the turn ended."""
    recoveries = Recoveries()
    repetition = Repetition()
    rounds = 0
    before = tokens_said(deps)
    speeds: list[ResponseSpeed] = []
    while True:
        rounds += 1
        reply = await run_round(deps, emit, repetition)
        if reply.speed is not None:
            speeds.append(reply.speed)
        step = choose_transition(reply, recoveries)
        if tokens is not None:
            step = tokens.onward(step, tokens_said(deps) - before)
        if isinstance(step, Continue) and step.cause == "full" and not await emptied(deps, emit):
            step = FULL
        step = await apply_hooks(deps, emit, step, recoveries, reply)
        if (
            isinstance(step, Continue)
            and deps.limits.max_rounds is not None
            and rounds >= deps.limits.max_rounds
        ):
            step = TurnEnd(
                reason="max_turns",
                message=f"reached the limit of {format_count(deps.limits.max_rounds, 'model response')}",
            )
        cap = deps.limits.cap
        is_over = cap is not None and cap.is_spent
        if cap is not None and is_over and not (isinstance(step, TurnEnd) and ended_badly(step)):
            words = f"Reached maximum budget (${cap.usd})"
            step = TurnEnd(reason="budget_exhausted", message=words)
        if isinstance(step, Continue) and await deps.surroundings.should_leave():
            step = TurnEnd(reason="left")
        if isinstance(step, TurnEnd):
            if speeds and deps.surroundings.records_speed():
                uuid, at = deps.clock.new_id(), deps.clock.now()
                deps.story.add([make_speed_entry(speeds, uuid=uuid, at=at)])
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


async def run_round(deps: Deps, emit: Emit, repetition: Repetition) -> TurnReply:
    """Send one request and run every call in its response."""
    reply: TurnReply | None = None
    tries = 0
    while reply is None:
        tries += 1
        response = Response(deps, emit, repetition)
        try:
            await ensure_saved(deps, emit)
            await wait_for_late(deps, emit)
            async with response.running:
                ended = await response.receive()
                if not (
                    await response.try_shorter(ended, tries)
                    or response.try_other_thinking(ended)
                    or await response.try_without_media(ended, tries)
                ):
                    reply = await response.record(ended)
                response.running.release()
        except asyncio.CancelledError:
            response.keep_what_was_said()
            raise
    await add_entries(deps, emit, deps.arrivals.after_results(response.running.results))
    if response.running.is_stopped_by_user:
        await add_entries(deps, emit, [response.make_interruption()])
    return replace(
        reply,
        has_results=bool(response.running.results),
        is_stopped=response.running.is_stopped,
        repeats=repetition.question if repetition.is_endless else "",
        halt=response.running.halt,
        is_answered=response.running.has_answer,
        is_unshaped=repetition.failed_answers >= MAX_FAILED_ANSWERS,
    )


async def apply_hooks(
    deps: Deps, emit: Emit, step: Transition, recoveries: Recoveries, reply: TurnReply
) -> Transition:
    """Run the hooks due before the next request or the turn's end; return the next step."""
    match step:
        case Continue(cause="tools"):
            outcome = await fire_event(
                deps, emit, "PostToolBatch", tool_calls=calls_of(deps.story.history)
            )
            await join_outcome(deps, emit, outcome)
            why = outcome.block if outcome.halt is None else outcome.halt
            return step if why is None else TurnEnd(reason="stopped_by_hook", message=why)
        case TurnEnd(reason="completed"):
            return await may_stop(deps, emit, step, recoveries)
        case TurnEnd(reason="api_error" | "prompt_too_long" | "refused" | "no_answer"):
            await fire_event(
                deps,
                emit,
                "StopFailure",
                error=reply.error,
                error_details=step.message,
                last_assistant_message=find_last_words(deps.story.history),
            )
    return step


async def may_stop(deps: Deps, emit: Emit, step: TurnEnd, recoveries: Recoveries) -> Transition:
    """End the turn unless a Stop hook asks for more.

    The hook may do so a limited number of times in a row.
    """
    outcome = await fire_event(
        deps,
        emit,
        "Stop",
        stop_hook_active=recoveries.hook > 0,
        last_assistant_message=find_last_words(deps.story.history),
        background_tasks=deps.surroundings.list_background(),
        session_crons=deps.surroundings.list_schedules(),
    )
    await join_outcome(deps, emit, outcome)
    if outcome.halt is not None:
        return TurnEnd(reason="stopped_by_hook", message=outcome.halt)
    words = "\n".join(filter(None, [outcome.block, *outcome.context]))
    if not words and outcome.block is None:
        return step
    if not recoveries.has_left("hook"):
        times = format_count(recoveries.hook, "time")
        spent = f"a Stop hook continued the turn {times}; the turn was ended anyway"
        await emit(Noticed(messages=(spent,)))
        return step
    return Continue(cause="hook", words=STOP_FEEDBACK.format(words=words or "continue"))


async def emptied(deps: Deps, emit: Emit) -> bool:
    """Compact after a response that filled the window; return whether this made room."""
    request = (await prepare(deps, emit)).request
    return await deps.compaction.after_overflow(deps, request, None, 2, emit)


async def wait_for_late(deps: Deps, emit: Emit) -> None:
    """Wait for everything that the next request depends on, and add the news for the model."""
    entries = list(await deps.arrivals.await_late())
    if notices := deps.arrivals.take_notices():
        await emit(Noticed(messages=notices))
    if entries:
        deps.story.add(entries)
        await emit(Recorded(entries=entries))
        await ensure_saved(deps, emit)


async def go_on(deps: Deps, emit: Emit, step: Continue) -> None:
    """Add the messages for the next request: the step's own text and those that have arrived."""
    await join_outcome(deps, emit, await report_notices(deps, emit, await deps.hooks.waiting(emit)))
    entries = list(deps.arrivals.take_messages())
    if step.words:
        entries.insert(
            0,
            factories.make_user(
                step.words, uuid=deps.clock.new_id(), at=deps.clock.now(), is_meta=True
            ),
        )
    await add_entries(deps, emit, entries)


async def add_entries(deps: Deps, emit: Emit, entries: Sequence[Json]) -> None:
    """Add entries to the conversation and emit them."""
    if entries:
        deps.story.add(entries)
        await emit(Recorded(entries=list(entries)))


def tokens_said(deps: Deps) -> int:
    """Return the number of output tokens so far, as counted by the service."""
    return deps.spending.ledger.total.tokens.output


def ended_badly(step: TurnEnd) -> bool:
    return step.reason not in ENDED_WELL

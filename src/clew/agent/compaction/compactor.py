"""Keep a conversation within its window: before a request, after an overflow, or on demand.

This module controls the steps of a compaction. First, hooks may prevent it; then the summary is
requested. Then the boundary, the restored facts and the summary are appended to the transcript in
one write, the summary last; until its line is complete, the conversation is unchanged. Every
failure has a fallback: a shorter request for the summary, a summary without a model, fewer kept
messages. A compaction never runs concurrently with a round, because the loop waits for the
compaction.

Decision: docs/decisions/160-compaction.md
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from clew.agent.compaction import boundary, kept, micro, retelling
from clew.agent.compaction import boundary as receipt
from clew.agent.compaction.boundary import Selection, exceeds
from clew.agent.compaction.budget import Room, choose_step
from clew.agent.compaction.strategy import (
    CompactFunction,
    CompactionRequest,
    CompactionSummary,
    ask_strategy,
)
from clew.agent.compaction.summary import NO_SUMMARY, Summaries, SummaryResult
from clew.agent.context.facts import Fact
from clew.agent.deps import Deps, Emit, TurnClock, ensure_saved
from clew.agent.events import Compacted, Compacting, NotCompacted, Noticed, Recorded, TurnEnded
from clew.agent.hooked import fire_event, join_outcome, report_notices
from clew.agent.requests import estimate_input_tokens
from clew.agent.response import prepare
from clew.agent.story import Story
from clew.core.input import CompactSession
from clew.core.json_object import Json
from clew.core.messages import factories
from clew.core.messages.history import History
from clew.core.messages.text import format_count
from clew.core.normalize.tokens import estimate_content_tokens, estimate_tool_tokens
from clew.providers.answer_events import CompactionDue
from clew.providers.base import ModelRequest

# Maximum consecutive attempts to shorten a request that does not fit.
MAX_TRIES = 3
# After this time the cache has expired, so removing results costs nothing.
COLD_AFTER_S = 300.0
# If a compaction frees too little, the next one waits until the conversation has grown by this
# factor.
GROWTH = 1.1
NEVER = 1 << 62
WARNING = (
    "{part}% of the context window is used. The conversation will be compacted at {auto:,} tokens. "
    "Run /compact to compact it now, or /clear to start over."
)
WITHOUT_TALK = (
    "the fixed part of every request takes about {standing:,} of {window:,} tokens: system prompt "
    "{system:,}, {count} {tools:,}. Compacting can't reduce this part. Use a model with a larger window "
    "(/model), fewer tools (--tools, /mcp disable) or a shorter system prompt"
)
TOO_SHORT = "nothing was compacted: the summary would not be shorter than the conversation"
BRIEF = "the conversation is too short"
SHORTENED = (
    "not sent to the model: {what}. To send everything, use shorter files or a model with a larger "
    "window (/model)"
)
TURNED_OFF = (
    "automatic compaction is off (autoCompactEnabled or CLEW_DISABLE_AUTO_COMPACT); run /compact to "
    "compact the conversation"
)


class CompactionContext(Struct, frozen=True, kw_only=True):
    """The session's services that a compaction needs."""

    # Returns a model's budget; the second argument is the limit that the service reported, if any.
    room: Callable[[str, int | None], Room]
    is_on: Callable[[], bool]
    estimate: Callable[[ModelRequest, History], int]
    summaries: Summaries
    # Returns the facts to restore after a boundary, from the covered and the kept entries.
    facts: Callable[[Sequence[Json], Sequence[Json], Room], Awaitable[list[Fact]]]
    todos: Callable[[], Sequence[Json]]
    # Saves text to a file and returns the file's path, or None if it can't be written.
    keep: Callable[[str], str | None]
    # Returns how long ago the last request was sent; the service's cache expires after a while.
    idle_s: Callable[[], float]
    # The program's own way to compact.
    strategy: CompactFunction | None = None


class Prevented(Struct, frozen=True, kw_only=True):
    """A compaction that did not happen, and the reason."""

    why: str


class Compactor:
    def __init__(self, around: CompactionContext) -> None:
        self._around = around
        self._is_warned = False
        # Whether no summary could be requested for a history that is too large for a request.
        self._is_unavailable = False
        self._held = 0
        # Window limits that the service reported for models with unknown windows.
        self._learnt: dict[str, int] = {}

    # -- triggers

    async def make_sendable(self, deps: Deps, request: ModelRequest, size: int, emit: Emit) -> bool:
        """Compact a history that is too large for a request; `request` has no messages yet."""
        room = self._room(request.model)
        selection = boundary.with_tail(list(deps.story.history), room.kept)
        if not retelling.is_answered(selection.covered):
            return False
        work = Work(request=request, room=room, size=size, must=True, is_unsent=True)
        failure = await self._shorten(deps, "auto", CompactSession(), selection, work, emit)
        self._is_unavailable = failure is not None
        return not self._is_unavailable

    async def make_room(self, deps: Deps, request: ModelRequest, emit: Emit) -> bool:
        """Remove old results, compact the conversation or warn the user, if any of these is due."""
        room = self._room(request.model)
        if room.auto is None or not self._around.is_on():
            return False
        size = self._around.estimate(request, deps.story.history)
        is_cold = self._around.idle_s() > COLD_AFTER_S and size >= room.cold
        old: list[micro.Old] = []
        if size >= room.auto or is_cold:
            over = max(0, size - (room.warn or size))
            old = micro.select_results(loose(deps.story), over)
        freeable = sum(result.tokens for result in old)
        match choose_step(size, room, freeable=freeable, is_cold=is_cold):
            case "free":
                return await self._free(deps, old, size, emit)
            case "shorten" if size >= self._held:
                selection = boundary.with_tail(list(deps.story.history), room.kept)
                if not retelling.is_answered(selection.covered):
                    return False  # nothing to summarize yet; the service decides if it fits
                order = CompactSession()
                work = Work(request=request, room=room, size=size, may_ask_whole=True)
                done = await self._shorten(deps, "auto", order, selection, work, emit)
                self._held = round(max(size, self._held) * GROWTH) if done else room.auto
                return done is None
            case "warn" if not self._is_warned:
                self._is_warned = True
                part = round(100 * size / (room.window or size))
                await emit(Noticed(messages=(WARNING.format(part=part, auto=room.auto),)))
        return False

    async def after_overflow(
        self, deps: Deps, request: ModelRequest, due: CompactionDue | None, tries: int, emit: Emit
    ) -> bool:
        """Shorten the conversation after an overflow, more aggressively with each try."""
        self._learn(due)
        if self._is_unavailable:
            return False
        if tries > MAX_TRIES:
            await self._tell_of_beginning(request, emit)
            return False
        if not self._around.is_on():
            await emit(Noticed(messages=(TURNED_OFF,)))
            return False
        entries = list(deps.story.history)
        room = self._room(request.model)
        size = self._around.estimate(request, deps.story.history)
        size = max(size, (due and due.overflow.input_tokens) or 0)
        if tries == 1:
            large = micro.select_results(loose(deps.story), size // 4)
            if 4 * sum(result.tokens for result in large) >= size:
                return await self._free(deps, large, size, emit)
        if is_brief(entries):
            # Only shorter facts can help, and the last attempt shortens them.
            tries = MAX_TRIES
        kept_tokens = (room.kept, room.kept // 4, 0)
        selection = boundary.with_tail(entries, kept_tokens[tries - 1])
        work = Work(request=request, room=room, size=size, must=True, is_last=tries == MAX_TRIES)
        failure = await self._shorten(deps, "auto", CompactSession(), selection, work, emit)
        if failure != TOO_SHORT:
            return failure is None
        if tries == 1:
            # The second attempt must keep less than the first one.
            less = boundary.with_tail(entries, kept_tokens[1])
            tries += len(less.kept) == len(selection.kept)
        return await self.after_overflow(deps, request, due, tries + 1, emit)

    async def _tell_of_beginning(self, request: ModelRequest, emit: Emit) -> None:
        """Tell the user what fills the window when a compaction can't help."""
        window = self._room(request.model).window
        tools = request.tools or []
        system, described = (
            estimate_content_tokens(request.system),
            sum(map(estimate_tool_tokens, tools)),
        )
        if window is not None and 2 * (system + described) > window:
            words = WITHOUT_TALK.format(
                standing=system + described,
                window=window,
                system=system,
                count=format_count(len(tools), "tool"),
                tools=described,
            )
            await emit(Noticed(messages=(words,)))

    async def run(self, deps: Deps, order: CompactSession, emit: Emit) -> TurnEnded:
        """Run a compaction that the user requested between two turns."""
        if order.undo:
            return await self._undone(deps)
        await join_outcome(
            deps, emit, await report_notices(deps, emit, await deps.hooks.waiting(emit))
        )
        entries = list(deps.story.history)
        selection = selected(entries, order)
        if isinstance(selection, str):
            return TurnEnded(reason="failed", message=selection)
        request = (await prepare(deps, emit)).request
        size = self._around.estimate(request, deps.story.history)
        whole_fits = order.up_to is None and order.since is None
        room = self._room(request.model)
        work = Work(request=request, room=room, size=size, may_ask_whole=whole_fits)
        messages: list[str] = []

        async def listening(event: Any) -> None:
            if isinstance(event, Compacted):
                messages.append(event.message)
            await emit(event)

        failure = await self._shorten(deps, "manual", order, selection, work, listening)
        self._held, self._is_warned = 0, False
        if failure is not None:
            return TurnEnded(reason="failed", message=failure)
        return TurnEnded(reason="completed", message=messages[-1])

    async def _undone(self, deps: Deps) -> TurnEnded:
        why = await deps.story.uncompact()
        if why:
            return TurnEnded(reason="failed", message=why)
        self._held = NEVER  # after an undo, do not compact again automatically
        words = "The last compaction was undone; the full conversation is restored."
        return TurnEnded(reason="completed", message=words)

    def _room(self, model: str) -> Room:
        return self._around.room(model, self._learnt.get(model))

    def _learn(self, due: CompactionDue | None) -> None:
        if due is not None and due.overflow.limit_tokens:
            self._learnt[due.model] = due.overflow.limit_tokens

    # -- old results

    async def _free(self, deps: Deps, old: Sequence[micro.Old], size: int, emit: Emit) -> bool:
        """Replace old tool results with references to files; keep results that can't be saved."""
        references: dict[str, str] = {}
        saved_tokens = 0
        for result in old:
            path = self._around.keep(result.text)
            if path is not None:
                references[result.tool_use_id] = micro.describe_reference(result, path)
                saved_tokens += result.tokens
        if not references:
            return False
        entry = micro.make_entry(
            references,
            uuid=deps.clock.new_id(),
            at=deps.clock.now(),
            trigger="auto",
            pre_tokens=size,
            saved=saved_tokens,
        )
        deps.story.add([entry])
        await emit(Recorded(entries=[entry]))
        await ensure_saved(deps, emit)
        return True

    # -- summary

    async def _shorten(
        self,
        deps: Deps,
        trigger: str,
        order: CompactSession,
        selection: Selection,
        work: "Work",
        emit: Emit,
    ) -> str | None:
        """Replace the selection with its summary; return the reason on failure, else None."""
        edits = deps.story.edits
        selection = boundary.with_edits(selection, edits, keeps_pins=not work.is_last)
        focus = order.focus
        outcome = await fire_event(
            deps, emit, "PreCompact", trigger=trigger, custom_instructions=focus or None
        )
        if outcome.block is not None or outcome.halt is not None:
            why = f"a hook blocked the compaction: {outcome.block or outcome.halt}"
            await emit(NotCompacted(message=why, trigger=trigger))
            return why
        if not work.must and is_brief(selection.covered):
            await emit(NotCompacted(message=TOO_SHORT, trigger=trigger))
            return TOO_SHORT
        await emit(Compacting(trigger=trigger))
        try:
            focus = "\n".join(filter(None, [focus, *outcome.context]))
            own = await self._ask_program(deps, trigger, selection, focus, work, emit)
            if own is None:
                result = await self._asked(deps, selection, focus, work)
            else:
                selection, result = own
            if isinstance(result, Prevented):
                await emit(NotCompacted(message=result.why, trigger=trigger))
                return result.why
            not_done = await self._begin_anew(deps, trigger, selection, result, work, emit)
            if not_done is not None:
                await emit(NotCompacted(message=not_done, trigger=trigger))
                return not_done
        except asyncio.CancelledError:
            await emit(NotCompacted(message="stopped", trigger=trigger))
            raise
        await self._after(deps, trigger, result.words, work.request.model, emit)
        return None

    async def _ask_program(
        self,
        deps: Deps,
        trigger: str,
        selection: Selection,
        focus: str,
        work: "Work",
        emit: Emit,
    ) -> tuple[Selection, SummaryResult] | None:
        """Ask the host program for a summary; return it, or None to use clew's own compaction."""
        strategy = self._around.strategy
        if strategy is None or work.is_last or selection.is_before:
            return None
        begin_s = deps.clock.monotonic_s()
        entries = list(deps.story.history)
        answer = await ask_strategy(
            strategy,
            CompactionRequest(
                entries=entries,
                keep_from=selection.kept[0].get("uuid") if selection.kept else None,
                kept_tokens=work.room.kept,
                summary_tokens=work.room.summary,
                trigger=trigger,
                focus=focus,
            ),
        )
        if isinstance(answer, CompactionSummary):
            place = len(entries)
            if answer.keep_from is not None:
                place = place_of(entries, answer.keep_from) or 0
            chosen = boundary.select_up_to(entries, place)
            if chosen.covered:
                result = SummaryResult(
                    words=answer.text,
                    by="program",
                    duration_ms=(deps.clock.monotonic_s() - begin_s) * 1000,
                )
                return boundary.with_edits(chosen, deps.story.edits, keeps_pins=True), result
            answer = ValueError(
                f"keep_from: {answer.keep_from!r} must be the ID of a message after the first one"
            )
        if answer is not None:
            failure = f"{type(answer).__name__}: {answer}"
            words = f"the program's compaction failed, so clew uses its own: {failure}"
            await emit(Noticed(messages=(words,)))
        return None

    async def _asked(
        self, deps: Deps, selection: Selection, focus: str, work: "Work"
    ) -> SummaryResult | Prevented:
        begin_s = deps.clock.monotonic_s()
        result: SummaryResult | str = BRIEF
        if not (work.is_last and is_brief(selection.covered)):
            result = await self._around.summaries.ask(
                selection,
                focus,
                work.request,
                room=work.room,
                size=work.size,
                is_full=work.may_ask_whole,
            )
        if isinstance(result, str):
            if not work.must or (work.is_unsent and result != NO_SUMMARY):
                return Prevented(why=f"summarizing failed: {result}")
            words = retelling.without_model(selection.covered)
            result = SummaryResult(
                words=words, by="record", left_out=(f"{receipt.NO_MODEL}{result}",)
            )
        return replace(result, duration_ms=(deps.clock.monotonic_s() - begin_s) * 1000)

    async def _begin_anew(
        self,
        deps: Deps,
        trigger: str,
        selection: Selection,
        result: SummaryResult,
        work: "Work",
        emit: Emit,
    ) -> str | None:
        """Write the compaction to the transcript, if it makes the conversation smaller.

        Return the reason if nothing was written. Once the facts are gathered, nothing is awaited
        until the write is done, so that the recorded selection matches the conversation.
        """
        room = work.room
        facts = await self._around.facts(selection.covered, selection.kept, room)
        left_out, shortened = list(result.left_out), list[str]()
        if work.is_last:
            facts, shortened = kept.fit_facts(facts, room.files)
            left_out += shortened
        uuid, summary_uuid, at = deps.clock.new_id(), deps.clock.new_id(), deps.clock.now()
        covers = receipt.covers(
            selection.covered, todos=self._around.todos(), by=result.by, left_out=left_out
        )
        words = [
            result.words,
            # After a finished turn (manual compaction) the quoted request could be carried out
            # again.
            self._last_request(selection, room) if trigger == "auto" else "",
            receipt.in_words(
                covers,
                kept_count=len(selection.kept),
                transcript=str(deps.story.recorder.transcript),
            ),
        ]
        opening_entries = [
            *make_entries(facts, deps.clock),
            receipt.make_summary_entry(words, uuid=summary_uuid, at=at),
        ]
        if not self._is_smaller(deps, opening_entries, selection):
            # The model can read the files again; beginning and end of instructions say what they
            # are about.
            facts = [fact for fact in facts if fact.payload.get("type") != "file"]
            facts, shortened = kept.fit_facts(facts, room.files)
            opening_entries = [*make_entries(facts, deps.clock), opening_entries[-1]]
            if not self._is_smaller(deps, opening_entries, selection):
                return TOO_SHORT
        post_tokens = estimate_input_tokens(replace(work.request, messages=[])) + sum(
            map(boundary.entry_tokens, [*opening_entries, *selection.kept])
        )
        entry = boundary.make_boundary(
            selection,
            uuid=uuid,
            summary_uuid=summary_uuid,
            at=at,
            trigger=trigger,
            pre_tokens=work.size,
            post_tokens=post_tokens,
            dropped_before=boundary.count_dropped_tokens(deps.story.history),
            duration_ms=result.duration_ms,
            covers=covers,
        )
        deps.story.compact(entry, opening_entries, selection.kept, kept_first=selection.is_before)
        self._is_warned = False
        await ensure_saved(deps, emit)
        await emit(
            Compacted(
                boundary=entry, entries=opening_entries, message=receipt.describe_boundary(entry)
            )
        )
        if shortened:
            await emit(Noticed(messages=(SHORTENED.format(what="; ".join(shortened)),)))
        return None

    def _is_smaller(self, deps: Deps, opening: Sequence[Json], selection: Selection) -> bool:
        """Return whether the conversation's new beginning makes requests smaller."""
        then = deps.story.edits.apply([*opening, *selection.kept])
        return boundary.is_smaller(then, deps.story.sent)

    def _last_request(self, selection: Selection, room: Room) -> str:
        """Quote the user's last request, shortened if long; empty if a kept entry contains it."""
        if selection.is_before or retelling.list_prompts(selection.kept, last=1):
            return ""
        prompts = retelling.list_prompts(selection.covered, last=1)
        if not prompts:
            return retelling.find_quote(selection.covered)
        text = retelling.prompt_text(prompts[-1])
        excerpt = retelling.cut_middle(text, room.quote * 3)
        where = "" if excerpt == text else self._around.keep(text) or "the transcript"
        return retelling.quote_request(excerpt, where)

    async def _after(self, deps: Deps, trigger: str, summary: str, model: str, emit: Emit) -> None:
        await fire_event(deps, emit, "PostCompact", trigger=trigger, compact_summary=summary)
        outcome = await fire_event(deps, emit, "SessionStart", source="compact", model=model)
        await join_outcome(deps, emit, outcome)


def make_entries(facts: Iterable[Fact], clock: TurnClock) -> list[Json]:
    """Return the facts as new transcript entries."""
    at = clock.now()
    return [
        factories.make_attachment(
            fact.payload, uuid=clock.new_id(), at=at, rendered=fact.rendered, role=fact.role
        )
        for fact in facts
    ]


def is_brief(entries: Iterable[Json]) -> bool:
    """Return whether the messages are so short that a summary would not be shorter."""
    messages = (entry for entry in entries if entry.get("type") != "attachment")
    return not exceeds(messages, receipt.LEAST_SUMMARY_TOKENS)


def loose(story: Story) -> list[Json]:
    """Return the entries of the history that the user has not pinned."""
    pins = story.edits.pinned
    return [entry for entry in story.history if entry.get("uuid") not in pins]


class Work(Struct, frozen=True, kw_only=True):
    """One compaction: the request to shorten, its size, and which fallbacks are allowed."""

    request: ModelRequest
    room: Room
    size: int
    # Whether the conversation itself, which is cached, may be the prompt for the summary.
    may_ask_whole: bool = False
    # The next request can't be sent without a compaction.
    must: bool = False
    # The service has not answered in this process. A service that is unavailable must not cost the
    # session its history.
    is_unsent: bool = False
    is_last: bool = False


def selected(entries: Sequence[Json], order: CompactSession) -> Selection | str:
    """Return what a user's compaction request summarizes and keeps, or an error message."""
    if not retelling.is_answered(entries):
        return "nothing to summarize yet"
    if order.up_to is None and order.since is None:
        return boundary.with_tail(entries, 0)
    place = place_of(entries, order.up_to or order.since or "")
    if place is None:
        return f'message "{order.up_to or order.since}" not found in this conversation'
    selection = (
        boundary.select_up_to(entries, place)
        if order.up_to
        else boundary.select_since(entries, place)
    )
    if not selection.covered:
        return "there are no messages to summarize before this one"
    if not (selection.kept or order.up_to):
        return "there are no earlier messages to keep; to summarize everything, run /compact"
    return selection


def place_of(entries: Sequence[Json], name: str) -> int | None:
    """Return the index of the message with this ID or unique ID prefix, or None."""
    places = [
        at for at, e in enumerate(entries) if name and str(e.get("uuid", "")).startswith(name)
    ]
    return places[0] if len(places) == 1 else None

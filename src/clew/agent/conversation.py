"""A session's conversation: runs one turn at a time, and stops it when the user interrupts.

A conversation contains only the running turn and the messages that arrive during it: the history
belongs to `Story`, and everything else to `Deps`. If this file grows, consider which attributes
could move elsewhere.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from clew.agent.deferred_calls import repeat_deferred_calls
from clew.agent.deps import Deps, Emit, ensure_saved
from clew.agent.events import Noticed, Recorded, TurnEnded
from clew.agent.hooked import BLOCKED_PROMPT, fire_event, make_hook_entries, report_notices
from clew.agent.hooks.outcome import HookOutcome
from clew.agent.intake import title_of
from clew.agent.loop import run_turn
from clew.agent.transitions import TokenBudget, read_wished_tokens
from clew.core.input import CompactSession, as_typed
from clew.core.json_object import Json
from clew.core.ledger.ledger import Purpose
from clew.core.ledger.state import Interacted
from clew.core.messages import factories
from clew.core.messages.messages import UserMessage
from clew.providers.answer_events import Ended
from clew.providers.base import Failure, ModelRequest
from clew.record.transcript.record import Recorder

ASIDE = (
    "The user asks a side question. Answer it in a few sentences from what you know, without"
    " calling tools. Neither the question nor your answer becomes part of the"
    " conversation.\n\n{words}"
)


class Speaker(Struct, frozen=True, kw_only=True):
    """The source of a message (the user or a program), as recorded in the transcript."""

    source: str
    mode: str
    origin: Json | None = None


class Inbox:
    """The messages typed during a turn, held until the turn picks them up between two rounds."""

    def __init__(self) -> None:
        # Each message with the entries that go with it.
        self._waiting: list[list[Json]] = []

    def put(self, message: Json, context: Sequence[Json] = ()) -> None:
        self._waiting.append([message, *context])

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take_back(self, uuid: str) -> Json | None:
        """Remove and return one message, with its entries; None if it is not in the inbox."""
        found = next((entries for entries in self._waiting if entries[0]["uuid"] == uuid), None)
        if found is None:
            return None
        self._waiting.remove(found)
        return found[0]

    def list_uuids(self) -> frozenset[str]:
        """Return the IDs of the waiting messages."""
        return frozenset(entries[0]["uuid"] for entries in self._waiting)

    def take(self) -> list[Json]:
        batch, self._waiting = self._waiting, []
        return [entry for entries in batch for entry in entries]

    def take_newer(self, known: frozenset[str]) -> list[Json]:
        """Remove and return the messages whose IDs are not in `known`, with their entries."""
        newer = [entries for entries in self._waiting if entries[0]["uuid"] not in known]
        self._waiting = [entries for entries in self._waiting if entries[0]["uuid"] in known]
        return [entry for entries in newer for entry in entries]


# The fields of a message that are recorded in addition to its content.
KEPT = ("promptSource", "origin", "permissionMode")


class RecordedInbox(Inbox):
    """An inbox whose messages survive a crash.

    A message is considered received once an entry with its UUID is in the transcript.
    """

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def put(self, message: Json, context: Sequence[Json] = ()) -> None:
        super().put(message, context)
        about = {name: message[name] for name in KEPT if name in message}
        self._recorder.enqueue(message["uuid"], message["message"]["content"], **about)

    def take_back(self, uuid: str) -> Json | None:
        message = super().take_back(uuid)
        if message is not None:
            self._recorder.dequeue(uuid)
        return message


def ignore_event(emit: Emit) -> Emit:
    return emit


class Conversation:
    """Runs one turn at a time. `interrupt` ends the running turn and keeps its work."""

    def __init__(
        self, deps: Deps, inbox: Inbox, watch: Callable[[Emit], Emit] = ignore_event
    ) -> None:
        self._deps = deps
        self._inbox = inbox
        # Wraps every emit function, for debugging.
        self._watch = watch
        self._turn: asyncio.Task[TurnEnded] | None = None
        self._is_interrupted = False
        # System entries to be recorded once no turn runs.
        self._notes: list[Json] = []
        # The number of turns started.
        self.turns = 0
        # Whether the running work has steps, so that it can move to the background between two of
        # them; a compaction has none.
        self.has_steps = False

    @property
    def is_running(self) -> bool:
        return self._turn is not None

    async def submit(
        self,
        prompt: str | Sequence[Json],
        emit: Emit,
        *,
        said_by: Speaker,
        uuid: str | None = None,
        context: Sequence[Json] = (),
    ) -> TurnEnded:
        """Run the turn that answers `prompt`, which is saved durably before any request is sent."""
        text, emit = words_of(prompt), self._watch(emit)
        before = self._deps.story.said
        # Listed here, because a message can arrive before the first step of the turn's task.
        earlier = self._inbox.list_uuids()
        turn = self._prompted(prompt, text, emit, said_by, uuid, context, earlier)
        ended = await self._run(turn, emit, title=title_of(prompt))
        if ended.reason == "aborted_streaming" and self._deps.story.said == before:
            # Interrupted before the prompt was recorded.
            await self.keep_interrupted(prompt, emit, said_by=said_by, uuid=uuid, context=context)
        return ended

    async def run(self, emit: Emit, *, title: str = "") -> TurnEnded:
        """Answer the last message of the conversation."""
        emit = self._watch(emit)
        return await self._run(run_turn(self._deps, emit), emit, title=title)

    async def _prompted(
        self,
        prompt: str | Sequence[Json],
        text: str,
        emit: Emit,
        said_by: Speaker,
        uuid: str | None,
        context: Sequence[Json],
        earlier: frozenset[str],
    ) -> TurnEnded:
        """Add the prompt to the conversation and answer it, unless a hook blocks it.

        `earlier` contains the IDs of the messages that were waiting before the prompt was sent.
        """
        deps = self._deps
        noticed = await deps.arrivals.refresh_settings()
        if noticed:
            await emit(Noticed(messages=noticed))
        outcome = await report_notices(deps, emit, await deps.hooks.waiting(emit))
        prompt_id = deps.clock.new_id()
        hook_outcome = await fire_event(
            deps, emit, "UserPromptSubmit", prompt=text, prompt_id=prompt_id
        )
        if hook_outcome.block is not None or hook_outcome.halt is not None:
            return await self._refused(hook_outcome, text, emit)
        message = self._message(prompt, said_by, uuid) | {"promptId": prompt_id}
        try:
            ended = await repeat_deferred_calls(deps, emit)
        except asyncio.CancelledError:
            deps.story.add([message, *context])
            raise
        around = [*make_hook_entries(deps, outcome), *make_hook_entries(deps, hook_outcome)]
        # Messages that arrived since then were sent after this prompt.
        newer = self._inbox.take_newer(earlier)
        before = deps.arrivals.take_messages()
        await self._keep([*before, message, *context, *around, *newer], emit)
        if ended is not None:
            await ensure_saved(deps, emit)
            return ended
        wished = read_wished_tokens(text)
        tokens = None if wished is None else TokenBudget(wished)
        return await run_turn(deps, emit, tokens)

    async def _refused(self, outcome: HookOutcome, prompt: str, emit: Emit) -> TurnEnded:
        """Record a prompt that a hook blocked; no request is sent."""
        deps = self._deps
        words = BLOCKED_PROMPT.format(why=outcome.block or outcome.halt or "no reason given")
        notice = words if outcome.hides_prompt else f"{words}\n\nOriginal prompt: {prompt}"
        note = factories.make_system(
            "informational", notice, uuid=deps.clock.new_id(), at=deps.clock.now(), level="warning"
        )
        await self._keep([note], emit)
        await ensure_saved(deps, emit)
        return TurnEnded(reason="stopped_by_hook", message=words)

    async def keep(
        self,
        prompt: str | Sequence[Json],
        emit: Emit,
        *,
        said_by: Speaker,
        uuid: str | None = None,
        context: Sequence[Json] = (),
    ) -> None:
        """Add a message to the conversation without asking for a response."""
        emit = self._watch(emit)
        await self._keep([self._message(prompt, said_by, uuid), *context], emit)
        await ensure_saved(self._deps, emit)

    async def keep_interrupted(
        self,
        prompt: str | Sequence[Json],
        emit: Emit,
        *,
        said_by: Speaker,
        uuid: str | None = None,
        context: Sequence[Json] = (),
    ) -> None:
        """Record a prompt that was interrupted before it was sent.

        The prompt is not recorded if a hook could still have blocked it, because the next request
        would send it.
        """
        if self._deps.hooks.hears("UserPromptSubmit"):
            return
        clock = self._deps.clock
        mark = factories.make_interruption(uuid=clock.new_id(), at=clock.now(), for_tool_use=False)
        await self.keep(prompt, emit, said_by=said_by, uuid=uuid, context=[*context, mark])

    async def compact(self, order: CompactSession, emit: Emit) -> TurnEnded:
        """Compact the conversation, or undo a compaction.

        No turn runs at the same time. If `interrupt` stops the work, the conversation is unchanged.
        """
        deps = self._deps
        return await self._run(
            deps.compaction.run(deps, order, emit), emit, title="", has_steps=False
        )

    async def ask_aside(
        self, words: str, put: Callable[[ModelRequest, Purpose], Awaitable[Ended]]
    ) -> str | Failure:
        """Ask the model about the conversation without adding to it.

        The question is appended to the next request, whose prefix is in the prompt cache. Question
        and answer are recorded as virtual messages, which are shown but never sent.
        """
        from clew.agent.compaction.retelling import with_question
        from clew.agent.side_question import read_answer

        deps = self._deps
        request = deps.model.prepare(deps.story).request
        messages, unshared = with_question(request.messages, ASIDE.format(words=words))
        ended = await put(
            replace(request, messages=messages, unshared_tail=unshared, compares_with=None), "aside"
        )
        answer = read_answer(ended)
        if isinstance(answer, str):
            clock = deps.clock
            self.note(
                factories.make_user(words, uuid=clock.new_id(), at=clock.now(), is_virtual=True)
            )
            said = factories.synthetic_assistant(
                answer,
                uuid=clock.new_id(),
                at=clock.now(),
                message_id=f"msg_{clock.new_id()}",
                is_virtual=True,
            )
            self.note(said | {"requestId": f"req_{said['uuid']}"})
        return answer

    def take_back(self, uuid: str) -> Json | None:
        """Remove and return a message; None if the running turn has already picked it up."""
        return self._inbox.take_back(uuid)

    @property
    def has_unheard(self) -> bool:
        """True if a message arrived during a turn that ended before picking it up."""
        return bool(self._inbox)

    async def answer_unheard(self, emit: Emit) -> TurnEnded:
        """Answer the messages that arrived too late for the turn during which they were sent."""
        await self._keep(self._deps.arrivals.take_messages(), emit)
        return await self.run(emit)

    def note(self, entry: Json, *, after_turn: bool = False) -> None:
        """Record an entry that the model does not see, as soon as no turn runs.

        During a turn, the entry could separate calls from their results. Before the first prompt,
        there is no session in which to record it. With `after_turn`, wait until a turn has run, so
        that merely viewing a session does not change the session.
        """
        self._notes.append(entry)
        if not after_turn and (self._turn is None or self._turn.done()):
            self._record_notes()

    def _record_notes(self) -> None:
        if self._notes and len(self._deps.story.history):
            notes, self._notes = self._notes, []
            self._deps.story.add(notes)

    def _note_duration(self, duration_s: float) -> None:
        """Record how long a turn took, if it took long or a setting asks for it."""
        deps = self._deps
        least_s = deps.surroundings.recorded_from_s()
        if least_s is None or duration_s < least_s:
            return
        self.note(
            factories.make_system(
                "turn_duration",
                uuid=deps.clock.new_id(),
                at=deps.clock.now(),
                durationMs=round(duration_s * 1000),
                messageCount=len(deps.story.history),
                isMeta=True,
            )
        )

    async def _keep(self, entries: Sequence[Json], emit: Emit) -> None:
        self._deps.story.add(entries)
        await emit(Recorded(entries=list(entries)))

    async def _run(
        self,
        work: Coroutine[Any, Any, TurnEnded],
        emit: Emit,
        *,
        title: str,
        has_steps: bool = True,
    ) -> TurnEnded:
        self._is_interrupted = False
        self.has_steps = has_steps
        self.turns += 1
        before, begin_s = self._deps.story.said, self._deps.clock.monotonic_s()
        recorder = self._deps.story.recorder
        recorder.shows("busy")
        async with asyncio.TaskGroup() as group:
            self._turn = group.create_task(work)
            if self._is_interrupted:
                self._turn.cancel()
        turn, self._turn = self._turn, None
        ended = self._stopped(before) if turn.cancelled() else turn.result()
        if has_steps:
            self._note_duration(self._deps.clock.monotonic_s() - begin_s)
        self._record_notes()
        if title and self._deps.story.said > before:
            recorder.last_prompt(title)
        await ensure_saved(self._deps, emit)
        recorder.shows("idle")
        return ended

    def _stopped(self, before: int) -> TurnEnded:
        """Return how an interrupted turn ended: during tool calls, or before or in a response."""
        since = self._deps.story.since(before)
        if not since:
            return TurnEnded(reason="aborted_streaming")
        during_tools = "for tool use" in UserMessage(since[-1]).text
        rounds = sum(1 for m in since if m["type"] == "assistant")
        return TurnEnded(
            reason="aborted_tools" if during_tools else "aborted_streaming", rounds=rounds
        )

    def say(
        self,
        prompt: str | Sequence[Json],
        said_by: Speaker,
        *,
        uuid: str | None = None,
        context: Sequence[Json] = (),
    ) -> None:
        """Add a message to the running turn, between two of its rounds."""
        self._inbox.put(self._message(prompt, said_by, uuid), context)

    def _message(self, prompt: str | Sequence[Json], said_by: Speaker, uuid: str | None) -> Json:
        at = self._deps.clock.now()
        self._deps.spending.change(Interacted(at=at))
        return factories.make_user(
            prompt,
            uuid=uuid or self._deps.clock.new_id(),
            at=at,
            prompt_source=said_by.source,
            origin=said_by.origin,
            permission_mode=said_by.mode,
        )

    def interrupt(self) -> bool:
        """End the running turn and keep its finished work; return False if no turn is running."""
        if self._turn is None:
            return False
        self._is_interrupted = True
        return self._turn.cancel()


def words_of(prompt: str | Sequence[Json]) -> str:
    """Return the text of a prompt, as hooks receive it."""
    if isinstance(prompt, str):
        return as_typed(prompt)
    return "\n".join(block["text"] for block in prompt if block.get("type") == "text")

"""Run the matching hooks for an event concurrently, each with a time limit.

This is one of the three places with a broad `except`: every failure inside a hook becomes part of
its reply. A hook's errors, hangs or excessive output must never affect the session; limits apply
here and in the executors.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import TypeAlias, assert_never
from uuid import uuid4

from msgspec import Struct, json
from msgspec.structs import replace

from clew.agent.calls import BoundCall
from clew.agent.events import HookFinished, HookStarted
from clew.agent.hooks.events import BY_NAME, Event, subject_of
from clew.agent.hooks.fold import Occasion, fold
from clew.agent.hooks.handlers import (
    AgentHook,
    CallbackHook,
    CommandHook,
    Hook,
    HookListing,
    HttpHook,
    McpToolHook,
    PromptHook,
    UnreachableHookError,
)
from clew.agent.hooks.outcome import NOTHING, HookAttachment, HookOutcome, matches, meets
from clew.agent.hooks.output import HookReply, Ran, read
from clew.agent.hooks.reach import HookFileWatch, Reach
from clew.core.json_object import Json
from clew.core.messages.errors import ClewError
from clew.permissions.request import LIKE_TOOL, Context, PermissionRequest, Resolve
from clew.permissions.resolver import with_absolute_path
from clew.system.config.mask import remove_secrets

Tell: TypeAlias = Callable[[HookStarted | HookFinished], Awaitable[None]]

# A host function that guards these events must not fail open by timing out.
GATES = frozenset({"PreToolUse", "UserPromptSubmit"})
# The hooks of these events check a call before it runs.
CHECKS = frozenset({"PreToolUse", "PermissionRequest"})
# These events end something, so a failed hook must not keep it running.
NEVER_BLOCKED = frozenset({"Stop", "SubagentStop", "TaskCompleted", "TeammateIdle"})
SESSION_END_MOST_S = 60.0
# Interval for checking the files that hooks watch.
LOOK_S = 1.0


class Here(Struct, frozen=True, kw_only=True):
    """The state of the session that rules and hooks depend on."""

    found: HookListing
    context: Context
    resolve: Resolve


def nothing() -> None:
    """Do nothing when a hook asks to run in the background."""


class SessionHooks:
    """The hooks of one session.

    `read_state` is called at every event; `base` returns the input fields common to all events.
    """

    def __init__(
        self,
        reach: Reach,
        *,
        read_state: Callable[[], Here],
        base: Callable[[], Json],
        effort: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Create the session's hooks; `effort` returns the model's effort level, if it is set."""
        self._reach = reach
        self._here = read_state
        self._base = base
        self._prompt_id = ""
        self._added: list[Hook] = []
        self._opened = AsyncExitStack()
        self._group = asyncio.TaskGroup()
        self._running: set[asyncio.Task[HookOutcome]] = set()
        self._begun: asyncio.Task[HookOutcome] | None = None
        self._early: list[HookStarted | HookFinished] = []
        self._late: list[HookOutcome] = []
        # Tasks of events that the session does not wait for.
        self._told: set[asyncio.Task[HookOutcome]] = set()
        self._watch = HookFileWatch()
        self._watching: asyncio.Task[None] | None = None
        self._effort = effort

    async def __aenter__(self) -> "SessionHooks":
        await self._opened.enter_async_context(self._group)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop waiting for background hooks when the session ends; their programs may continue."""
        await asyncio.sleep(0)  # Those of the last event have not begun yet.
        ends = (*self._running, *self._told, *filter(None, [self._begun, self._watching]))
        for task in ends:
            task.cancel()
        await self._opened.aclose()

    def add(self, hooks: Sequence[Hook]) -> None:
        """Add hooks from outside the settings: from the host, plugins or skills."""
        self._added += hooks

    def remove(self, source: str) -> None:
        self._added = [hook for hook in self._added if hook.source != source]

    # -- events

    async def fire(
        self, event: str, fields: Json, emit: Tell, call: BoundCall | None = None, /
    ) -> HookOutcome:
        """Run the hooks for an event; return their outcome.

        `call` is the tool call that the event is about.
        """
        if "prompt_id" in fields:
            self._prompt_id = fields["prompt_id"]
        row = BY_NAME[event]
        state = self._here()
        hooks = (*state.found.hooks, *self._added)
        chosen = [hook for hook in hooks if calls(hook, row, fields, state, call)]
        alike = as_similar_tool(row, fields)
        others = [
            hook
            for hook in hooks
            if alike is not None and hook not in chosen and calls(hook, row, alike, state, call)
        ]
        if not (chosen or others):
            return NOTHING
        spent = [hook for hook in (*chosen, *others) if hook.handler.once]
        self._added = [hook for hook in self._added if hook not in spent]
        occasion = Occasion(event=row, fields=fields)
        replies = await self._all(chosen, occasion, self._input(row, fields), emit)
        if alike is not None and others:
            told = await self._all(others, occasion, self._input(row, alike), emit)
            replies += [(hook, with_whole_input(reply, fields)) for hook, reply in told]
        outcome = fold(occasion, replies, self._reach.shorten)
        if outcome.watch is not None:
            self._watch.also = outcome.watch
        return outcome

    def hears(self, event: str) -> bool:
        """Return whether any hook is configured for an event."""
        return any(hook.event.name == event for hook in (*self._here().found.hooks, *self._added))

    async def aside(self, event: str, fields: Json, /) -> HookOutcome:
        """Fire an event outside a turn; the next prompt delivers the output of its hooks."""
        outcome = await self.fire(event, fields, self._keep)
        if outcome is not NOTHING:
            self._late.append(outcome)
        return outcome

    def tell(self, event: str, fields: Json, /) -> None:
        """Fire an event without waiting for its hooks."""
        task = self._group.create_task(self.aside(event, fields))
        self._told.add(task)
        task.add_done_callback(self._told.discard)

    async def settled(self, wait_s: float) -> None:
        """Wait, with a time limit, for the hooks of events that `tell` fired."""
        if self._told:
            await asyncio.wait(self._told, timeout=wait_s)

    async def _keep(self, event: HookStarted | HookFinished) -> None:
        self._early.append(event)

    def _input(self, event: Event, fields: Json) -> Json:
        if event.has_tool:
            home = self._reach.environment().get("HOME", "~")
            tool_input = with_absolute_path(fields["tool_input"], self._reach.cwd(), home)
            fields = fields | {"tool_input": tool_input}
        hook_input = self._base() | ({"prompt_id": self._prompt_id} if self._prompt_id else {})
        if not event.has_mode:
            hook_input.pop("permission_mode", None)
        if level := self._effort():
            hook_input["effort"] = {"level": level}
        hook_input |= {"hook_event_name": event.name} | fields
        if not event.has_effort:
            hook_input.pop("effort", None)
        return hook_input

    async def _all(
        self, chosen: Sequence[Hook], occasion: Occasion, hook_input: Json, emit: Tell
    ) -> list[tuple[Hook, HookReply]]:
        """Run all hooks concurrently and return the replies in listing order.

        Nothing waits for background hooks, or for hooks that ask to run in the background.
        """
        waited: list[tuple[Hook, asyncio.Task[Ran]]] = []
        async with asyncio.TaskGroup() as group:
            for hook in chosen:
                if hook.is_background:
                    self._in_background(hook, occasion, hook_input, emit)
                else:
                    task = group.create_task(self._waited(hook, occasion, hook_input, emit))
                    waited.append((hook, task))
        return [(hook, read(occasion.event, task.result())) for hook, task in waited]

    async def _waited(self, hook: Hook, occasion: Occasion, hook_input: Json, emit: Tell) -> Ran:
        """Run a hook until it ends, or until it asks to run in the background."""
        if not isinstance(hook.handler, CommandHook):
            return await self._one(hook, occasion, hook_input, emit)
        leaves = asyncio.Event()
        task = self._group.create_task(
            self._one(hook, occasion, hook_input, emit, went_async=leaves.set)
        )
        leaving = asyncio.create_task(leaves.wait())
        try:
            await asyncio.wait([task, leaving], return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            task.cancel()
            await asyncio.wait([task])
            raise
        finally:
            leaving.cancel()
        if task.done():
            return task.result()
        self._follow_in_background(task, hook, occasion)
        return Ran()

    async def _one(
        self,
        hook: Hook,
        occasion: Occasion,
        hook_input: Json,
        emit: Tell,
        *,
        went_async: Callable[[], object] = nothing,
    ) -> Ran:
        is_shown = not isinstance(hook.handler, CallbackHook)
        hook_id, call_id = str(uuid4()), str(hook_input.get("tool_use_id", ""))
        if is_shown:
            await emit(
                HookStarted(
                    hook_id=hook_id,
                    name=occasion.name,
                    event=occasion.event.name,
                    status=hook.handler.status,
                    tool_use_id=call_id,
                )
            )
        ran = self._masked(await run_hook(hook, hook_input, self._reach, went_async))
        if is_shown:
            await emit(
                HookFinished(
                    hook_id=hook_id,
                    name=occasion.name,
                    event=occasion.event.name,
                    ran=ran,
                    title=hook.handler.title,
                    tool_use_id=call_id,
                )
            )
        return ran

    def _masked(self, ran: Ran) -> Ran:
        secrets = self._reach.secrets
        return replace(
            ran,
            stdout=remove_secrets(ran.stdout, secrets),
            stderr=remove_secrets(ran.stderr, secrets),
            trouble=remove_secrets(ran.trouble, secrets),
        )

    # -- background work

    def begin(self, fields: Json, reload_skills: Callable[[], None]) -> None:
        """Start the SessionStart hooks in the background; the first prompt waits for them."""

        async def started() -> HookOutcome:
            outcome = await self.fire("SessionStart", fields, self._keep)
            if outcome.reloads_skills:
                reload_skills()
            return outcome

        self._begun = self._group.create_task(started())
        self._look_on()

    async def started(self) -> None:
        """Wait until the SessionStart hooks have ended; `waiting` returns their output later."""
        if self._begun is not None:
            await asyncio.shield(self._begun)

    def _look_on(self) -> None:
        """Start watching files if a FileChanged hook exists."""
        if self._watching is None and self.hears("FileChanged"):
            self._watching = self._group.create_task(self._look())

    async def _look(self) -> None:
        while True:
            hooks = (*self._here().found.hooks, *self._added)
            names = [hook.matcher for hook in hooks if hook.event.name == "FileChanged"]
            for path, change in self._watch.look(names, self._reach.project):
                await self.aside("FileChanged", {"file_path": path, "event": change})
            await asyncio.sleep(LOOK_S)

    async def waiting(self, emit: Tell, /) -> HookOutcome:
        self._look_on()
        if self._begun is not None:
            outcome = await asyncio.shield(self._begun)
            self._begun = None
            self._late.insert(0, outcome)
        for event in self._early:
            await emit(event)
        self._early = []
        late, self._late = self._late, []
        return joined(late)

    def _in_background(self, hook: Hook, occasion: Occasion, hook_input: Json, emit: Tell) -> None:
        self._follow_in_background(self._one(hook, occasion, hook_input, emit), hook, occasion)

    def _follow_in_background(
        self, running: Awaitable[Ran], hook: Hook, occasion: Occasion
    ) -> None:
        async def follow() -> HookOutcome:
            ran = await running
            outcome = late_words(occasion, hook, read(occasion.event, ran), self._reach.shorten)
            self._late.append(outcome)
            return outcome

        task = self._group.create_task(follow())
        self._running.add(task)
        task.add_done_callback(self._running.discard)


def calls(
    hook: Hook, event: Event, fields: Json, state: Here, call: BoundCall | None = None
) -> bool:
    """Return whether an event with these fields triggers a hook."""
    if hook.event is not event or hook.agent_id not in ("", fields.get("agent_id")):
        return False
    subject = subject_of(event, fields)
    if subject is not None and not matches(hook.matcher, subject, narrow=event.is_narrow):
        return False
    if not hook.handler.condition:
        return True
    request = PermissionRequest(
        tool=fields["tool_name"],
        input=fields["tool_input"],
        line=None if call is None else call.line,
    )
    return meets(hook.handler.condition, request, state.context, state.resolve)


def as_similar_tool(event: Event, fields: Json) -> Json | None:
    """Return the fields of a call as if it called the tool that does the same, if there is one.

    A hook that checks the commands of Bash must see those of Monitor, too.
    """
    similar = LIKE_TOOL.get(fields.get("tool_name", "")) if event.name in CHECKS else None
    if similar is None:
        return None
    shared = {n: v for n, v in fields["tool_input"].items() if n in ("command", "description")}
    return fields | {"tool_name": similar, "tool_input": shared}


def with_whole_input(reply: HookReply, fields: Json) -> HookReply:
    """Return a reply whose changed input keeps the fields of the call that the hook did not see."""
    specific, given = reply.said.specific, fields["tool_input"]
    if specific is None:
        return reply
    if specific.input is not None:
        specific = replace(specific, input=given | specific.input)
    if specific.answer is not None and specific.answer.input is not None:
        answer = replace(specific.answer, input=given | specific.answer.input)
        specific = replace(specific, answer=answer)
    return replace(reply, said=replace(reply.said, specific=specific))


async def run_hook(
    hook: Hook, hook_input: Json, reach: Reach, went_async: Callable[[], object] = nothing
) -> Ran:
    """Run one hook and return its result. Raise only CancelledError.

    `went_async` is called with the new time limit if the hook asks to run in the background.
    """
    begin_s = time.monotonic()
    timeout_s = hook.timeout_s
    if hook.event.name == "SessionEnd":
        timeout_s = min(timeout_s, SESSION_END_MOST_S)
    is_timeout = is_unreachable = False
    try:
        async with asyncio.timeout(None if hook.is_background else timeout_s) as limit:

            def leave(limit_s: float) -> None:
                nonlocal timeout_s
                timeout_s = limit_s
                limit.reschedule(asyncio.get_running_loop().time() + limit_s)
                went_async()

            return timed(await handled(hook, hook_input, reach, leave), begin_s)
    except TimeoutError:
        is_timeout = True
        trouble = f"no reply within {timeout_s:g} s; the hook was stopped"
    except UnreachableHookError as error:
        is_unreachable, trouble = True, str(error)
    except (ClewError, OSError) as error:
        trouble = str(error)
    except Exception as error:  # noqa: BLE001 (one of the three doors: a hook must not end the session)
        trouble = f"internal error ({type(error).__name__}: {error})"
    return timed(
        Ran(
            trouble=trouble,
            is_timeout=is_timeout,
            blocks_on_trouble=blocks(hook, is_unanswered=is_timeout or is_unreachable),
        ),
        begin_s,
    )


def blocks(hook: Hook, *, is_unanswered: bool) -> bool:
    """Return whether a hook blocks the event when it fails, or does not answer."""
    if is_unanswered and hook.event.name == "PreModelSwitch":
        return True
    if not isinstance(hook.handler, CallbackHook) or hook.event.name in NEVER_BLOCKED:
        return False
    return hook.handler.blocks_on_failure or (is_unanswered and hook.event.name in GATES)


def timed(ran: Ran, begin_s: float) -> Ran:
    return replace(ran, duration_ms=round((time.monotonic() - begin_s) * 1000))


async def handled(
    hook: Hook, hook_input: Json, reach: Reach, went_async: Callable[[float], None]
) -> Ran:
    # Loaded when the first hook runs.
    from clew.agent.hooks.executors import ask, call_tool, look, post, run_command

    handler = hook.handler
    match handler:
        case CommandHook():
            return await run_command(hook, handler, hook_input, reach, went_async)
        case HttpHook():
            return await post(handler, hook_input, reach)
        case McpToolHook():
            return await call_tool(handler, hook_input, reach)
        case PromptHook():
            return await ask(hook, handler, hook_input, reach)
        case AgentHook():
            return await look(hook, handler, hook_input, reach)
        case CallbackHook():
            answer = await handler.call(hook_input, hook_input.get("tool_use_id"))
            return Ran(
                stdout=json.encode(answer).decode(),
                is_structured=True,
                blocks_on_trouble=blocks(hook, is_unanswered=False),
            )
        case _ as never:
            assert_never(never)


def joined(outcomes: Sequence[HookOutcome]) -> HookOutcome:
    """Combine the outcomes of several events into one."""
    if not outcomes:
        return NOTHING
    return HookOutcome(
        attached=tuple(a for o in outcomes for a in o.attached),
        notices=tuple(n for o in outcomes for n in o.notices),
        sequences=tuple(s for o in outcomes for s in o.sequences),
        title=next((o.title for o in reversed(outcomes) if o.title), ""),
        first_prompt=next((o.first_prompt for o in outcomes if o.first_prompt), ""),
        halt=next((o.halt for o in outcomes if o.halt is not None), None),
    )


def late_words(
    occasion: Occasion, hook: Hook, reply: HookReply, shorten: Callable[[str], str]
) -> HookOutcome:
    """Return the outcome of a background hook, reduced to its text for the next request."""
    output = reply.said
    words = [
        text
        for text in (output.specific.context if output.specific else None, output.message)
        if text
    ]
    if isinstance(hook.handler, CommandHook) and hook.handler.wakes and reply.block is not None:
        words.append(reply.ran.stderr.strip() or reply.ran.stdout.strip() or reply.block)
    return HookOutcome(
        attached=tuple(
            HookAttachment(
                payload={
                    "type": "hook_additional_context",
                    "hookName": occasion.name,
                    "toolUseID": occasion.tool_use_id,
                    "hookEvent": occasion.event.name,
                    "content": [shorten(text)],
                },
                rendered=(occasion.spoken(shorten(text)),),
            )
            for text in words
        )
    )

"""Open a session: turn options and an environment into a conversation that can start.

Read the options and settings, open the transcript, make the parts, assemble the conversation and
open the parts. This module owns the lifetime of everything that it opens: when the context of
`open_session` exits, the transcript is flushed, every child process is ended, and the locks are
released.
"""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from clew.agent.calls import BoundCall
from clew.agent.context.facts import make_attachments
from clew.agent.context.prompts import Prompts, RequestBeginning, begin_requests
from clew.agent.conversation import Conversation, Inbox, RecordedInbox, ignore_event
from clew.agent.deps import (
    Arrivals,
    CallApproval,
    Deps,
    Emit,
    ModelAccess,
    TurnClock,
    TurnLimits,
    TurnSurroundings,
)
from clew.agent.intake import make_intake
from clew.agent.judging import Judging
from clew.agent.models import (
    AskPerson,
    Speaking,
    Switching,
    make_template,
    serialise_questions,
)
from clew.agent.options import Options
from clew.agent.requests import Measure, Requests
from clew.agent.services import binds_thinking, target_named
from clew.agent.subagents.offer import is_model_of_project, list_refusals
from clew.agent.tools.base import ToolSession
from clew.agent.tools.file_names import FileNames
from clew.agent.tools.registry import Toolbox
from clew.agent.toolset import SessionTools
from clew.core.json_object import Json
from clew.core.messages.factories import make_system
from clew.core.normalize.repairs import from_record
from clew.parts.agents.places import kinds_of
from clew.parts.background_tasks import find_news, list_running
from clew.parts.context import NOTHING, Ground, HostParts, Thread, prepare_ground
from clew.parts.hooks import make_granter
from clew.parts.memory.part import MemoryPart
from clew.parts.part import Part, PartContext
from clew.parts.plugins.part import load_plugins
from clew.parts.store_copy import open_store_copy
from clew.parts.toolset import new_tool_session, new_toolset, offered_tools
from clew.permissions.decision import Decision
from clew.providers.preferences import apply_preferences
from clew.record.transcript.record import Mirror
from clew.session.notices import collect_notices, describe_return
from clew.session.observers import watch_for_display
from clew.session.parts import SessionParts, make_parts
from clew.session.session import Session, SessionCosts, SessionModelAccess, Workspace
from clew.session.thread import leave_totals, load_thread
from clew.system.clock import get_timestamp, make_id
from clew.system.config.settings import read_object, read_switch
from clew.system.process.run import Programs

if TYPE_CHECKING:
    from clew.agent.offers import ServiceOffer
    from clew.parts.telemetry import Telemetry


@asynccontextmanager
async def open_session(
    options: Options,
    environ: Mapping[str, str],
    cwd: str,
    ask: AskPerson,
    *,
    entrypoint: str,
    brought: HostParts = NOTHING,
    mirror: Mirror | None = None,
) -> AsyncIterator[Session]:
    """Open a new or resumed session. When the context exits, release all of its resources."""
    async with AsyncExitStack() as opened:
        ground = await prepare_ground(options, environ, cwd, opened, brought)
        plugins = load_plugins(options, ground.began)
        # Starts to query the repository while everything else is assembled.
        memory = MemoryPart(ground)
        opened.push_async_callback(memory.aclose)
        # Opened before the record, which may have to be fetched from the store, and closed after
        # it.
        store_copy = await opened.enter_async_context(open_store_copy(ground))
        kinds, agent_faults = kinds_of(ground, brought, plugins.agents())
        thread, lead = await load_thread(
            ground, kinds, opened, entrypoint=entrypoint, mirror=store_copy.beside(mirror)
        )
        ground, options, service = lead.ground, lead.ground.options, ground.service
        thread = replace(thread, model=await service.prepare(thread.model.id))
        opened.callback(
            leave_totals, thread.recorder, thread.spending, thread.past, time.monotonic()
        )
        telemetry = load_telemetry(ground, thread)
        parts = make_parts(
            ground,
            thread,
            brought,
            memory=memory,
            store_copy=store_copy,
            plugins=plugins,
            kinds=kinds,
            agent_faults=agent_faults,
            telemetry=telemetry or Part(),
        )
        opened.push_async_callback(parts.aclose)
        ask = serialise_questions(parts.ide.beside(ask))
        watch: Callable[[Emit], Emit] = ignore_event
        debug_file = ""
        if options.debug is not None or brought.has_loggers:
            from clew.session.debugging import place_of, watch_for_debugging

            watch = watch_for_debugging(ground, thread, opened)
            debug_file = "" if options.debug is None else place_of(ground, thread)
        if telemetry is not None:
            watch = join_watches(watch, telemetry.watch)
        tool_session = new_tool_session(
            ground,
            thread,
            tasks=parts.tasks,
            planning=parts.planning,
            sandbox=parts.sandbox,
            hooks=parts.hooks,
            agents=parts.agents,
            brought=brought,
        )
        toolbox = Toolbox(offered_tools(ground, parts.tools()), ground.began.settings)
        tools = new_toolset(ground, thread, toolbox, tool_session, parts.mcp, parts.file_history)
        beginning = prepare_requests(ground, thread, tools, parts)
        requests = requests_of(ground, thread, toolbox, beginning)
        judge = judge_of(ground, thread, tool_session, parts)
        measure = Measure(service.provider.count_tokens, service.catalog)
        inbox = RecordedInbox(thread.story.recorder)
        deps = Deps(
            story=thread.story,
            model=model_of(ground, thread, requests, measure, parts),
            tools=tools,
            approval=CallApproval(
                judge=judge,
                ask=ask,
                review=judge.review,
                apply_mode=judge.under_mode,
                update_permissions=make_granter(ground.rules),
                can_defer=options.is_print,
                keeps_questions=brought.keeps_questions,
            ),
            arrivals=arrivals_of(thread, tool_session, parts, inbox),
            clock=TurnClock(now=get_timestamp, new_id=make_id, monotonic_s=time.monotonic),
            spending=thread.spending,
            limits=TurnLimits(max_rounds=options.max_turns, cap=thread.cap),
            hooks=parts.hooks,
            compaction=parts.compaction,
            surroundings=surroundings_of(ground, tool_session, parts),
        )
        context = PartContext(
            ground=ground,
            thread=thread,
            tool_session=tool_session,
            toolbox=toolbox,
            tools=tools,
            requests=requests,
            measure=measure,
            judge=judge,
            ask=ask,
            hooks=parts.hooks,
            speaking=Speaking(
                thread.model,
                requests,
                thread.spending,
                service,
                service.preferences.most_effort,
            ),
            deps=deps,
            conversation=Conversation(
                deps,
                inbox,
                watch_for_display(parts.hooks, watch, make_id, is_screen=not options.is_print),
            ),
        )
        await parts.open(context)
        await parts.hooks.begin_session(parts.skills.reload)
        opened.push_async_callback(parts.hooks.end_session)
        absence = describe_return(ground, thread)
        if absence:
            context.conversation.note(
                make_system("away_summary", "\n".join(absence), uuid=make_id(), at=get_timestamp()),
                after_turn=True,
            )
        notices = (
            *absence,
            *collect_notices(ground, thread, [tool.name for tool in toolbox]),
            *service.provider.adjustments(beginning.request),
            *beginning.notices,
            *lead.faults,
            *parts.notices(),
        )
        yield session_of(context, parts, notices, debug_file)


def load_telemetry(ground: Ground, thread: Thread) -> "Telemetry | None":
    """Return the part that sends telemetry, or None unless the user turned it on."""
    if not ground.environment.switch("telemetry"):
        return None
    # Imported here, because few users want it.
    from clew.parts.telemetry import Telemetry

    return Telemetry(ground, thread)


def join_watches(
    inner: Callable[[Emit], Emit], outer: Callable[[Emit], Emit]
) -> Callable[[Emit], Emit]:
    return lambda emit: outer(inner(emit))


def session_of(
    context: PartContext, parts: SessionParts, notices: tuple[str, ...], debug_file: str
) -> Session:
    """Return the session for the front ends, with an assembled conversation."""
    ground, thread, tool_session = context.ground, context.thread, context.tool_session
    endpoint = ground.service.provider.endpoint_for(thread.model.id)
    return Session(
        session_id=thread.session_id,
        options=ground.options,
        conversation=context.conversation,
        story=thread.story,
        rules=ground.rules,
        tools=context.tools,
        model_access=SessionModelAccess(
            speaking=context.speaking,
            switching=Switching(context.speaking, parts.hooks, context.ask, make_id),
            requests=context.requests,
            ask=thread.side.ask_model,
            put=thread.side.put,
            cache=parts.cache,
            key_source=endpoint.credentials,
            find_address=lambda name: ground.service.provider.endpoint_for(name).shown,
            offers=partial(find_offers, ground),
            lacks_key=not ground.service.can_ask(thread.model.id),
        ),
        costs=SessionCosts(spending=thread.spending, past=thread.past),
        workspace=Workspace(
            cwd=ground.cwd,
            where=lambda: tool_session.cwd,
            launcher=ground.launcher,
            file_names=names_of(ground),
            debug_file=debug_file,
        ),
        parts=parts,
        intake=make_intake(
            context.tools,
            context.judge,
            tool_session,
            ground.rules,
            parts.mcp.resource,
            context.conversation.note,
        ),
        commands=[],
        notices=notices,
        resumed=thread.loaded,
    )


async def find_offers(ground: Ground) -> "list[ServiceOffer]":
    """Return the available models."""
    # Imported here, because only the list of models needs it.
    from clew.agent.offers import list_offers

    return await list_offers(ground.service, ground.environment.text("ollama"))


def judge_of(
    ground: Ground, thread: Thread, tool_session: ToolSession, parts: SessionParts
) -> Judging:
    """Return the judge that decides whether a tool call of the session may run."""
    lead = ground.options.lead

    def spared(call: BoundCall, decision: Decision) -> Decision:
        return parts.skills.spared(call, parts.sandbox.spared(call, decision))

    return Judging(
        ground.rules,
        thread.story,
        lambda: tool_session.cwd,
        ask_model=thread.side.ask_model,
        spared=spared,
        secrets=ground.secrets,
        denied=() if lead is None else list_refusals(lead),
        is_model_of_project=is_model_of_project(lead, ground.options.model),
    )


def model_of(
    ground: Ground, thread: Thread, requests: Requests, measure: Measure, parts: SessionParts
) -> ModelAccess:
    options, service = ground.options, ground.service
    return ModelAccess(
        prepare=requests,
        new_answer=lambda: service.answering(
            ground.fallbacks, with_events=options.partial, cap=thread.cap
        ),
        measure=measure,
        thoughts=requests,
        for_fallback=requests.for_fallback,
        cache=parts.cache,
        catalog=service.catalog,
        find_flaw=service.find_flaw,
        advise=service.advise,
    )


# Shorter turns are not recorded by default: their duration says little, and entries cost space.
LONG_TURN_S = 30.0


def surroundings_of(
    ground: Ground, tool_session: ToolSession, parts: SessionParts
) -> TurnSurroundings:
    def recorded_from_s() -> float | None:
        is_wanted = read_switch(ground.rules.standing.settings, "showTurnDuration")
        return LONG_TURN_S if is_wanted is None else 0.0 if is_wanted else None

    return TurnSurroundings(
        list_background=lambda: list_running(tool_session),
        list_schedules=parts.schedules.rows,
        shell_folder=lambda: tool_session.cwd,
        should_leave=parts.agents.should_leave,
        recorded_from_s=recorded_from_s,
        records_speed=lambda: bool(read_switch(ground.rules.standing.settings, "apiMetrics")),
    )


def arrivals_of(
    thread: Thread, tool_session: ToolSession, parts: SessionParts, inbox: Inbox
) -> Arrivals:
    """Return the sources of input during a turn: the user's messages, tasks and parts."""

    async def await_late() -> list[Json]:
        return make_attachments(await parts.facts(thread.story.history))

    def after_results(results: Sequence[Json]) -> list[Json]:
        return make_attachments(parts.after(results))

    return Arrivals(
        take_messages=lambda: [*inbox.take(), *find_news(tool_session)],
        await_late=await_late,
        take_notices=parts.mcp.take_failures,
        after_results=after_results,
        refresh_settings=parts.refresh,
    )


def names_of(ground: Ground) -> FileNames:
    programs = Programs(ground.cwd, ground.environ, ground.launcher)

    def with_ignored() -> bool:
        return not read_switch(ground.rules.standing.settings, "respectGitignore")

    def suggests() -> str | None:
        command = read_object(ground.rules.standing.settings, "fileSuggestion").get("command")
        return command if isinstance(command, str) else None

    return FileNames(programs, with_ignored=with_ignored, suggests=suggests)


def prepare_requests(
    ground: Ground, thread: Thread, tools: SessionTools, parts: SessionParts
) -> RequestBeginning:
    """Return the beginning of all requests: model, system prompt and tools."""
    options, service = ground.options, ground.service
    speech = parts.output_styles
    style, language = speech.style, speech.language
    request = make_template(
        options,
        thread.model,
        tools.definitions(),
        thread.session_id,
        style,
        language,
        speech.attribution,
    )
    return begin_requests(
        apply_preferences(request, service.preferences),
        options,
        Prompts(ground.began.places.own / "prompts"),
        thread.recorder,
        thread.loaded,
        service.catalog,
        style.text + language + speech.attribution,
    )


def requests_of(
    ground: Ground, thread: Thread, toolbox: Toolbox, beginning: RequestBeginning
) -> Requests:
    loaded = thread.loaded
    return Requests(
        beginning.request,
        target_named(ground.service, thread.model.id),
        lambda: beginning.tools_of(toolbox.definitions()),
        () if loaded is None else from_record(loaded.side.current.get("request-repairs", {})),
        binds=partial(binds_thinking, ground.service.catalog),
        is_as_recorded=beginning.is_as_recorded,
        target_of=partial(target_named, ground.service),
        edit=ground.prepare,
    )

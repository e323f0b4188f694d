"""The only place that builds everything: from options and an environment to a session that can talk.

Reads in the order in which things are made: the ground a session stands on, its thread, its hands,
and what it says. Owns the life of what it opens: leaving `session` flushes the log, ends every child
and gives the locks back.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

from clew.agent.cache_watch import CacheWatch
from clew.agent.context.facts import attachments
from clew.agent.context.nearby import Nearby
from clew.agent.context.opening import Opening
from clew.agent.context.prompts import Prompts, RequestBeginning, taken_up
from clew.agent.conversation import Conversation, Inbox
from clew.agent.deps import (
    Arrivals,
    CallApproval,
    Deps,
    ModelAccess,
    Question,
    TurnClock,
    TurnLimits,
    TurnSurroundings,
    Verdict,
)
from clew.agent.hooks.handlers import read_hooks
from clew.agent.intake import intake, memory_folder
from clew.agent.judging import Judging
from clew.agent.models import (
    Speaking,
    Switching,
    binds_thinking,
    one_at_a_time,
    target_named,
    target_of,
    template,
)
from clew.agent.options import Options
from clew.agent.requests import Measure, Requests
from clew.agent.story import Story
from clew.agent.subagents.offer import refused
from clew.agent.tasks.registry import Tasks
from clew.agent.tools.searching import FileNames
from clew.core.json_object import Json
from clew.core.normalize.repairs import from_record
from clew.parts import hooks as app_hooks
from clew.parts.agents.places import kinds_of
from clew.parts.background_tasks import (
    COPIED,
    PastCommands,
    news,
    of_original,
    running,
    written_down,
)
from clew.parts.context import NOTHING, Ground, HostParts, stand
from clew.parts.hooks import SessionEnding
from clew.parts.plugins.part import managed_hooks_only
from clew.parts.skills.lent import Lent
from clew.parts.store_copy import StoreCopy, elsewhere
from clew.providers.preferences import preferred
from clew.record.kept_commands import RecordFolder
from clew.record.transcript.record import Mirror
from clew.session.agents.agent_parts import Crew
from clew.session.agents.all_agents import AllAgents
from clew.session.agents.leaving import Leaving
from clew.session.agents.past import left_elsewhere
from clew.session.compaction import SessionCompaction
from clew.session.hands import Hands, equipped, lasts, named_in_vain
from clew.session.observers import debugging, displaying, place_of
from clew.session.reloading import Reloading
from clew.session.session import Costs, Session, SessionModelAccess, SessionParts, Workspace
from clew.session.thread import Thread, budget, leave_totals, taken_in_hand, unbounded
from clew.session.warming import warmer_of
from clew.system.clock import new_id, now
from clew.system.files import is_folder
from clew.system.process.run import Programs

Ask: TypeAlias = Callable[[Question], Awaitable[Verdict]]


@asynccontextmanager
async def session(
    options: Options,
    environ: Mapping[str, str],
    cwd: str,
    ask: Ask,
    *,
    entrypoint: str,
    brought: HostParts = NOTHING,
    mirror: Mirror | None = None,
) -> AsyncIterator[Session]:
    """Opens a session, new or gone on with; everything it holds is given back at the end."""
    ask = one_at_a_time(ask)
    async with AsyncExitStack() as opened:
        ground = await stand(options, environ, cwd, opened)
        opening = Opening(
            ground.launcher,
            cwd=Path(cwd),
            environ=ground.environ,
            folders=ground.began.context.directories,
            gate=ground.gate,
            nonce=new_id()[:8],
            has_memory=not options.is_bare,
            has_structure=ground.began.settings.get("includeDirectoryStructure") is True,
            memories=memories_of(ground),
        )
        opened.push_async_callback(opening.aclose)
        copies = await opened.enter_async_context(elsewhere(ground))
        kinds, agent_faults = kinds_of(ground, brought, ground.plugins.agents())
        thread, lead = await taken_in_hand(
            ground, kinds, opened, entrypoint=entrypoint, mirror=copies.beside(mirror)
        )
        ground = lead.ground
        options = ground.options
        hands = await equipped(ground, thread, brought, opened)
        tasks = hands.tool_session.background.tasks
        opened.enter_context(
            written_down(
                tasks,
                lambda owner: agents.recorder(owner) if owner else thread.recorder,
                ground.secrets,
            )
        )
        if options.lead is not None and not managed_hooks_only(ground.began.layers):
            hands.hooks.add(read_hooks(options.lead.hooks, source="agent").hooks)
        beginning = begun(ground, thread, hands)
        requests = requests_of(ground, thread, hands, beginning)
        begin_s = time.monotonic()
        inbox = Inbox()
        watch = debugging(ground, thread, opened)
        judge = Judging(
            ground.rules,
            thread.story,
            lambda: hands.tool_session.cwd,
            ask_model=thread.side.ask_model,
            spared=lambda call, decision: hands.skills.spared(
                call, hands.sandbox.spared(call, decision)
            ),
            secrets=ground.secrets,
            denied=() if options.lead is None else refused(options.lead),
        )
        begin_servers(ground, thread, hands, judge, ask, brought)
        measure = Measure(ground.service.provider.count_tokens, ground.service.catalog)
        cache = CacheWatch(thread.story.history, catalog=ground.service.catalog)
        keeping = SessionCompaction(ground, thread, hands, requests, opening, judge, measure)
        cache.warmer = warmer_of(
            ground,
            thread,
            requests,
            keeping,
            budget(options, thread.past),
            lambda: cache.touched(now()),
        )
        if cache.warmer is not None:
            opened.push_async_callback(cache.warmer.aclose)
        leaving = Leaving()
        deps = deps_of(
            ground,
            thread,
            hands,
            requests,
            judge,
            ask,
            inbox,
            measure,
            keeping,
            copies,
            cache,
            leaving,
        )
        crew = Crew(
            ground=ground,
            thread=thread,
            hands=hands,
            requests=requests,
            opening=opening,
            ask=ask,
            deps=deps,
        )
        opened.callback(
            tidy, hands.tool_session.background.tasks, hands.tool_session.background.shelf
        )
        agents = AllAgents(crew, kinds, agent_faults)
        opened.push_async_callback(agents.aclose)
        hands.hooks.ask_agents(agents.ask)
        if thread.loaded is not None:
            agents.recall(thread.loaded.messages)
            recall_commands(ground, thread, hands)
        keeping.agents = agents.listing
        hands.tool_session.background.agents = agents.of(cwd=lambda: hands.tool_session.cwd)
        if options.setup:
            await hands.hooks.aside("Setup", {"trigger": options.setup})
        hands.hooks.begin(
            app_hooks.beginning(options, thread.loaded, thread.model.id), hands.skills.reload
        )
        ending = SessionEnding()
        opened.push_async_callback(app_hooks.end, hands.hooks, ending)
        opened.callback(leave_totals, thread.recorder, thread.spending, thread.past, begin_s)
        speaking = Speaking(
            thread.model,
            requests,
            thread.spending,
            ground.service.catalog,
            ground.service.provider.endpoint,
        )
        hands.hooks.effort = lambda: speaking.effort_now
        lent = Lent(ground.rules, speaking, hands.hooks)
        hands.skills.begin(hands.tools, judge, ask, lent)
        endpoint = ground.service.provider.endpoint
        is_screen = not options.is_print
        shown = displaying(hands.hooks, watch, new_id, is_screen=is_screen)
        conversation = Conversation(deps, inbox, shown)
        leaving.begin(agents, conversation, thread.story)
        if cache.warmer is not None:
            cache.warmer.is_compacting = lambda: (
                conversation.is_running and not conversation.has_steps
            )
        parts = SessionParts(
            mcp=hands.mcp,
            skills=hands.skills,
            plugins=ground.plugins,
            hooks=hands.hooks,
            agents=agents,
            sandbox=hands.sandbox,
            tasks=hands.tool_session.background.tasks,
            leaving=leaving,
            schedules=hands.board,
            goal=hands.goal,
            file_history=hands.files,
            compaction=keeping,
            store_copy=copies,
            opening=opening,
            output_styles=ground.speech,
            planning=hands.own,
            lent=lent,
            reloading=Reloading(ground, hands, agents, brought),
            refresh=deps.arrivals.refresh_settings,
            ending=ending,
        )
        made = Session(
            session_id=thread.session_id,
            options=options,
            conversation=conversation,
            story=thread.story,
            rules=ground.rules,
            tools=hands.tools,
            model_access=SessionModelAccess(
                speaking=speaking,
                switching=Switching(speaking, hands.hooks, ask, new_id),
                requests=requests,
                ask=thread.side.ask_model,
                cache=cache,
                key_source=endpoint.credentials,
                lacks_key=endpoint.lacks_credentials,
            ),
            costs=Costs(spending=thread.spending, past=thread.past),
            workspace=Workspace(
                cwd=cwd,
                where=lambda: hands.tool_session.cwd,
                launcher=ground.launcher,
                file_names=names_of(ground),
                debug_file=place_of(ground, thread),
            ),
            parts=parts,
            intake=intake(hands.tools, judge, hands.tool_session, ground.rules, hands.mcp.resource),
            commands=[],
            notices=(
                *await notices(ground, thread, hands, beginning),
                *agent_faults,
                *lead.faults,
                *copies.news(),
            ),
            resumed=thread.loaded,
        )
        if ground.began.settings.get("memoryExtraction") is True and not options.is_bare:
            opened.push_async_callback(remembered, made, thread.story.said)
        if ground.began.settings.get("dreamAfter") is not None and lasts(options):
            dream(made, ground.began.settings["dreamAfter"], opened)
        yield made


def recall_commands(ground: Ground, thread: Thread, hands: Hands) -> None:
    """Takes up what the session's earlier runs had begun in the background."""
    assert thread.loaded is not None
    tasks, shelf = hands.tool_session.background.tasks, hands.tool_session.background.shelf
    before = PastCommands(thread.loaded.messages)
    original, copied = of_original(thread.loaded)
    kept: Container[str] = ()

    def goes_on(call_id: str) -> str:
        """Where a command of this copy's first session goes on, if a person kept it there."""
        there = None if shelf is None else shelf.of_call(call_id)
        if there is not None:
            return f"a person kept it in session {there.about.session_id}"
        return COPIED.format(original) if call_id in copied else ""

    if shelf is not None and shelf.is_used:
        from clew.parts.kept_commands import take_up

        kept = take_up(tasks, shelf, before.told, thread.loaded, ground.secrets)
    results = thread.recorder.paths.place.tool_results
    for task in before.left_behind(thread.loaded, results, kept, goes_on):
        tasks.remember(task)


def tidy(tasks: Tasks, shelf: RecordFolder | None) -> None:
    if shelf is not None and shelf.is_used:
        from clew.parts.kept_commands import tidied

        tidied(tasks, shelf)


def names_of(ground: Ground) -> FileNames:
    programs = Programs(ground.cwd, ground.environ, ground.launcher)

    def with_ignored() -> bool:
        return ground.rules.standing.settings.get("respectGitignore") is False

    def suggests() -> str | None:
        setting = ground.rules.standing.settings.get("fileSuggestion")
        command = setting.get("command") if isinstance(setting, dict) else None
        return command if isinstance(command, str) else None

    return FileNames(programs, with_ignored=with_ignored, suggests=suggests)


def memories_of(ground: Ground) -> Path | None:
    """The project's memory folder, where sessions are told of it; the model may read in it."""
    if ground.began.settings.get("autoMemoryEnabled") is False:
        return None
    folder = memory_folder(ground.began.places)
    ground.rules.reads_memory_in(folder)
    return folder


async def remembered(session: Session, said_before: int) -> None:
    from clew.session.remembering import left_behind

    await left_behind(session, said_before)


def dream(session: Session, after: object, opened: AsyncExitStack) -> None:
    """Has the project's memories tidied once the session is idle, where a setting asks for it."""
    from clew.parts.dreaming import Dreamer, idle_s
    from clew.session.remembering import notebook_of

    quiet_s = idle_s(after)
    if not quiet_s:
        return
    dreamer = Dreamer(
        notebook_of(session.rules.standing.places),
        session.parts.tasks,
        session.model_access.ask,
        session_id=session.session_id,
        is_busy=lambda: session.conversation.is_running,
        moves=lambda: session.story.said,
    )
    opened.push_async_callback(dreamer.aclose)
    dreamer.begin(quiet_s)


def left_checkout(ground: Ground, thread: Thread) -> tuple[str, ...]:
    """Where a session that goes on elsewhere than in its own checkout worked before."""
    if thread.loaded is None or ground.options.worktree is not None:
        return ()
    was = thread.loaded.side.current.get("worktree-state", {}).get("worktreeSession")
    path = was.get("worktreePath") if isinstance(was, dict) else None
    if not isinstance(path, str) or ground.cwd.startswith(path) or not is_folder(path):
        return ()
    name = Path(path).name
    return (f"this session worked in {path}; clew --worktree {name} --resume goes on there",)


def gaps(thread: Thread) -> tuple[str, ...]:
    """What of the conversation somebody should know that a damaged file lost."""
    lost = [] if thread.loaded is None else thread.loaded.gaps()
    if not lost:
        return ()
    where = f"before line {lost[0].number}" if len(lost) == 1 else f"in {len(lost)} places"
    return (
        f"something of this conversation is lost {where} of its file; "
        f"clew sessions check {thread.session_id} says more",
    )


def returned(ground: Ground, thread: Thread) -> tuple[str, ...]:
    """What somebody finds who comes back to a session at a terminal."""
    if thread.loaded is None or ground.options.is_print:
        return ()
    from clew.agent.context.notebook import MemoryNotebook
    from clew.session.away import summary

    notebook = MemoryNotebook(memory_folder(ground.began.places))
    return summary(thread.loaded, thread.spending.state.todos, notebook, now())


def begun(ground: Ground, thread: Thread, hands: Hands) -> RequestBeginning:
    """What the session's requests begin with."""
    options, service = ground.options, ground.service
    style, language = ground.speech.style, ground.speech.language
    made = template(
        options, thread.model, hands.tools.definitions(), thread.session_id, style, language
    )
    return taken_up(
        preferred(made, service.preferences),
        options,
        Prompts(ground.began.places.own / "prompts"),
        thread.recorder,
        thread.loaded,
        service.catalog,
        style.text + language,
    )


def requests_of(
    ground: Ground, thread: Thread, hands: Hands, beginning: RequestBeginning
) -> Requests:
    loaded = thread.loaded
    return Requests(
        beginning.request,
        target_of(thread.model, ground.service.provider.endpoint),
        lambda: beginning.tools_of(hands.toolbox.definitions()),
        () if loaded is None else from_record(loaded.side.current.get("request-repairs", {})),
        binds=partial(binds_thinking, ground.service.catalog),
        is_as_recorded=beginning.is_as_recorded,
        target_of=partial(target_named, ground.service),
    )


def begin_servers(
    ground: Ground, thread: Thread, hands: Hands, judge: Judging, ask: Ask, brought: HostParts
) -> None:
    hands.mcp.begin(
        ask,
        judge,
        thread.side.ask_model,
        ground.rules,
        launcher=ground.launcher,
        transport=ground.service.provider.transport,
        places=ground.began.places,
        cwd=ground.cwd,
        environ=hands.tool_session.shell.environment,
        environment=ground.environment,
        hooks=hands.hooks,
        brought=brought,
    )


def deps_of(
    ground: Ground,
    thread: Thread,
    hands: Hands,
    requests: Requests,
    judge: Judging,
    ask: Ask,
    inbox: Inbox,
    measure: Measure,
    keeping: SessionCompaction,
    copies: StoreCopy,
    cache: CacheWatch,
    leaving: Leaving,
) -> Deps:
    """Everything that a turn of the session may touch."""
    options, service = ground.options, ground.service
    nearby = Nearby(ground.environ, Path(ground.cwd), ground.gate, thread.story.history)
    thread.story.when_another(nearby.begin_again)
    thread.story.when_another(hands.skills.begin_again)

    async def refresh() -> tuple[str, ...]:
        of_settings = await hands.hook_settings.refresh(hands.hooks)
        return (*of_settings, *copies.news(), *ground.gate.news())

    def beside(results: Sequence[Json]) -> list[Json]:
        hands.code.note(results)
        facts = [] if options.is_bare else nearby.beside(results)
        app_hooks.loaded(hands.hooks, facts, app_hooks.NESTED)
        if requests.offers("Skill"):
            facts += hands.skills.beside(results, thread.story.history)
        return attachments(facts)

    return Deps(
        story=thread.story,
        model=ModelAccess(
            prepare=requests,
            new_answer=lambda: service.answering(ground.fallbacks, with_events=options.partial),
            measure=measure,
            thoughts=requests,
            for_fallback=requests.for_fallback,
            cache=cache,
            catalog=service.catalog,
        ),
        tools=hands.tools,
        approval=CallApproval(
            judge=judge,
            ask=ask,
            review=judge.review,
            apply_mode=judge.under_mode,
            update_permissions=app_hooks.granting(ground.rules),
            can_defer=not lasts(options),
        ),
        arrivals=Arrivals(
            take_messages=lambda: [*inbox.take(), *news(hands.tool_session)],
            await_late=told_of(hands, requests, thread.story),
            after_results=beside,
            refresh_settings=refresh,
        ),
        clock=TurnClock(now=now, new_id=new_id, monotonic_s=time.monotonic),
        spending=thread.spending,
        limits=TurnLimits(max_rounds=options.max_turns, budget=budget(options, thread.past)),
        hooks=hands.hooks,
        compaction=keeping,
        surroundings=TurnSurroundings(
            list_background=lambda: running(hands.tool_session),
            list_schedules=hands.board.rows,
            shell_folder=lambda: hands.tool_session.cwd,
            should_leave=leaving.is_time,
        ),
    )


def told_of(hands: Hands, requests: Requests, story: Story) -> Callable[[], Awaitable[list[Json]]]:
    """What a request is told about servers and by them, as entries."""

    async def latecomers() -> list[Json]:
        facts = [*await hands.mcp.news(lambda: story.history)]
        if requests.offers("Skill"):
            facts += hands.skills.latecomers(story.history)
        return attachments([*facts, *await hands.code.news()])

    return latecomers


async def notices(
    ground: Ground, thread: Thread, hands: Hands, beginning: RequestBeginning
) -> tuple[str, ...]:
    """What people should know at the start: settings with faults, rules that do not count, repairs."""
    service = ground.service
    return (
        *ground.environment.faults,
        *ground.began.complaints,
        *hands.hook_settings.found.faults,
        *hands.sandbox_faults,
        *await hands.sandbox.news(),
        *service.problems,
        *service.provider.adjustments(beginning.request),
        *returned(ground, thread),
        *unbounded(ground.options, thread.model),
        *named_in_vain(
            ground.options,
            ground.began,
            [tool.name for tool in hands.toolbox],
            is_new=thread.loaded is None,
        ),
        *beginning.notices,
        *left_checkout(ground, thread),
        *gaps(thread),
        *hands.mcp.notices,
        *hands.skills.faults,
        *hands.code.notices,
        *thread.lost,
        *left_elsewhere(hands.tool_session.background.tasks.all()),
        *hands.plugin_faults,
        *ground.plugins.faults,
        *ground.speech.faults,
    )

"""Assemble an agent from its own parts and the parts that it shares with its session.

The service, the ledger, MCP servers, the sandbox, hooks and the file history are shared. The
record, the tools and the files they have read, the permission mode and the compaction are the
agent's own.

Decision: docs/decisions/170-agents.md
"""

import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from clew.agent.cache_watch import CacheWatch
from clew.agent.context.facts import Fact, make_attachments
from clew.agent.context.nearby import Nearby
from clew.agent.context.opening import Opening
from clew.agent.context.prompts import Prompts, begin_requests
from clew.agent.context.system_prompt import agent_prompt
from clew.agent.conversation import Inbox
from clew.agent.deps import Arrivals, Deps, ModelAccess, Question, TurnSurroundings, Verdict
from clew.agent.judging import Judging
from clew.agent.requests import Measure, Requests
from clew.agent.services import binds_thinking, target_named
from clew.agent.story import Story
from clew.agent.subagents.offer import (
    is_model_of_project,
    list_refusals,
    mode_of,
    select_tools,
)
from clew.agent.subagents.specs import AgentSpec
from clew.agent.subagents.worktree import Worktree
from clew.agent.tools.base import Agents, Tool, ToolSession
from clew.agent.tools.registry import Toolbox
from clew.agent.toolset import SessionTools
from clew.core.catalog.models import Model
from clew.core.json_object import Json
from clew.core.ledger.state import SideLedger
from clew.core.messages.history import History
from clew.core.normalize.repairs import from_record
from clew.parts.agents.shared import AgentHooks, AgentServers, AgentSkills
from clew.parts.background_tasks import find_news, list_running
from clew.parts.compaction import SessionCompaction
from clew.parts.context import Thread
from clew.parts.file_history import FileHistory
from clew.parts.mcp.part import Connected
from clew.parts.part import PartContext
from clew.parts.planning import OwnSession
from clew.parts.sandbox import SessionSandbox
from clew.parts.skills.part import SessionSkills
from clew.parts.skills.tool import SkillTool
from clew.parts.toolset import new_toolset, tool_session_of_agent
from clew.permissions.modes import MODES
from clew.permissions.request import Mode
from clew.record.transcript.agent_record import AgentRecorder
from clew.record.transcript.loaded import LoadedSession

Ask: TypeAlias = Callable[[Question], Awaitable[Verdict]]
Listing: TypeAlias = Callable[[History], Fact | None]


class Crew(Struct, frozen=True, kw_only=True):
    """The session's context and shared parts, from which every agent is made."""

    context: PartContext
    opening: Opening
    mcp: Connected
    skills: SessionSkills
    sandbox: SessionSandbox
    planning: OwnSession
    file_history: FileHistory


class AgentTools(Struct, frozen=True, kw_only=True):
    """The tools of one agent."""

    session: ToolSession
    toolbox: Toolbox
    tools: SessionTools


class Birth(Struct, frozen=True, kw_only=True):
    """Everything that identifies an agent, such as its type, its parent and its folder."""

    agent_id: str
    spec: AgentSpec
    description: str
    tool_use_id: str
    model: Model
    cwd: str
    name: str = ""
    parent_id: str = ""
    depth: int = 1
    worktree: Worktree | None = None
    # The session whose agent uses the same worktree, if this agent is a copy of that one.
    shared_with: str = ""
    servers: AgentServers
    # Started by a hook: its events call no hooks, because that could recurse forever.
    is_hooks_own: bool = False
    # The last entry copied from another conversation, if the agent continues from one.
    begins_behind: str = ""
    # Its recorded conversation, if the agent is resumed.
    loaded: LoadedSession | None = None


def thread_of(crew: Crew, birth: Birth, recorder: AgentRecorder, spending: SideLedger) -> Thread:
    loaded = birth.loaded
    return replace(
        crew.context.thread,
        recorder=recorder,
        loaded=loaded,
        story=Story(recorder, History(loaded.messages if loaded else ())),
        model=birth.model,
        spending=spending,
    )


def tools_of(crew: Crew, birth: Birth, thread: Thread, agents: Agents | None) -> AgentTools:
    ground = crew.context.ground
    session = tool_session_of_agent(
        crew.context.tool_session, thread, birth.cwd, agents, birth.agent_id
    )
    own = own_tools(crew, birth.spec, may_delegate=agents is not None)
    toolbox = Toolbox((*own, *birth.servers.tools()), ground.began.settings)
    tools = new_toolset(ground, thread, toolbox, session, crew.mcp, crew.file_history)
    return AgentTools(session=session, toolbox=toolbox, tools=tools)


def own_tools(crew: Crew, spec: AgentSpec, *, may_delegate: bool) -> Iterable[Tool[Any]]:
    tools_by_name = {tool.name: tool for tool in crew.context.toolbox}
    for name in select_tools(spec, tools_by_name, may_delegate=may_delegate):
        yield SkillTool(AgentSkills(crew.skills)) if name == SkillTool.name else tools_by_name[name]


def requests_of(crew: Crew, birth: Birth, recorder: AgentRecorder, own: Toolbox) -> Requests:
    service, template = crew.context.ground.service, crew.context.requests.template
    # Offer the session's tools unchanged, so that the session's cache is used here too.
    toolbox = crew.context.toolbox if birth.spec.is_session else own
    request = replace(
        template,
        model=birth.model.id,
        agent_id=birth.agent_id,
        # The budget covers the session's task; its parts have no separate budgets.
        task_budget_tokens=None,
    )
    if not birth.spec.is_session:
        names = [tool["name"] for tool in toolbox.definitions()]
        request = replace(
            request,
            system=agent_prompt(birth.spec.prompt, names),
            tools=toolbox.definitions(),
            effort=birth.spec.effort or template.effort,
        )
    beginning = begin_requests(
        request,
        crew.context.ground.options,
        Prompts(crew.context.ground.began.places.own / "prompts"),
        recorder,
        birth.loaded,
        service.catalog,
    )
    return Requests(
        beginning.request,
        target_named(service, birth.model.id),
        lambda: beginning.tools_of(toolbox.definitions()),
        ()
        if birth.loaded is None
        else from_record(birth.loaded.side.current.get("request-repairs", {})),
        binds=partial(binds_thinking, service.catalog),
        is_as_recorded=beginning.is_as_recorded,
        target_of=partial(target_named, service),
        edit=crew.context.ground.prepare,
    )


def find_mode(crew: Crew, spec: AgentSpec) -> Mode:
    """Return the permission mode in which an agent currently works."""
    rules = crew.context.ground.rules
    word = mode_of(
        spec,
        rules.mode,
        is_trusted=rules.standing.is_trusted,
        may_bypass=crew.context.ground.options.may_bypass,
    )
    return next(mode for mode in MODES if mode == word)


def judge_of(crew: Crew, birth: Birth, thread: Thread, session: ToolSession) -> Judging:
    options = crew.context.ground.options
    return Judging(
        crew.context.ground.rules,
        thread.story,
        lambda: session.cwd,
        ask_model=crew.context.thread.side.ask_model,
        spared=lambda call, decision: crew.skills.spared(call, crew.sandbox.spared(call, decision)),
        secrets=crew.context.ground.secrets,
        mode=lambda: find_mode(crew, birth.spec),
        denied=list_refusals(birth.spec),
        folders=() if birth.worktree is None else (os.path.realpath(birth.worktree.path),),
        is_model_of_project=is_model_of_project(options.lead, options.model),
    )


def deps_of(
    crew: Crew,
    birth: Birth,
    thread: Thread,
    tools: AgentTools,
    requests: Requests,
    hooks: AgentHooks,
    inbox: Inbox,
    listing: Listing,
) -> Deps:
    ground, service = crew.context.ground, crew.context.ground.service
    nearby = Nearby(ground.environ, Path(birth.cwd), ground.gate, thread.story.history)
    thread.story.when_another(nearby.begin_again)
    session = tools.session
    judge = judge_of(crew, birth, thread, session)
    measure = Measure(service.provider.count_tokens, service.catalog)
    compaction = SessionCompaction(
        ground,
        crew.opening,
        crew.planning,
        crew.skills,
        listing,
        reads_memory=birth.spec.reads_memory,
    )
    compaction.take_up(
        replace(
            crew.context,
            thread=thread,
            tool_session=session,
            toolbox=tools.toolbox,
            tools=tools.tools,
            requests=requests,
            measure=measure,
            judge=judge,
        )
    )
    reads_memory = birth.spec.reads_memory and not ground.options.is_bare

    def beside(results: Sequence[Json]) -> list[Json]:
        return make_attachments(nearby.beside(results)) if reads_memory else []

    return Deps(
        story=thread.story,
        model=ModelAccess(
            prepare=requests,
            new_answer=lambda: service.answering(
                ground.fallbacks, cap=crew.context.deps.limits.cap
            ),
            measure=measure,
            thoughts=requests,
            for_fallback=requests.for_fallback,
            cache=CacheWatch(thread.story.history, catalog=service.catalog),
            catalog=service.catalog,
            advise=service.advise,
        ),
        tools=tools.tools,
        approval=replace(
            crew.context.deps.approval,
            judge=judge,
            review=judge.review,
            apply_mode=judge.under_mode,
            ask=asking(crew.context.ask, birth),
            can_defer=False,
            keeps_questions=False,
        ),
        arrivals=Arrivals(
            take_messages=lambda: [*inbox.take(), *find_news(session)],
            after_results=beside,
        ),
        clock=crew.context.deps.clock,
        spending=thread.spending,
        limits=replace(crew.context.deps.limits, max_rounds=birth.spec.max_turns),
        hooks=hooks,
        compaction=compaction,
        surroundings=TurnSurroundings(
            list_background=lambda: list_running(session),
            list_schedules=crew.context.deps.surroundings.list_schedules,
            shell_folder=lambda: session.cwd,
        ),
    )


def asking(ask: Ask, birth: Birth) -> Ask:
    """Wrap `ask` so that each question names the agent whose call it is about."""

    async def asked(question: Question) -> Verdict:
        return await ask(replace(question, agent_id=birth.agent_id, agent=birth.description))

    return asked

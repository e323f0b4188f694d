"""The tools of a conversation, and the state that they share."""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from clew.agent.options import Options
from clew.agent.subagents.offer import has
from clew.agent.tools.base import (
    Agents,
    BackgroundWork,
    FileViews,
    ModelQuestions,
    ShellSetup,
    Surroundings,
    Tool,
    ToolSession,
    read_limits,
)
from clew.agent.tools.registry import NEED_A_PERSON, Toolbox, outlined_tools
from clew.agent.toolset import SessionTools, list_todos
from clew.core.messages.errors import CommandLineError
from clew.parts.context import Ground, HostParts, Thread
from clew.parts.file_history import FileHistory
from clew.parts.hooks import HooksPart, choose_env_file
from clew.parts.mcp.part import Connected
from clew.parts.planning import OwnSession
from clew.parts.sandbox import SessionSandbox
from clew.parts.tasks import BackgroundTasks
from clew.system.config.environment import for_programs
from clew.system.config.settings import read_object


def offered_tools(ground: Ground, extra_tools: Iterable[Tool[Any]]) -> list[Tool[Any]]:
    """Return the tools that the session offers, built-in ones and those of its parts.

    Tools that the command line excludes, and those that a rule denies entirely, are left out. If
    the user can't be asked, so are tools that need the user.
    """
    options = ground.options
    tools = (*outlined_tools(), *extra_tools)
    unknown = [name for name in options.tools or () if name not in {tool.name for tool in tools}]
    if unknown and options.input_format != "stream-json":  # Hosts receive a notice.
        names = ", ".join(tool.name for tool in tools)
        raise CommandLineError(f'--tools: unknown tool "{unknown[0]}" (expected one of {names})')
    is_alone = options.is_print and options.asks != "stdio"
    shaped: list[Tool[Any]] = []
    if options.json_schema is not None:
        from clew.agent.tools.session_tools import StructuredOutput

        shaped.append(StructuredOutput(options.json_schema))
    return [
        *shaped,
        *(
            tool
            for tool in tools
            if is_wanted(ground, tool) and not (is_alone and tool.name in NEED_A_PERSON)
        ),
    ]


def is_wanted(ground: Ground, tool: Tool[Any]) -> bool:
    options = ground.options
    is_named = options.tools is None or tool.name in options.tools
    is_left = options.lead is None or has(options.lead, tool.name)
    return is_named and is_left and not ground.rules.standing.rules.withholds(tool.name)


def new_tool_session(
    ground: Ground,
    thread: Thread,
    *,
    tasks: BackgroundTasks,
    planning: OwnSession,
    sandbox: SessionSandbox,
    hooks: HooksPart,
    agents: Agents | None,
    brought: HostParts,
) -> ToolSession:
    """Return the state that the session's tools share."""
    results = thread.recorder.paths.results
    return ToolSession(
        cwd=ground.cwd,
        spill_folder=results,
        shell=ShellSetup(
            launcher=ground.launcher,
            environment=for_programs(ground.environ),
            project=ground.cwd,
            env_file=choose_env_file(results),
            terminal=lambda: None if sandbox.is_wanted else brought.terminal,
            sandbox=sandbox,
        ),
        limits=read_limits(
            ground.environment.number, read_object(ground.began.settings, "toolTimeouts")
        ),
        files=FileViews(
            may_read=ground.rules.may_read,
            may_fetch=ground.rules.may_fetch,
            in_conversation=thread.story.holds,
            buffers=brought.buffers,
        ),
        models=ModelQuestions(ask_model=thread.side.ask_model, ask_service=thread.side.ask_service),
        background=BackgroundWork(tasks=tasks, shelf=tasks.shelf, agents=agents),
        own=planning,
        todos=list_todos(thread.spending.state.todos),
        ask_hooks=hooks.may,
    )


def tool_session_of_agent(
    session: ToolSession, thread: Thread, cwd: str, agents: Agents | None, owner: str
) -> ToolSession:
    """Return the state that a subagent's tools share.

    The subagent shares the tasks, the sandbox and the limits of the session.
    """
    results = thread.recorder.paths.results
    return ToolSession(
        cwd=cwd,
        spill_folder=results,
        shell=ShellSetup(
            launcher=session.shell.launcher,
            environment=session.shell.environment,
            project=cwd,
            env_file=choose_env_file(results),
            sandbox=session.shell.sandbox,
        ),
        limits=session.limits,
        files=FileViews(
            may_read=session.files.may_read,
            may_fetch=session.files.may_fetch,
            in_conversation=thread.story.holds,
        ),
        models=ModelQuestions(ask_model=thread.side.ask_model, ask_service=thread.side.ask_service),
        background=replace(session.background, owner=owner, agents=agents),
        own=session.own,
        ask_hooks=session.ask_hooks,
    )


def new_toolset(
    ground: Ground,
    thread: Thread,
    toolbox: Toolbox,
    tool_session: ToolSession,
    mcp: Connected,
    files: FileHistory,
) -> SessionTools:
    """Return the tools of a conversation in the form that the executor calls."""
    return SessionTools(
        toolbox,
        tool_session,
        lambda: Surroundings(
            model=thread.model.id,
            takes_pdfs=thread.model.pdfs,
            interactive=not ground.options.is_print,
            tools=tuple(toolbox),
            mcp_clients=mcp.clients(),
        ),
        secrets=ground.secrets,
        file_record=files.record,
        aliases=ground.options.tool_aliases,
    )


def is_lasting(options: Options) -> bool:
    """Return whether the session continues after an answer."""
    return not options.is_print or options.input_format == "stream-json"

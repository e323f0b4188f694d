"""The hands of a session: its tools, the servers they come from, the walls around them, the hooks."""

from contextlib import AsyncExitStack
from functools import partial

from msgspec import Struct

from clew.app import hooks as app_hooks
from clew.app.brought import Brought
from clew.app.file_record import file_record
from clew.app.goals import Goal
from clew.app.ground import Ground
from clew.app.lsp import Code, language_servers
from clew.app.mcp import Connected, servers_of
from clew.app.offering import offered_tools, private_hosts
from clew.app.own import OwnSession
from clew.app.sandbox import SessionSandbox, session_sandbox
from clew.app.skills import SessionSkills
from clew.app.thread import Thread
from clew.config.environment import for_programs
from clew.engine.file_record import FileRecord
from clew.engine.toolset import SessionTools, listed
from clew.hooks.run import Hooks
from clew.options import Options
from clew.schedules.board import Board
from clew.schedules.tool import Now, ScheduleCron, ScheduleDelete, ScheduleList
from clew.tasks.kept import Shelf
from clew.tasks.registry import Tasks
from clew.tools.base import Surroundings, ToolSession
from clew.tools.limits import limits_from
from clew.tools.registry import Toolbox
from clew.transport.network import network_from
from clew.web.fetch import Web


class Hands(Struct, frozen=True, kw_only=True):
    """What a session can do. What stays between calls is the tool session's."""

    # What calls do to files, where that is recorded.
    files: FileRecord | None
    tool_session: ToolSession
    toolbox: Toolbox
    tools: SessionTools
    mcp: Connected
    code: Code
    sandbox: SessionSandbox
    sandbox_faults: tuple[str, ...]
    plugin_faults: tuple[str, ...]
    hooks: Hooks
    hook_settings: app_hooks.Settings
    own: OwnSession
    skills: SessionSkills
    board: Board
    goal: Goal


def lasts(options: Options) -> bool:
    """Whether the session goes on after an answer."""
    return not options.is_print or options.input_format == "stream-json"


async def equipped(
    ground: Ground, thread: Thread, brought: Brought, opened: AsyncExitStack
) -> Hands:
    rules, began = ground.rules, ground.began
    own = OwnSession(rules, thread.recorder)
    tool_session = tools_session(ground, thread, own)
    sandbox, sandbox_faults = session_sandbox(
        rules, ground.launcher, tool_session, hidden=ground.secrets
    )
    opened.push_async_callback(sandbox.aclose)
    rules.is_walled = lambda: sandbox.is_wanted
    rules.has_walls = lambda: sandbox.has_walls
    tool_session.buffers = brought.buffers
    tool_session.terminal = lambda: None if sandbox.is_wanted else brought.terminal
    hook_settings = app_hooks.Settings(rules)
    hooks = app_hooks.session_hooks(
        hook_settings,
        rules,
        thread.recorder,
        tool_session,
        ground.launcher,
        ground.service.provider.transport,
        thread.side,
        environ=ground.environ,
        masked=ground.secrets,
        call_tool=app_hooks.calling(lambda: mcp, tool_session),
    )
    hooks.add(brought.hooks)
    plugin_faults = ground.plugins.hook(hooks, began.layers)
    tool_session.may = app_hooks.asking_leave(hooks)
    await opened.enter_async_context(hooks)
    web = Web(network_from(ground.environment), partial(private_hosts, rules))
    opened.push_async_callback(web.aclose)
    code = language_servers(
        began,
        ground.launcher,
        tool_session.environment,
        plugins=ground.plugins.language_servers(),
        detects=not ground.options.is_bare,
    )
    opened.push_async_callback(code.aclose)

    def spent() -> float:
        return float(thread.spending.ledger.total.usd)

    skills = SessionSkills(
        ground,
        thread.session_id,
        ground.plugins.skills(),
        prompts=lambda: [(s, offer) for s in mcp.clients() for offer in s.offers.prompts],
        wanted=brought.skills,
    )
    board = Board(tool_session.tasks, now=Now(), spent=spent, prepared=skills.prepared)
    timed = (ScheduleCron(board, Now()), ScheduleList(board), ScheduleDelete(board))
    own_tools = [*code.tools(), *(timed if lasts(ground.options) else ())]
    offered = offered_tools(ground.options, web, began.settings, skills, own_tools)
    toolbox = Toolbox(offered, began.settings)
    mcp = servers_of(
        ground.options, began, toolbox, ground.environment, brought, ground.plugins.servers()
    )
    opened.push_async_callback(mcp.aclose)
    files = None
    if ground.options.persists:
        record = file_record(began.places.config_home, thread.recorder)
        files = await opened.enter_async_context(record)
    # What works beside the conversation ends before what it works with.
    opened.push_async_callback(tool_session.tasks.aclose)
    return Hands(
        files=files,
        tool_session=tool_session,
        toolbox=toolbox,
        tools=toolset_of(ground, thread, toolbox, tool_session, mcp, files),
        mcp=mcp,
        code=code,
        sandbox=sandbox,
        sandbox_faults=sandbox_faults,
        plugin_faults=tuple(plugin_faults),
        hooks=hooks,
        hook_settings=hook_settings,
        own=own,
        skills=skills,
        board=board,
        goal=Goal(hooks, thread.side.ask_model, spent),
    )


def toolset_of(
    ground: Ground,
    thread: Thread,
    toolbox: Toolbox,
    tool_session: ToolSession,
    mcp: Connected,
    files: FileRecord | None,
) -> SessionTools:
    """The tools of a conversation, as its executor calls them."""
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
        file_record=files,
        aliases=ground.options.tool_aliases,
    )


def tools_session(
    ground: Ground, thread: Thread, own: OwnSession, *, tasks: Tasks | None = None
) -> ToolSession:
    """What the tools of a conversation share between their calls; `tasks` are those of its session."""
    results = thread.recorder.paths.results
    made = ToolSession(
        cwd=ground.cwd,
        launcher=ground.launcher,
        spill_folder=results,
        environment=for_programs(ground.environ),
        limits=limits_from(ground.environment.number, ground.began.settings.get("toolTimeouts")),
        may_read=ground.rules.may_read,
        ask_model=thread.side.ask_model,
        ask_service=thread.side.ask_service,
        own=own,
        tasks=tasks,
    )
    made.in_conversation = thread.story.holds
    made.shelf = Shelf(ground.began.places.own / "kept", thread.session_id)
    made.env_file = app_hooks.env_file(results)
    made.todos = listed(thread.spending.state.todos)
    return made

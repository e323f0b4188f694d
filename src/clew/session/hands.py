"""The hands of a session: its tools, the servers they come from, the walls around them, the hooks."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from clew.agent.hooks.run import SessionHooks
from clew.agent.options import Options
from clew.agent.subagents.offer import has
from clew.agent.tasks.registry import Tasks
from clew.agent.tools.base import (
    BackgroundWork,
    FileViews,
    ModelQuestions,
    ShellSetup,
    Surroundings,
    Tool,
    ToolSession,
    limits_from,
)
from clew.agent.tools.registry import NEED_A_PERSON, Toolbox, builtin_tools
from clew.agent.tools.session_tools import StructuredOutput
from clew.agent.tools.web import WebFetch, WebSearch
from clew.agent.toolset import FileRecord, SessionTools, listed
from clew.core.messages.errors import CommandLineError
from clew.parts import hooks as app_hooks
from clew.parts.context import Ground, HostParts
from clew.parts.goals import Goal
from clew.parts.lsp.part import Code, language_servers
from clew.parts.mcp.part import Connected, servers_of
from clew.parts.sandbox import SessionSandbox, session_sandbox
from clew.parts.schedules.board import Board, Now, ScheduleCron, ScheduleDelete, ScheduleList
from clew.parts.skills.part import SessionSkills
from clew.parts.skills.tool import Keeper, SkillTool
from clew.permissions.in_session import SessionRules
from clew.permissions.modes import unknown_tool
from clew.permissions.request import Mode
from clew.permissions.session_rules import CurrentRules, few, in_vain
from clew.record.kept_commands import RecordFolder
from clew.record.rewind.changes import PathChange
from clew.record.rewind.disk import Blobs, blobs_dir
from clew.record.rewind.watch import CallWatch
from clew.record.transcript.paths import task_list_dir
from clew.record.transcript.record import Recorder
from clew.session.thread import Thread
from clew.system.config.environment import for_programs
from clew.system.config.paths import Places
from clew.system.files import is_folder, is_there
from clew.system.transport.network import network_from
from clew.system.web_fetch import Web

# What a command line or settings name and is not there: tools in rules, folders, a
# session to go on with. Said at the start; nothing is refused.


def named_in_vain(
    options: Options, standing: CurrentRules, offered: Collection[str], *, is_new: bool
) -> tuple[str, ...]:
    """`is_new`: no session is gone on with."""
    nothing_before = ("--continue: this folder has no session yet; this is its first",)
    return (
        *(nothing_before if options.continues and is_new else ()),
        *tools_in_vain(options, standing, offered),
        *folders_in_vain(options, standing.context.cwd),
    )


def tools_in_vain(
    options: Options, standing: CurrentRules, offered: Collection[str]
) -> tuple[str, ...]:
    flags = (("--allowedTools", options.allow), ("--disallowedTools", options.deny))
    told = [
        f"{flag} {text}: {why}"
        for flag, texts in flags
        for text in texts
        if (why := unknown_tool(text, offered)) is not None
    ]
    of_flags = {text.strip() for _, texts in flags for text in texts}
    told += [
        rule.told
        for rule in in_vain(standing, offered)
        if rule.scope != "cli" or rule.text not in of_flags
    ]
    return few(told)


def folders_in_vain(options: Options, cwd: str) -> Iterator[str]:
    for name in options.directories:
        folder = Path(cwd, Path(name).expanduser())
        if not is_folder(folder):
            what = "is no folder" if is_there(folder) else "is not there"
            yield f"--add-dir {name}: {folder} {what}; it counts as soon as it is a folder"


# The session itself, as tools about it may touch it: its mode, its plan, its tasks, its settings.


PLAN: Mode = "plan"


class OwnSession:
    """Knows which mode planning began in, so that it can end there."""

    def __init__(self, rules: SessionRules, recorder: Recorder) -> None:
        self._rules = rules
        self._recorder = recorder
        self._before: Mode = "default"
        paths = recorder.paths
        self.task_folder: Path = (
            task_list_dir(self.places.config_home, paths.place.session_id)
            if paths.aside is None
            else paths.aside / "tasks"
        )

    @property
    def mode(self) -> Mode:
        return self._rules.mode

    @property
    def plan_file(self) -> Path:
        return Path(self._rules.plan_file)

    @property
    def places(self) -> Places:
        return self._rules.standing.places

    def enter_plan(self) -> None:
        if self.mode != PLAN:
            self._before = self.mode
            self._change(PLAN)

    def leave_plan(self) -> Mode:
        """Ends planning; a mode that a person chose with their yes is the one that stays."""
        return self._change(self._before if self.mode == PLAN else self.mode)

    def _change(self, mode: Mode) -> Mode:
        entered = self._rules.set_mode(mode)
        self._recorder.permission_mode(entered)
        return entered


# Which of the built-in tools a session has.


def offered_tools(
    options: Options,
    web: Web,
    settings: dict[str, Any],
    keeper: Keeper,
    more: Sequence[Tool[Any]] = (),
) -> list[Tool[Any]]:
    """The built-in tools, those of the web and `more`, without those that the command line left out or denies as a whole, and
    without those that ask a person where nobody can be asked."""
    endpoint = settings.get("webSearchEndpoint")
    search = WebSearch(web, endpoint if isinstance(endpoint, str) and endpoint else None)
    tools = (*builtin_tools(), WebFetch(web), search, SkillTool(keeper), *more)
    unknown = [name for name in options.tools or () if name not in {tool.name for tool in tools}]
    if unknown:
        known = ", ".join(tool.name for tool in tools)
        raise CommandLineError(f"--tools {unknown[0]}: no such tool; there are {known}")
    is_alone = options.is_print and options.asks != "stdio"
    shaped = [] if options.json_schema is None else [StructuredOutput(options.json_schema)]
    return [
        *shaped,
        *(
            tool
            for tool in tools
            if is_wanted(options, tool) and not (is_alone and tool.name in NEED_A_PERSON)
        ),
    ]


def is_wanted(options: Options, tool: Tool[Any]) -> bool:
    is_named = options.tools is None or tool.name in options.tools
    is_left = options.lead is None or has(options.lead, tool.name)
    return is_named and is_left and tool.name not in options.deny


def private_hosts(rules: SessionRules) -> tuple[str, ...]:
    """Hosts that a person lets WebFetch reach though their addresses are private; as it stands now."""
    named = rules.standing.settings.get("webPrivateHosts")
    hosts = named if isinstance(named, list) else []
    return tuple(host for host in hosts if isinstance(host, str))


# What calls do to files, recorded in the session's log; the contents beside it, by their sha256.


def file_record(home: Path, recorder: Recorder) -> FileRecord:
    def note(message_uuid: str, tool_use_id: str, changes: Sequence[PathChange], more: int) -> None:
        listed = [change.as_json() for change in changes]
        recorder.file_change(message_uuid, tool_use_id, listed, more)

    return FileRecord(CallWatch(Blobs(blobs_dir(home))), note)


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
    hooks: SessionHooks
    hook_settings: app_hooks.HookSettings
    own: OwnSession
    skills: SessionSkills
    board: Board
    goal: Goal


def lasts(options: Options) -> bool:
    """Whether the session goes on after an answer."""
    return not options.is_print or options.input_format == "stream-json"


async def equipped(
    ground: Ground, thread: Thread, brought: HostParts, opened: AsyncExitStack
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
    tool_session.files.buffers = brought.buffers
    tool_session.shell.terminal = lambda: None if sandbox.is_wanted else brought.terminal
    hook_settings = app_hooks.HookSettings(rules)
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
    tool_session.ask_hooks = app_hooks.asking_leave(hooks)
    await opened.enter_async_context(hooks)
    web = Web(network_from(ground.environment), partial(private_hosts, rules))
    opened.push_async_callback(web.aclose)
    code = language_servers(
        began,
        ground.launcher,
        tool_session.shell.environment,
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
    board = Board(tool_session.background.tasks, now=Now(), spent=spent, prepared=skills.prepared)
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
    opened.push_async_callback(tool_session.background.tasks.aclose)
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
    return ToolSession(
        cwd=ground.cwd,
        spill_folder=results,
        shell=ShellSetup(
            launcher=ground.launcher,
            environment=for_programs(ground.environ),
            project=ground.cwd,
            env_file=app_hooks.env_file(results),
        ),
        limits=limits_from(ground.environment.number, ground.began.settings.get("toolTimeouts")),
        files=FileViews(may_read=ground.rules.may_read, in_conversation=thread.story.holds),
        models=ModelQuestions(ask_model=thread.side.ask_model, ask_service=thread.side.ask_service),
        background=BackgroundWork(
            tasks=tasks or Tasks(),
            shelf=RecordFolder(ground.began.places.own / "kept", thread.session_id),
        ),
        own=own,
        todos=listed(thread.spending.state.todos),
    )

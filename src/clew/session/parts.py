"""The parts of a session, in a fixed order.

A new part takes one line in `SessionParts` and one in `make_parts`.

Decision: docs/decisions/330-parts.md
"""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from clew.agent.context.facts import Fact
from clew.agent.subagents.specs import AgentCatalog
from clew.agent.tools.base import Tool
from clew.core.input import SlashCommand
from clew.core.json_object import Json
from clew.core.messages.errors import UserError
from clew.core.messages.history import History
from clew.parts.agents.part import AgentsPart
from clew.parts.compaction import SessionCompaction
from clew.parts.context import NOTHING, Ground, HostParts, Thread
from clew.parts.file_history import FileHistory
from clew.parts.goals import Goal
from clew.parts.hooks import HooksPart
from clew.parts.ide.part import IdePart
from clew.parts.lsp.part import Code, make_language_servers
from clew.parts.mcp.part import Connected, servers_of
from clew.parts.memory.part import MemoryPart, Remembering
from clew.parts.output_styles import OutputStyles
from clew.parts.part import Part, PartContext
from clew.parts.planning import OwnSession
from clew.parts.plugins.part import SessionPlugins
from clew.parts.reloading import Reloading
from clew.parts.sandbox import SessionSandbox
from clew.parts.schedules.part import Schedules
from clew.parts.skills.part import SessionSkills
from clew.parts.store_copy import StoreCopy
from clew.parts.tasks import BackgroundTasks
from clew.parts.titles import SessionTitle
from clew.parts.toolset import is_lasting
from clew.parts.warming import SessionCache
from clew.parts.web import WebPart
from clew.system.config.environment import for_programs
from clew.system.config.settings import read_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from clew.parts.packages import PackageParts


class SessionParts(Struct, frozen=True, kw_only=True):
    """The parts, in the order in which they are opened and queried; they are closed in reverse."""

    memory: MemoryPart
    store_copy: StoreCopy
    plugins: SessionPlugins
    output_styles: OutputStyles
    planning: OwnSession
    sandbox: SessionSandbox
    hooks: HooksPart
    mcp: Connected
    web: WebPart
    skills: SessionSkills
    language_servers: Code
    ide: IdePart
    schedules: Schedules
    goal: Goal
    file_history: FileHistory
    compaction: SessionCompaction
    cache: SessionCache
    agents: AgentsPart
    tasks: BackgroundTasks
    title: SessionTitle
    remembering: Remembering
    packages: Part
    telemetry: Part
    reloading: Reloading

    def __iter__(self) -> Iterator[Part]:
        return (getattr(self, name) for name in self.__struct_fields__)

    async def open(self, context: PartContext) -> None:
        for part in self:
            await part.open(context)

    async def aclose(self) -> None:
        for part in reversed([*self]):
            await part.aclose()

    def tools(self) -> list[Tool[Any]]:
        return [tool for part in self for tool in part.tools()]

    def commands(self) -> list[SlashCommand[Any]]:
        return [command for part in self for command in part.commands()]

    async def facts(self, history: History) -> list[Fact]:
        return [fact for part in self for fact in await part.facts(history)]

    def after(self, results: Sequence[Json]) -> list[Fact]:
        return [fact for part in self for fact in part.after(results)]

    def notices(self) -> list[str]:
        return [notice for part in self for notice in part.notices()]

    async def refresh(self) -> tuple[str, ...]:
        """Apply external changes of settings, as far as hooks allow, and of copies in a store.

        Return notices for the user about these changes.
        """
        return tuple([notice for part in self for notice in await part.refresh()])


def make_parts(
    ground: Ground,
    thread: Thread,
    brought: HostParts,
    *,
    memory: MemoryPart,
    store_copy: StoreCopy,
    plugins: SessionPlugins,
    kinds: AgentCatalog,
    agent_faults: Sequence[str],
    telemetry: Part,
) -> SessionParts:
    """Make every part from its inputs and the parts it depends on, without starting any of them."""
    options, began, side = ground.options, ground.began, thread.side

    def spent_usd() -> float:
        return float(thread.spending.ledger.total.usd)

    output_styles = OutputStyles(options, began, plugins.styles())
    planning = OwnSession(ground.rules, thread.recorder, may_bypass=ground.options.may_bypass)
    sandbox = SessionSandbox(
        ground.rules,
        ground.launcher,
        hidden=ground.secrets,
        aside=thread.recorder.paths.results / "set-aside",
    )
    packages = load_packages(ground)
    has_host = brought is not NOTHING
    if packages is not None:
        brought = packages.beside(brought)
    mcp = servers_of(options, began, ground.environment, brought, plugins.servers())
    skills = SessionSkills(ground, thread.session_id, plugins.skills(), mcp, brought.skills)
    file_history = FileHistory(ground, thread)
    agents = AgentsPart(
        kinds,
        agent_faults,
        opening=memory.opening,
        mcp=mcp,
        skills=skills,
        sandbox=sandbox,
        planning=planning,
        file_history=file_history,
    )
    tasks = BackgroundTasks(ground, thread, agents.recorder)
    hooks = HooksPart(ground, thread, plugins, mcp, agents.ask, brought)
    code = make_language_servers(
        began,
        ground.launcher,
        for_programs(ground.environ),
        plugins=plugins.language_servers(),
        detects=not options.is_bare,
    )
    compaction = SessionCompaction(ground, memory.opening, planning, skills, agents.listing)
    return SessionParts(
        memory=memory,
        store_copy=store_copy,
        plugins=plugins,
        output_styles=output_styles,
        planning=planning,
        sandbox=sandbox,
        hooks=hooks,
        mcp=mcp,
        web=WebPart(ground),
        skills=skills,
        language_servers=code,
        ide=IdePart(ground, mcp, code, has_person=not has_host and not options.is_print),
        schedules=Schedules(
            tasks, spent=spent_usd, prepared=skills.prepared, is_offered=is_lasting(options)
        ),
        goal=Goal(hooks, side.ask_model, spent_usd),
        file_history=file_history,
        compaction=compaction,
        cache=SessionCache(ground, thread, compaction),
        agents=agents,
        tasks=tasks,
        title=SessionTitle(ground, thread),
        remembering=Remembering(ground),
        packages=packages or Part(),
        telemetry=telemetry,
        reloading=Reloading(
            ground,
            plugins=plugins,
            styles=output_styles,
            hooks=hooks,
            skills=skills,
            agents=agents,
            code=code,
            mcp=mcp,
            brought=brought,
        ),
    )


def load_packages(ground: Ground) -> "PackageParts | None":
    """Return the parts from installed packages that are named in the settings, if any."""
    if ground.options.is_bare:
        return None
    for layer in ground.began.layers:
        for fault in layer.faults:
            if fault.path == ("parts",) and "parts" in layer.data:
                raise UserError(layer.told(fault))  # A missing part may be a safeguard.
    if not read_object(ground.began.settings, "parts"):
        return None
    # Imported here, because few sessions have such parts.
    from clew.parts.packages import load_package_parts

    return load_package_parts(ground.began.settings)

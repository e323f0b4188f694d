"""The agents part of a session: available agent types, and pending news from agents.

`all_agents` is loaded when the first agent starts, because most sessions start none.

Decision: docs/decisions/170-agents.md
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clew.agent.context.facts import Fact, find_listed_agents, make_agent_listing_fact
from clew.agent.context.opening import Opening
from clew.agent.deps import Emit
from clew.agent.events import EngineEvent
from clew.agent.subagents.files import read_agent_object
from clew.agent.subagents.specs import OF_FILES, AgentCatalog, AgentSpec
from clew.agent.tasks.notice import SCHEDULE
from clew.agent.tasks.registry import BackgroundTask, Moment, Tasks
from clew.agent.tools.base import Delegation, ToolOutcome
from clew.core.json_object import Json
from clew.core.messages import factories
from clew.parts.agents.leaving import Leaving
from clew.parts.file_history import FileHistory
from clew.parts.mcp.part import Connected
from clew.parts.part import Part, PartContext
from clew.parts.planning import OwnSession
from clew.parts.sandbox import SessionSandbox
from clew.parts.skills.part import SessionSkills
from clew.record.transcript.paths import SessionPlace
from clew.record.transcript.record import Recorder
from clew.system.clock import get_timestamp, make_id
from clew.system.config.mask import remove_secrets

if TYPE_CHECKING:
    from clew.parts.agents.agent import Subagent
    from clew.parts.agents.all_agents import AllAgents

KIND = "agent"


async def ignore(_: EngineEvent) -> None:
    """Ignore an agent's events, for a session whose front end shows none."""


class AgentsPart(Part):
    """The agents part, which also implements `Agents` for the session's tools.

    Events from agents are passed to `heard`.
    """

    name = "agents"
    leaving: Leaving
    _context: PartContext

    def __init__(
        self,
        catalog: AgentCatalog,
        faults: Sequence[str],
        *,
        opening: Opening,
        mcp: Connected,
        skills: SessionSkills,
        sandbox: SessionSandbox,
        planning: OwnSession,
        file_history: FileHistory,
    ) -> None:
        self.catalog = catalog
        # Problems with definitions, including unusable ones.
        self.faults = tuple(faults)
        self.heard: Emit = ignore
        self._opening = opening
        self._mcp = mcp
        self._skills = skills
        self._sandbox = sandbox
        self._planning = planning
        self._file_history = file_history
        self._all: AllAgents | None = None
        self._notices = self.faults

    async def open(self, context: PartContext, /) -> None:
        self._context = context
        self.leaving = Leaving(self._begin_itself, context.conversation, context.thread.story)
        if context.thread.loaded is not None:
            self._recall(context.thread.loaded.messages)
        self.tasks.watchers.append(self._note_stopped)

    def _note_stopped(self, task: BackgroundTask, moment: Moment) -> None:
        """Record that an agent was stopped, by the user or together with its owner."""
        if moment == "ended" and task.kind == KIND and task.status == "stopped":
            title = remove_secrets(" ".join(task.title.split()), self._context.ground.secrets)
            self._context.conversation.note(
                factories.make_system(
                    "agents_killed",
                    f"Agent stopped: {title}",
                    uuid=make_id(),
                    at=get_timestamp(),
                    agentIds=[task.id],
                )
            )

    def notices(self) -> tuple[str, ...]:
        return self._notices

    async def aclose(self) -> None:
        if self._all is not None:
            await self._all.aclose()

    @property
    def all(self) -> AllAgents:
        if self._all is None:
            from clew.parts.agents.agent_parts import Crew
            from clew.parts.agents.all_agents import AllAgents

            crew = Crew(
                context=self._context,
                opening=self._opening,
                mcp=self._mcp,
                skills=self._skills,
                sandbox=self._sandbox,
                planning=self._planning,
                file_history=self._file_history,
            )
            self._all = AllAgents(crew, self.catalog, self.listing, self._tell)
        return self._all

    async def _tell(self, event: EngineEvent) -> None:
        await self.heard(event)

    @property
    def tasks(self) -> Tasks:
        return self._context.tool_session.background.tasks

    @property
    def place(self) -> SessionPlace:
        return self._context.thread.recorder.paths.place

    def running(self, agent_id: str) -> Subagent | None:
        """Return the agent of this run that has this ID, or None."""
        return None if self._all is None else self._all.agents.get(agent_id)

    def recorder(self, agent_id: str) -> Recorder | None:
        agent = self.running(agent_id)
        return None if agent is None else agent.recorder

    # -- interface for the session's own tools and hooks

    async def run(self, wish: Delegation, tool_use_id: str) -> ToolOutcome:
        return await self.all.of(cwd=self._cwd).run(wish, tool_use_id)

    async def send(self, to: str, words: str) -> ToolOutcome:
        return await self.all.of(cwd=self._cwd).send(to, words)

    def _cwd(self) -> str:
        return self._context.tool_session.cwd

    async def ask(self, words: str, model: str) -> str:
        """Run an agent to answer a hook's question; return its answer."""
        return await self.all.ask(words, model)

    async def should_leave(self) -> bool:
        return await self.leaving.is_time()

    async def _begin_itself(
        self, entries: Sequence[Json], words: str, title: str
    ) -> BackgroundTask:
        return await self.all.itself(entries, words, title)

    # -- agent types

    def spec(self, name: str) -> AgentSpec:
        return self.all.spec(name)

    def listing(self, history: Iterable[Json]) -> Fact | None:
        """Return a fact that lists new and removed agent types for a conversation, or None."""
        if not self._context.requests.offers("Agent"):
            return None
        return make_agent_listing_fact(
            find_listed_agents(history), {spec.name: spec.description for spec in self.catalog}
        )

    def replace_hosts(self, definitions: Mapping[str, Any]) -> tuple[str, ...]:
        """Replace the agent types that the host defined; return problems in the new ones."""
        agents = read_agent_object(definitions, "host")
        self.catalog.remove("host")
        self.catalog.add(agents.specs)
        return tuple(agents.faults)

    def reload(self, specs: Iterable[AgentSpec], faults: Sequence[str]) -> None:
        """Replace the agent types that are defined in files, and the problems in those files."""
        self.faults = tuple(faults)
        for origin in OF_FILES:
            self.catalog.remove(origin)
        self.catalog.add(specs)

    # -- pending news

    def _recall(self, messages: Sequence[Json]) -> None:
        """Restore the outcomes of agents from earlier runs of the session."""
        from clew.parts.agents.past import describe_left_agents, list_earlier_agents

        for task in list_earlier_agents(
            self.place, self._context.thread.recorder.paths.home, messages
        ):
            self.tasks.remember(task)
        self._notices = (*describe_left_agents(self.tasks.all()), *self._notices)

    @property
    def has_news(self) -> bool:
        """True if news from a background agent or a schedule is waiting for delivery."""
        return self.tasks.has_news(KIND) or self.tasks.has_news(SCHEDULE)

    @property
    def are_working(self) -> bool:
        return bool(self.tasks.working(KIND))

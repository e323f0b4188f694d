"""The agents of a session: available types, running agents, and their results.

Owns the life of each agent: a task in the session's registry while it works, and a permanent
transcript. An agent's events are reported under the call that started it. Its outcome becomes the
result of that call or, for a background agent, news from its task.

Decision: docs/decisions/170-agents.md
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

from clew.agent.deps import Emit
from clew.agent.events import EngineEvent, TurnEnded
from clew.agent.hooked import find_last_words
from clew.agent.hooks.reach import HookError
from clew.agent.models import choose_small_model
from clew.agent.subagents.offer import select_own_part
from clew.agent.subagents.specs import ITSELF, JUDGE, AgentCatalog, AgentSpec
from clew.agent.subagents.worktree import Git
from clew.agent.tasks.registry import BackgroundTask, TaskEnding, Tasks
from clew.agent.tools.base import Delegation, ToolError
from clew.core.json_object import Json
from clew.core.messages.errors import UserError
from clew.parts.agents.agent import Subagent, make_metadata
from clew.parts.agents.agent_parts import Birth, Crew, Listing
from clew.parts.agents.checkouts import Checkouts, place_in, text, worktree_of
from clew.parts.agents.delegate import Delegate
from clew.parts.agents.past import move_folder, restore
from clew.parts.agents.shared import AgentServers
from clew.parts.past_commands import hand_over_commands
from clew.record.transcript.agent_record import AgentRecorder
from clew.record.transcript.agents import AgentMetadata, ResumedAgent, find_agent, resume_agent
from clew.record.transcript.belongings import SHARED_WITH
from clew.record.transcript.paths import SessionPlace
from clew.system.config.git_guard import repository_of
from clew.system.files import is_folder, is_there

KIND = "agent"
MOST_WAIT_MS = 600_000
# The number of finished agents kept in memory.
MOST_KEPT = 30
# The maximum nesting depth; agents of the main conversation have depth 1.
MOST_DEPTH = 3
# The value with which a definition requests the model for small work.
SMALL = "small"

NOT_KNOWN = "Can't resume agent {name}: {why}. Start a new one instead."
NO_TYPE = "its type is unknown, because its metadata file is missing and no tool call names it"


async def unheard(_: EngineEvent) -> None:
    """Ignore an agent's events, because no front end shows them."""


class AllAgents:
    """The agents of one session.

    `catalog` contains the agent types, and `tell` receives the agents' events.
    """

    def __init__(self, crew: Crew, catalog: AgentCatalog, listing: Listing, tell: Emit) -> None:
        self.catalog = catalog
        self._listing = listing
        self._tell = tell
        self._crew = crew
        self.checkouts = Checkouts(
            Git(crew.context.ground.launcher, crew.context.ground.environ),
            crew.context.hooks,
            self.tasks,
            crew.context.thread.recorder.paths,
            self._tell,
        )
        # The agents of this run, by ID.
        self.agents: dict[str, Subagent] = {}

    @property
    def tasks(self) -> Tasks:
        return self._crew.context.tool_session.background.tasks

    @property
    def place(self) -> SessionPlace:
        return self._crew.context.thread.recorder.paths.place

    @property
    def home(self) -> Path:
        return self._crew.context.thread.recorder.paths.home

    def recorder(self, agent_id: str) -> AgentRecorder | None:
        agent = self.agents.get(agent_id)
        return None if agent is None else agent.recorder

    async def aclose(self) -> None:
        for agent in self.agents.values():
            await agent.birth.servers.rest()

    def of(self, parent_id: str = "", depth: int = 0, cwd: Callable[[], str] = str) -> Delegate:
        """Return the interface through which a conversation uses agents.

        `parent_id` is the ID of the conversation's agent, or empty for the main conversation.
        """
        return Delegate(self, parent_id, depth, cwd)

    # -- lookup

    def spec(self, name: str) -> AgentSpec:
        spec = self.catalog.find(name)
        if spec is None:
            near = self.catalog.nearest(name)
            names = ", ".join(spec.name for spec in self.catalog)
            hint = f" (did you mean {near}?)" if near else ""
            raise ToolError(f"Unknown agent type {name}{hint}; expected one of {names}.")
        return spec

    def called(self, name: str) -> Subagent | None:
        """Return the agent of this run with this ID or name, or None.

        If several agents share the name, return the last one.
        """
        agent = self.agents.get(name)
        if agent is not None:
            return agent
        matches = [agent for agent in self.agents.values() if agent.birth.name == name]
        return matches[-1] if matches else None

    def model(self, spec: AgentSpec, wanted: str | None) -> str:
        environment = self._crew.context.ground.environment
        name = environment.text("agent_model") or wanted or spec.model
        if name == SMALL:
            main = self._crew.context.requests.template.model
            ground = self._crew.context.ground
            settings = ground.rules.standing.settings
            name = choose_small_model(environment, settings, ground.service, main)
        own_model = self._crew.context.requests.template.model
        if not name or name == "inherit":
            return own_model
        # Definitions with a Claude model also work in sessions without a key for it, and where it is
        # not allowed.
        service = self._crew.context.ground.service
        return name if service.can_ask(name) and not service.describe_refusal(name) else own_model

    # -- life cycle

    async def begun(self, wish: Delegation, tool_use_id: str, by: Delegate) -> Subagent:
        spec = self.spec(wish.kind)
        agent_id = f"a{uuid4().hex[:16]}"
        in_worktree = spec.in_worktree if wish.in_worktree is None else wish.in_worktree
        tree = await self.checkouts.made(by.cwd(), agent_id) if in_worktree else None
        return await self._made(
            Birth(
                agent_id=agent_id,
                spec=spec,
                servers=self._servers(spec),
                description=wish.description,
                tool_use_id=tool_use_id,
                model=await self._crew.context.ground.service.prepare(self.model(spec, wish.model)),
                cwd=by.cwd() if tree is None else place_in(tree, by.cwd()),
                name=wish.name,
                parent_id=by.parent_id,
                depth=by.depth + 1,
                worktree=tree,
            )
        )

    def _servers(self, spec: AgentSpec) -> AgentServers:
        return AgentServers(self._crew.context.ground, self._crew.mcp, spec)

    async def itself(self, entries: Sequence[Json], words: str, title: str) -> BackgroundTask:
        """Continue the session's own work in a background agent, with the conversation so far."""
        self.tasks.check_room()
        agent_id = f"a{uuid4().hex[:16]}"
        template = self._crew.context.requests.template
        agent = await self._made(
            Birth(
                agent_id=agent_id,
                spec=ITSELF,
                servers=self._servers(ITSELF),
                description=title,
                # No call started it; hosts tell its frames from the session's by this ID.
                tool_use_id=agent_id,
                model=self._crew.context.ground.service.catalog.entry(template.model),
                cwd=self._crew.context.tool_session.cwd,
            )
        )
        agent.begin_with(entries)
        return self.put_to_work(agent, words, in_background=True)

    async def ask(self, words: str, model: str) -> str:
        """Run an agent to answer a hook's question; return its answer.

        The agent's events are not reported.
        """
        birth = Birth(
            agent_id=f"a{uuid4().hex[:16]}",
            spec=JUDGE,
            servers=self._servers(JUDGE),
            description="Answer a hook's question",
            tool_use_id="",
            model=self._crew.context.ground.service.catalog.entry(self.model(JUDGE, model or None)),
            cwd=self._crew.context.tool_session.cwd,
            is_hooks_own=True,
        )
        await birth.servers.wake()
        agent = Subagent(self._crew, birth, unheard, None, self._listing)
        try:
            ended = await agent.turn(words)
        finally:
            agent.recorder.describe(make_metadata(birth, finished="completed"))
            agent.recorder.rest()
            await self.tasks.stop_all(birth.agent_id)
        if ended.is_error:
            raise HookError(f"the agent could not answer: {ended.message or ended.reason}")
        return find_last_words(agent.history)

    async def _made(self, birth: Birth) -> Subagent:
        """Start an agent's MCP servers, then create the agent with the servers' tools."""
        await birth.servers.wake()
        if birth.worktree is not None:
            self._crew.sandbox.opens(birth.worktree.path)
        may_delegate = birth.depth < MOST_DEPTH
        below = self.of(birth.agent_id, birth.depth, lambda: birth.cwd) if may_delegate else None
        agent = Subagent(self._crew, birth, self._tell, below, self._listing)
        self._forget()
        self.agents[birth.agent_id] = agent
        return agent

    def _forget(self) -> None:
        """Drop all ended agents except the latest.

        The dropped agents can be restored from their transcripts.
        """
        if not self._crew.context.ground.options.persists:
            return
        running = {task.id for task in self.tasks.running}
        ended = [agent_id for agent_id in self.agents if agent_id not in running]
        for agent_id in ended[:-MOST_KEPT]:
            del self.agents[agent_id]

    async def resumed(self, name: str) -> Subagent:
        """Resume an agent of this run or an earlier one, and return it, ready to continue.

        Raise ToolError if the agent can't be resumed.
        """
        subagent = self.called(name)
        if subagent is not None:
            await self._has_folder(subagent.birth)
            return subagent
        try:
            path = self.place.agent(name)
        except ValueError:
            raise ToolError(NOT_KNOWN.format(name=name, why="invalid agent ID")) from None
        restore(self.place, self.home)
        if not is_there(path):
            transcript = find_agent(self.place, self.home, name)
            if transcript is None:
                why = "not found in this session"
                raise ToolError(NOT_KNOWN.format(name=name, why=why))
            path = transcript
        before = resume_agent(path, self.home)
        if before.metadata is None:
            raise ToolError(NOT_KNOWN.format(name=name, why=NO_TYPE))
        agent_id = path.stem.removeprefix("agent-")
        birth = self._as_before(agent_id, before, before.metadata)
        await self._has_folder(birth)
        self._is_inside(birth)
        self._goes_on_in(path, agent_id)
        agent = await self._made(birth)
        hand_over_commands(
            agent_id,
            before.loaded,
            select_own_part(before.loaded.messages, birth.begins_behind),
            self._crew.context.thread.story.history,
            self.tasks,
            self.place.tool_results,
        )
        return agent

    async def _has_folder(self, birth: Birth) -> None:
        """Restore the agent's folder if its worktree was removed.

        Raise ToolError if the folder does not exist and can't be restored.
        """
        if is_folder(birth.cwd):
            return
        if birth.worktree is None or not Path(birth.cwd).is_relative_to(birth.worktree.path):
            why = f"its folder no longer exists: {birth.cwd}"
            raise ToolError(NOT_KNOWN.format(name=birth.agent_id, why=why))
        try:
            await self.checkouts.again(birth.worktree)
        except UserError as error:
            why = f"its worktree {birth.worktree.path} was removed and can't be restored: {error}"
            raise ToolError(NOT_KNOWN.format(name=birth.agent_id, why=why)) from None

    def _is_inside(self, birth: Birth) -> None:
        """Raise ToolError if the folder in an agent's record is outside the workspace.

        Otherwise, the model would receive a description of that folder without a permission
        prompt.
        """
        folder, context = (
            os.path.realpath(birth.cwd),
            self._crew.context.ground.rules.standing.context,
        )
        trees = () if birth.worktree is None else (os.path.realpath(birth.worktree.path),)
        if not any(Path(folder).is_relative_to(root) for root in (*context.roots, *trees)):
            why = f"its folder {folder} is outside the workspace"
            raise ToolError(NOT_KNOWN.format(name=birth.agent_id, why=why))

    def _goes_on_in(self, path: Path, agent_id: str) -> None:
        """If an agent's transcript is in a group's folder, continue the transcript there."""
        group = path.parent.relative_to(self.place.folder / "subagents")
        if group.parts:
            try:
                self._crew.context.thread.recorder.paths.group_agent(agent_id, group.as_posix())
            except ValueError:
                why = f"its folder has an invalid name: {group}"
                raise ToolError(NOT_KNOWN.format(name=agent_id, why=why)) from None

    def _as_before(
        self, agent_id: str, before: ResumedAgent, agent_metadata: AgentMetadata
    ) -> Birth:
        is_session = agent_metadata.agent_type == ITSELF.name
        spec = ITSELF if is_session else self.catalog.find(agent_metadata.agent_type)
        if spec is None:
            why = f"its type {agent_metadata.agent_type} is no longer defined"
            raise ToolError(NOT_KNOWN.format(name=agent_id, why=why))
        tree = worktree_of(agent_metadata, agent_id)
        if tree is not None and not self._is_of_session(tree.repository):
            tree = None
        cwd = text(agent_metadata.more, "cwd") or self._crew.context.ground.cwd
        if tree is None:
            cwd = move_folder(cwd, self.place, self.home, self._crew.context.ground.cwd)
        depth = agent_metadata.more.get("spawnDepth")
        model = text(agent_metadata.more, "model") or self.model(spec, None)
        return Birth(
            agent_id=agent_id,
            spec=spec,
            servers=self._servers(spec),
            description=agent_metadata.description or "",
            tool_use_id=agent_metadata.tool_use_id or "",
            model=self._crew.context.ground.service.catalog.entry(model),
            cwd=cwd,
            name=text(agent_metadata.more, "name"),
            parent_id=text(agent_metadata.more, "parentAgentId"),
            depth=depth if type(depth) is int else 1,
            worktree=tree,
            shared_with=text(agent_metadata.more, SHARED_WITH),
            begins_behind=text(agent_metadata.more, "beginsBehind"),
            loaded=before.loaded,
        )

    def _is_of_session(self, repository: str) -> bool:
        """Return whether a repository is the session's own.

        The worktrees of the session's own repository are part of the workspace.
        """
        folders = (repository, self._crew.context.ground.cwd)
        if len({os.path.realpath(folder) for folder in folders}) == 1:
            return True
        try:
            repositories = [repository_of(Path(folder)) for folder in folders]
        except (OSError, ValueError):
            return False
        return bool(repositories[0]) and repositories[0] == repositories[1]

    def put_to_work(
        self, agent: Subagent, words: str, *, in_background: bool, owner: str = ""
    ) -> BackgroundTask:
        """Start the agent's next turn, with the prompt `words`, as a task. Return the task."""
        # Clear the recorded outcome of its last turn.
        agent.recorder.describe(make_metadata(agent.birth))

        async def work(task: BackgroundTask) -> TaskEnding:
            agent.tale.begin(task)
            try:
                ended = await agent.turn(words)
            except asyncio.CancelledError:
                agent.recorder.describe(make_metadata(agent.birth, finished="stopped"))
                await self.tasks.stop_all(agent.birth.agent_id)
                agent.recorder.rest()
                raise
            ending = ending_of(ended, agent)
            agent.recorder.describe(make_metadata(agent.birth, finished=ending.status))
            await self.tasks.stop_all(agent.birth.agent_id)
            agent.recorder.rest()
            return await self.checkouts.settled(agent, ending)

        return self.tasks.begin(
            work,
            task_id=agent.birth.agent_id,
            kind=KIND,
            title=agent.birth.description,
            output=agent.tale.again(),
            tool_use_id=agent.birth.tool_use_id,
            file=agent.recorder.transcript,
            is_background=in_background,
            owner=owner,
        )


def ending_of(ended: TurnEnded, agent: Subagent) -> TaskEnding:
    result_text = find_last_words(agent.history)
    if ended.is_error:
        return TaskEnding(status="failed", words=ended.message or ended.reason, result=result_text)
    return TaskEnding(status="completed", result=result_text)

"""The agents of a session: who there is, who works, what becomes of it.

Owns the life of each: one task in the session's registry while it works, a transcript for ever. What
an agent does is told to whoever listens, under the call that began it; what came of it is the call's
result, or news of its task.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from msgspec.structs import replace

from clew.app.agent import Agent, metadata
from clew.app.agent_parts import Birth, Crew
from clew.app.agent_past import earlier
from clew.app.side import small_model
from clew.context.agent_listing import listing_fact, told
from clew.context.facts import Fact
from clew.engine.deps import Emit
from clew.engine.events import EngineEvent, TurnEnded
from clew.engine.hooked import last_words
from clew.messages.errors import ClewError, UserError
from clew.messages.history import History
from clew.subagents.catalog import Catalog
from clew.subagents.files import in_object
from clew.subagents.specs import Spec
from clew.subagents.worktree import Git, Worktree, again, clear, make, merge, remove
from clew.tasks.registry import Ending, Task, Tasks
from clew.tools.base import ToolError, ToolResult
from clew.tools.delegate import Wish
from clew.transcript.agents import AgentMetadata, ResumedAgent, agents, read_metadata, resume_agent
from clew.transcript.paths import Place

Json: TypeAlias = dict[str, Any]

KIND = "agent"
# By which agents reach the session's own conversation.
MAIN = "main"
MOST_WAIT_MS = 600_000
# How deep agents may begin agents: the session's own stand at 1.
MOST_DEPTH = 3
# The word by which a definition asks for the model for small work.
SMALL = "small"

NOT_KNOWN = (
    "There is no agent {name}: {why}. It is not gone on with as something else; begin a new one."
)
NO_TYPE = (
    "what kind of agent it was is not known, because the file beside its transcript is missing"
)


async def unheard(_: EngineEvent) -> None:
    """Nobody looks on."""


class AllAgents:
    """`catalog` are the kinds there are; `heard` is told what agents do. One for each session."""

    def __init__(self, crew: Crew, catalog: Catalog) -> None:
        self.catalog = catalog
        self.heard: Emit = unheard
        self._crew = crew
        self._git = Git(crew.ground.launcher, crew.ground.environ)
        # By id: those of this run.
        self.agents: dict[str, Agent] = {}

    @property
    def tasks(self) -> Tasks:
        return self._crew.hands.tool_session.tasks

    @property
    def place(self) -> Place:
        return self._crew.thread.recorder.paths.place

    def of(self, parent_id: str = "", depth: int = 0, cwd: Callable[[], str] = str) -> "Delegate":
        """The agents as one conversation may ask for them."""
        return Delegate(self, parent_id, depth, cwd)

    def listing(self, history: History) -> Fact | None:
        """What a conversation is to be told of the kinds there are."""
        if self._crew.hands.toolbox.get("Agent") is None:
            return None
        return listing_fact(told(history), {spec.name: spec.description for spec in self.catalog})

    def replace_hosts(self, given: Mapping[str, Any]) -> tuple[str, ...]:
        """The kinds that a host brings, instead of those it brought before; what is wrong with some."""
        found = in_object(given, "host")
        self.catalog.remove("host")
        self.catalog.add(found.specs)
        return tuple(found.faults)

    def recall(self, messages: Sequence[Json]) -> None:
        """Takes up what agents of the session's earlier runs came to."""
        for task in earlier(self.place, messages):
            self.tasks.remember(task)

    async def merged(self, agent_id: str) -> str:
        """Brings the changes of an agent's own checkout into the repository's; what git said."""
        tree, said = self._checkout(agent_id)
        return await merge(self._git, tree, f"{said.description or said.agent_type} ({agent_id})")

    async def discarded(self, agent_id: str) -> None:
        """Takes an agent's own checkout away with all that stands in it."""
        tree, _ = self._checkout(agent_id)
        await remove(self._git, tree, by_force=True)

    def _checkout(self, agent_id: str) -> tuple[Worktree, AgentMetadata]:
        task = self.tasks.get(agent_id)
        if task is not None and task.ending is None:
            raise UserError(f"agent {agent_id} works still; /tasks stop {agent_id} ends it")
        try:
            said = read_metadata(self.place.agent(agent_id))
        except ValueError:
            said = None
        tree = None if said is None else worktree_of(said)
        if said is None or tree is None or not is_folder(tree.path):
            raise UserError(f"there is no checkout of an agent {agent_id}")
        return tree, said

    # -- what of it the session is still to hear

    @property
    def has_news(self) -> bool:
        """Whether an agent in the background has ended and the model does not know."""
        return self.tasks.has_news(KIND)

    @property
    def are_working(self) -> bool:
        return bool(self.tasks.working(KIND))

    async def settled(self, stopping: asyncio.Event) -> bool:
        """Waits, within bounds, until no agent works in the background; whether there is news, and
        nobody said meanwhile that nothing more is wanted."""
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(self._all_ended())
            stopped = group.create_task(stopping.wait())
            await asyncio.wait([waiting, stopped], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            stopped.cancel()
        return not stopping.is_set() and self.has_news

    async def _all_ended(self) -> None:
        said = self._crew.ground.environment.number("wait_for_agents_ms")
        most_ms = MOST_WAIT_MS if said is None else said
        with suppress(TimeoutError):
            async with asyncio.timeout(most_ms / 1000 if most_ms else None):
                await self.tasks.ended(KIND)

    # -- who is meant

    def spec(self, name: str) -> Spec:
        found = self.catalog.find(name)
        if found is None:
            near = self.catalog.nearest(name)
            there = ", ".join(spec.name for spec in self.catalog)
            hint = f"did you mean {near}? " if near else ""
            raise ToolError(f"There is no kind of agent {name}; {hint}There are: {there}.")
        return found

    def called(self, name: str) -> Agent | None:
        """An agent of this run, by its id or the name it was given; of several the last one."""
        found = self.agents.get(name)
        if found is not None:
            return found
        named = [agent for agent in self.agents.values() if agent.birth.name == name]
        return named[-1] if named else None

    def model(self, spec: Spec, wanted: str | None) -> str:
        environment = self._crew.ground.environment
        name = environment.text("agent_model") or wanted or spec.model
        if name == SMALL:
            main = self._crew.requests.template.model
            name = small_model(environment, self._crew.ground.service, main)
        return name if name and name != "inherit" else self._crew.requests.template.model

    # -- the life of one

    async def begun(self, wish: Wish, tool_use_id: str, by: "Delegate") -> Agent:
        spec = self.spec(wish.kind)
        agent_id = f"a{uuid4().hex[:16]}"
        in_worktree = spec.in_worktree if wish.in_worktree is None else wish.in_worktree
        tree = await self._worktree(by.cwd(), agent_id) if in_worktree else None
        return self._made(
            Birth(
                agent_id=agent_id,
                spec=spec,
                description=wish.description,
                tool_use_id=tool_use_id,
                model=self._crew.ground.service.catalog.entry(self.model(spec, wish.model)),
                cwd=by.cwd() if tree is None else tree.path,
                name=wish.name,
                parent_id=by.parent_id,
                depth=by.depth + 1,
                worktree=tree,
            )
        )

    async def _worktree(self, cwd: str, agent_id: str) -> Worktree:
        return await make(self._git, cwd, f"agent-{agent_id}")

    def _made(self, birth: Birth) -> Agent:
        may_delegate = birth.depth < MOST_DEPTH
        below = self.of(birth.agent_id, birth.depth, lambda: birth.cwd) if may_delegate else None
        agent = Agent(self._crew, birth, self._tell, below, self.listing)
        self.agents[birth.agent_id] = agent
        return agent

    async def _tell(self, event: EngineEvent) -> None:
        await self.heard(event)

    async def resumed(self, name: str) -> Agent:
        """An agent that has ended, as what it was: of this run, or of one before."""
        found = self.called(name)
        if found is not None:
            await self._has_folder(found.birth)
            return found
        try:
            path = self.place.agent(name)
        except ValueError:
            raise ToolError(NOT_KNOWN.format(name=name, why="that is no id of one")) from None
        if not path.exists():
            path = self._named(name)
        before = resume_agent(path)
        if before.metadata is None:
            raise ToolError(NOT_KNOWN.format(name=name, why=NO_TYPE))
        agent_id = path.stem.removeprefix("agent-")
        birth = self._as_before(agent_id, before, before.metadata)
        await self._has_folder(birth)
        return self._made(birth)

    async def _has_folder(self, birth: Birth) -> None:
        """Where it worked is there, or there again: a checkout that nothing came of was taken away."""
        if is_folder(birth.cwd):
            return
        if birth.worktree is None or birth.cwd != birth.worktree.path:
            why = f"the folder it worked in is gone: {birth.cwd}"
            raise ToolError(NOT_KNOWN.format(name=birth.agent_id, why=why))
        await again(self._git, birth.worktree)

    def _named(self, name: str) -> Path:
        """The transcript of the agent of an earlier run that had this name; of several the last one."""
        found = [path for path in agents(self.place) if name_of(path) == name]
        if not found:
            raise ToolError(NOT_KNOWN.format(name=name, why="this session has no transcript of it"))
        return max(found, key=lambda path: path.stat().st_mtime)

    def _as_before(self, agent_id: str, before: ResumedAgent, said: AgentMetadata) -> Birth:
        spec = self.catalog.find(said.agent_type)
        if spec is None:
            why = f"it was of the kind {said.agent_type}, which is not defined any more"
            raise ToolError(NOT_KNOWN.format(name=agent_id, why=why))
        tree = worktree_of(said)
        cwd = text(said.more, "cwd") or self._crew.ground.cwd
        depth = said.more.get("spawnDepth")
        model = text(said.more, "model") or self.model(spec, None)
        return Birth(
            agent_id=agent_id,
            spec=spec,
            description=said.description or "",
            tool_use_id=said.tool_use_id or "",
            model=self._crew.ground.service.catalog.entry(model),
            cwd=cwd,
            name=text(said.more, "name"),
            parent_id=text(said.more, "parentAgentId"),
            depth=depth if type(depth) is int else 1,
            worktree=tree,
            loaded=before.loaded,
        )

    def put_to_work(
        self, agent: Agent, words: str, *, in_background: bool, owner: str = ""
    ) -> Task:
        """Its next turn, as a task of whoever asked for it."""

        async def work(task: Task) -> Ending:
            agent.tale.begin(task)
            try:
                ended = await agent.turn(words)
            except asyncio.CancelledError:
                agent.recorder.describe(metadata(agent.birth, finished="stopped"))
                await self.tasks.stop_all(agent.birth.agent_id)
                raise
            ending = ending_of(ended, agent)
            agent.recorder.describe(metadata(agent.birth, finished=ending.status))
            await self.tasks.stop_all(agent.birth.agent_id)
            return await self._settled(agent, ending)

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

    async def _settled(self, agent: Agent, ending: Ending) -> Ending:
        """What is left of its own checkout, told with what it said."""
        tree = agent.birth.worktree
        if tree is None:
            return ending
        try:
            is_gone = await clear(self._git, tree)
        except ClewError as error:
            return with_note(ending, f"(Its worktree {tree.path} was kept: {error})")
        if is_gone:
            return with_note(ending, "(Nothing was changed in its worktree, which is gone again.)")
        note = f"(Its changes are in the worktree {tree.path}, on the branch {tree.branch}.)"
        return with_note(ending, note)


class Delegate:
    """What one conversation may ask of agents; `depth` is how deep it stands itself."""

    def __init__(
        self, everyone: AllAgents, parent_id: str, depth: int, cwd: Callable[[], str]
    ) -> None:
        self._everyone = everyone
        self.parent_id = parent_id
        self.depth = depth
        self.cwd = cwd

    async def run(self, wish: Wish, tool_use_id: str) -> ToolResult:
        everyone = self._everyone
        if wish.resume:
            agent = await everyone.resumed(wish.resume)
            refuse_running(everyone.tasks, agent)
        else:
            agent = await everyone.begun(wish, tool_use_id, self)
        in_background = wish.in_background
        if in_background is None:
            in_background = agent.birth.spec.background
        task = everyone.put_to_work(
            agent, wish.prompt, in_background=in_background, owner=self.parent_id
        )
        if in_background:
            return launched(agent, wish.prompt)
        return await self._waited(agent, task, wish.prompt)

    async def _waited(self, agent: Agent, task: Task, prompt: str) -> ToolResult:
        """The result of an agent that is waited for; it ends with the call."""
        try:
            await task.released()
        except asyncio.CancelledError:
            await self._everyone.tasks.stop(task)
            raise
        return launched(agent, prompt) if task.ending is None else answered(agent, task, prompt)

    async def send(self, to: str, words: str) -> ToolResult:
        everyone = self._everyone
        if to == MAIN and self.parent_id:
            return self._to_main(words)
        agent = await everyone.resumed(to)
        task = everyone.tasks.get(agent.birth.agent_id)
        if task is not None and task.ending is None:
            agent.hear(words)
            return ToolResult(
                content=f"Agent {agent.birth.agent_id} hears it before its next step.",
                tool_use_result={"success": True, "agentId": agent.birth.agent_id},
                display="told",
            )
        everyone.put_to_work(agent, words, in_background=True, owner=self.parent_id)
        return launched(agent, words)

    def _to_main(self, words: str) -> ToolResult:
        """News of the agent's own task; the conversation hears it as such."""
        tasks = self._everyone.tasks
        task = tasks.get(self.parent_id)
        if task is None or task.ending is not None:
            raise ToolError("The conversation that began you does not wait for anything of yours.")
        tasks.say(task, words)
        return ToolResult(
            content="It hears it before its next step.",
            tool_use_result={"success": True},
            display="told",
        )


def refuse_running(tasks: Tasks, agent: Agent) -> None:
    task = tasks.get(agent.birth.agent_id)
    if task is not None and task.ending is None:
        raise ToolError(f"Agent {agent.birth.agent_id} works already; SendMessage reaches it.")


def ending_of(ended: TurnEnded, agent: Agent) -> Ending:
    said = last_words(agent.history)
    if ended.is_error:
        return Ending(status="failed", words=ended.message or ended.reason, result=said)
    return Ending(status="completed", result=said)


def with_note(ending: Ending, note: str) -> Ending:
    return replace(ending, result=f"{ending.result}\n\n{note}".strip())


def launched(agent: Agent, prompt: str) -> ToolResult:
    birth = agent.birth
    return ToolResult(
        content=f"Agent {birth.agent_id} works in the background. You are told when it has ended; "
        f"until then go on with what does not need it. SendMessage to {birth.agent_id} tells it "
        "something, TaskOutput shows how far it is, TaskStop ends it.",
        tool_use_result={
            "isAsync": True,
            "status": "async_launched",
            "agentId": birth.agent_id,
            "agentType": birth.spec.name,
            "description": birth.description,
            "prompt": prompt,
            "outputFile": str(agent.recorder.transcript),
        },
        display=f"works in the background as {birth.agent_id}",
    )


def answered(agent: Agent, task: Task, prompt: str) -> ToolResult:
    """What an agent came back with; one that failed is an error that says how far it came."""
    ending = task.ending
    assert ending is not None
    birth = agent.birth
    usage = agent.tale.usage
    told = f"(This was agent {birth.agent_id}; SendMessage to it lets it go on.)"
    if ending.status == "completed":
        words = ending.result or "The agent ended without a word."
    else:
        how = {"failed": "failed", "stopped": "was stopped"}[ending.status]
        why = f": {ending.words}" if ending.words else ""
        words = f"The agent {how}{why}. What it said last:\n{ending.result or '(nothing)'}"
    return ToolResult(
        content=[{"type": "text", "text": words}, {"type": "text", "text": told}],
        is_error=ending.status != "completed",
        tool_use_result={
            "status": ending.status,
            "agentId": birth.agent_id,
            "agentType": birth.spec.name,
            "prompt": prompt,
            "content": [{"type": "text", "text": ending.result}],
            "totalToolUseCount": usage.tool_uses,
            "totalTokens": usage.tokens,
            "totalDurationMs": task.duration_ms,
        },
        display=f"{ending.status}, {usage.tool_uses} tool uses",
    )


def worktree_of(said: AgentMetadata) -> Worktree | None:
    fields = [text(said.more, f"worktree{key}") for key in ("Branch", "Base", "Repository")]
    if said.worktree_path is None or not all(fields):
        return None
    branch, base, repository = fields
    return Worktree(path=said.worktree_path, branch=branch, base=base, repository=repository)


def name_of(path: Path) -> str:
    said = read_metadata(path)
    return "" if said is None else text(said.more, "name")


def text(fields: Json, key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def is_folder(path: str) -> bool:
    return Path(path).is_dir()

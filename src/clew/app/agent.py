"""One agent: a conversation of its own, made of the same parts as its session's.

It shares the session's service, ledger, servers, walls and hooks; its context, its tools, what it
has read and its transcript are its own.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from clew.app.agent_hooks import AgentHooks
from clew.app.agent_story import Tale
from clew.app.asking import target_of
from clew.app.attaching import attachments
from clew.app.file_record import file_record
from clew.app.ground import Ground
from clew.app.hands import Hands
from clew.app.judging import Judging
from clew.app.stamps import new_id, now
from clew.app.standing import taken_up
from clew.app.thread import Thread
from clew.catalog.models import Model
from clew.config.environment import for_programs
from clew.context.facts import Fact
from clew.context.nearby import Nearby
from clew.context.opening import Opening
from clew.context.prompts import Prompts
from clew.context.system_prompt import agent_prompt
from clew.context.tool_listing import listing_fact, told
from clew.engine.conversation import Conversation, Inbox, Speaker
from clew.engine.deps import Deps, Emit, Question, Verdict
from clew.engine.events import EngineEvent, FromAgent, TurnEnded
from clew.engine.hooked import entries
from clew.engine.measuring import Measure
from clew.engine.requests import Requests
from clew.engine.story import Story
from clew.engine.toolset import SessionTools
from clew.messages.history import History
from clew.permissions.modes import MODES
from clew.permissions.request import Mode
from clew.session.beside import Beside
from clew.subagents.offer import mode_of, offered, refused
from clew.subagents.specs import Spec
from clew.subagents.worktree import Worktree
from clew.tools.base import Surroundings, ToolSession
from clew.tools.delegate import Agents
from clew.tools.limits import limits_from
from clew.tools.registry import Toolbox
from clew.transcript.agents import AgentMetadata
from clew.transcript.load import Loaded
from clew.transcript.record import AgentRecorder

Json: TypeAlias = dict[str, Any]
Ask: TypeAlias = Callable[[Question], Awaitable[Verdict]]


class Crew(Struct, frozen=True, kw_only=True):
    """What every agent of a session is made of."""

    ground: Ground
    thread: Thread
    hands: Hands
    requests: Requests
    opening: Opening
    ask: Ask
    # The session's own; what it may spend and touch, its agents may.
    deps: Deps


class Birth(Struct, frozen=True, kw_only=True):
    """Which agent is begun, by whom and where."""

    agent_id: str
    spec: Spec
    description: str
    tool_use_id: str
    model: Model
    cwd: str
    name: str = ""
    parent_id: str = ""
    depth: int = 1
    worktree: Worktree | None = None
    # What it has said already, where it goes on.
    loaded: Loaded | None = None


class Agent:
    """`turn` has it do a piece of work; the rest is for whoever looks on."""

    def __init__(
        self,
        crew: Crew,
        birth: Birth,
        heard: Emit,
        agents: Agents | None,
        listing: Callable[[History], Fact | None],
    ) -> None:
        self.birth = birth
        self._listing = listing if agents is not None else nothing
        self.recorder = recorder_of(crew, birth)
        loaded = birth.loaded
        self._story = Story(self.recorder, History(loaded.messages if loaded else ()))
        self._crew = crew
        self._heard = heard
        self.spending = Beside(crew.thread.spending, birth.agent_id)
        self.tale = Tale(crew.hands.tool_session.tasks, lambda: self.spending.spent)
        self._tools = tool_session(crew, birth, self._story, agents)
        self._inbox = Inbox()
        toolbox = toolbox_of(crew, birth.spec, may_delegate=agents is not None)
        self._hooks = AgentHooks(
            crew.hands.hooks,
            agent_id=birth.agent_id,
            kind=birth.spec.name,
            transcript=self.recorder.transcript,
            where=lambda: self._tools.cwd,
        )
        self._requests = requests_of(crew, birth, self.recorder, toolbox)
        self._deps = deps_of(
            crew,
            birth,
            self._story,
            self._requests,
            toolbox,
            self._tools,
            self.spending,
            self._hooks,
            self._inbox,
        )
        self.conversation = Conversation(self._deps, self._inbox)

    @property
    def mode(self) -> Mode:
        return mode_in(self._crew, self.birth.spec)

    @property
    def history(self) -> History:
        return self._story.history

    async def turn(self, words: str) -> TurnEnded:
        """Does what `words` ask; all around it is told with the first of them."""
        context = [] if len(self._story.history) else await self._surroundings()
        first = self.birth.spec.first_words if context else ""
        return await self.conversation.submit(
            f"{first}\n\n{words}" if first else words,
            self._emit,
            said_by=self._speaker(),
            context=context,
        )

    async def _emit(self, event: EngineEvent) -> None:
        birth = self.birth
        self.tale.hear(event)
        await self._heard(
            FromAgent(
                agent_id=birth.agent_id,
                kind=birth.spec.name,
                description=birth.description,
                tool_use_id=birth.tool_use_id,
                event=event,
            )
        )

    def hear(self, words: str) -> None:
        """Something said while it works."""
        self.conversation.say(words, self._speaker())

    def _speaker(self) -> Speaker:
        return Speaker(source="system", mode=self.mode)

    async def _surroundings(self) -> list[Json]:
        said = await self._hooks.started(self._emit)
        opening = self._crew.opening
        facts = await opening.facts(
            model=self.birth.model.id, day=now()[:10], cwd=Path(self.birth.cwd)
        )
        if not self.birth.spec.reads_memory:
            facts = [fact for fact in facts if fact.payload["type"] != "instructions"]
        listing = listing_fact(told(()), self._requests.deferred())
        return [
            *attachments([*facts, *filter(None, [listing, self._listing(self.history)])]),
            *entries(self._deps, said),
        ]


def nothing(_: History) -> Fact | None:
    """An agent that may begin no other is told of none."""
    return None


def recorder_of(crew: Crew, birth: Birth) -> AgentRecorder:
    recorder = crew.thread.recorder.of_agent(birth.agent_id)
    recorder.moved_to(birth.cwd)
    recorder.describe(metadata(birth))
    if birth.loaded is not None:
        recorder.resume(birth.loaded)
    return recorder


def metadata(birth: Birth, **more: Any) -> AgentMetadata:
    """What is kept beside the transcript, so that the agent can go on as what it is."""
    optional = {
        "name": birth.name,
        "parentAgentId": birth.parent_id,
        "worktreeBranch": "" if birth.worktree is None else birth.worktree.branch,
        "worktreeBase": "" if birth.worktree is None else birth.worktree.base,
        "worktreeRepository": "" if birth.worktree is None else birth.worktree.repository,
    }
    known = {key: value for key, value in optional.items() if value}
    return AgentMetadata(
        agent_type=birth.spec.name,
        worktree_path=None if birth.worktree is None else birth.worktree.path,
        description=birth.description,
        tool_use_id=birth.tool_use_id,
        more={
            "isBuiltIn": birth.spec.origin == "built-in",
            "spawnDepth": birth.depth,
            "model": birth.model.id,
            "cwd": birth.cwd,
            **known,
            **more,
        },
    )


def tool_session(crew: Crew, birth: Birth, story: Story, agents: Agents | None) -> ToolSession:
    """Its own shell folder, list and reads; the session's walls, servers and tasks."""
    shared = crew.hands.tool_session
    made = ToolSession(
        cwd=birth.cwd,
        launcher=shared.launcher,
        spill_folder=shared.spill_folder,
        environment=for_programs(crew.ground.environ),
        limits=limits_from(crew.ground.environment.number),
        may_read=shared.may_read,
        ask_model=shared.ask_model,
        tasks=shared.tasks,
        own=shared.own,
        ask_service=shared.ask_service,
    )
    made.in_conversation = story.holds
    made.env_file = shared.env_file
    made.sandbox = shared.sandbox
    made.agents = agents
    return made


def toolbox_of(crew: Crew, spec: Spec, *, may_delegate: bool) -> Toolbox:
    there = {tool.name: tool for tool in crew.hands.toolbox}
    names = offered(spec, there, may_delegate=may_delegate)
    return Toolbox([there[name] for name in names], crew.ground.began.settings)


def requests_of(crew: Crew, birth: Birth, recorder: AgentRecorder, toolbox: Toolbox) -> Requests:
    service, template = crew.ground.service, crew.requests.template
    definitions = toolbox.definitions()
    made = replace(
        template,
        model=birth.model.id,
        system=agent_prompt(birth.spec.prompt, [tool["name"] for tool in definitions]),
        tools=definitions,
        effort=birth.spec.effort or template.effort,
        agent_id=birth.agent_id,
    )
    beginning = taken_up(
        made,
        crew.ground.options,
        Prompts(crew.ground.began.places.own / "prompts"),
        recorder,
        birth.loaded,
        service.catalog,
    )
    return Requests(
        beginning.request,
        target_of(birth.model, service.provider.endpoint),
        lambda: beginning.tools_of(toolbox.definitions()),
    )


def mode_in(crew: Crew, spec: Spec) -> Mode:
    """The mode an agent works in at this moment."""
    rules = crew.ground.rules
    word = mode_of(
        spec,
        rules.mode,
        is_trusted=rules.standing.is_trusted,
        may_bypass=crew.ground.options.may_bypass,
    )
    return next(mode for mode in MODES if mode == word)


def deps_of(
    crew: Crew,
    birth: Birth,
    story: Story,
    requests: Requests,
    toolbox: Toolbox,
    session: ToolSession,
    spending: Beside,
    hooks: AgentHooks,
    inbox: Inbox,
) -> Deps:
    ground, service = crew.ground, crew.ground.service
    nearby = Nearby(ground.environ, Path(birth.cwd), story.history)
    judge = Judging(
        ground.rules,
        story,
        lambda: session.cwd,
        ask_model=crew.thread.side.ask_model,
        spared=crew.hands.sandbox.spared,
        secrets=ground.secrets,
        mode=lambda: mode_in(crew, birth.spec),
        denied=refused(birth.spec),
    )

    def beside(results: Sequence[Json]) -> list[Json]:
        return attachments(nearby.beside(results)) if birth.spec.reads_memory else []

    return replace(
        crew.deps,
        story=story,
        request=requests,
        answer=lambda: service.answering(ground.options.fallback_models),
        tools=tools_of(crew, birth, toolbox, session),
        judge=judge,
        review=judge.review,
        ask=asking(crew.ask, birth),
        arrived=inbox.take,
        new_id=new_id,
        refresh=tuple,
        measured=Measure(service.provider.count_tokens, service.catalog),
        beside=beside,
        latecomers=nobody_late,
        session=spending,
        monotonic_s=time.monotonic,
        max_rounds=birth.spec.max_turns,
        hooks=hooks,
        where=lambda: session.cwd,
    )


async def nobody_late() -> list[Json]:
    """Servers that are on their way were waited for before the agent was begun."""
    return []


def tools_of(crew: Crew, birth: Birth, toolbox: Toolbox, session: ToolSession) -> SessionTools:
    ground, hands = crew.ground, crew.hands
    return SessionTools(
        toolbox,
        session,
        lambda: Surroundings(
            model=birth.model.id,
            interactive=not ground.options.is_print,
            tools=tuple(toolbox),
            mcp_clients=hands.mcp.clients(),
        ),
        secrets=ground.secrets,
        file_record=file_record(ground.began.places.config_home, crew.thread.recorder)
        if ground.options.persists
        else None,
    )


def asking(ask: Ask, birth: Birth) -> Ask:
    """Who is asked is told whose call it is."""

    async def asked(question: Question) -> Verdict:
        return await ask(replace(question, agent_id=birth.agent_id, agent=birth.description))

    return asked

"""A subagent: a separate conversation with the same kinds of parts as the session."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from clew.agent.context.facts import (
    Fact,
    find_listed_tools,
    make_attachments,
    make_tool_listing_fact,
)
from clew.agent.conversation import Conversation, Speaker
from clew.agent.deps import Emit
from clew.agent.events import EngineEvent, FromAgent, TurnEnded
from clew.agent.hooked import make_hook_entries
from clew.agent.subagents.worktree import Worktree
from clew.agent.tools.base import Agents
from clew.core.json_object import Json
from clew.core.ledger.state import SideLedger
from clew.core.messages.history import History
from clew.parts.agents.agent_parts import (
    Birth,
    Crew,
    Listing,
    deps_of,
    find_mode,
    requests_of,
    thread_of,
    tools_of,
)
from clew.parts.agents.mail import Mailbox, Tale
from clew.parts.agents.places import make_memory_fact
from clew.parts.agents.shared import AgentHooks, hooks_of, make_opening_fact
from clew.parts.plugins.part import managed_hooks_only
from clew.permissions.request import Mode
from clew.record.transcript.agent_record import AgentRecorder
from clew.record.transcript.agents import AgentMetadata
from clew.record.transcript.belongings import SHARED_WITH
from clew.system.clock import get_timestamp

# How often in a row a TeammateIdle hook may keep an idle agent working.
MOST_ASKED = 3


class Subagent:
    """A subagent. `turn` processes a prompt; `hear` delivers messages during a turn."""

    def __init__(
        self,
        crew: Crew,
        birth: Birth,
        heard: Emit,
        agents: Agents | None,
        listing: Listing,
    ) -> None:
        self.birth = birth
        self._crew = crew
        self._heard = heard
        self.recorder = recorder_of(crew, birth)
        self.spending = SideLedger(crew.context.thread.spending, birth.agent_id)
        thread = thread_of(crew, birth, self.recorder, self.spending)
        tools = tools_of(crew, birth, thread, agents)
        self._listing = nothing if tools.toolbox.get("Agent") is None else listing
        self._story, self._tools = thread.story, tools.session
        self.tale = Tale(self._tools.background.tasks, lambda: self.spending.spent)
        self._hooks = AgentHooks(
            crew.context.hooks,
            agent_id=birth.agent_id,
            kind=birth.spec.name,
            transcript=self.recorder.transcript,
            where=lambda: self._tools.cwd,
            is_heard=not birth.is_hooks_own,
            effort=birth.spec.effort,
        )
        self._requests = requests_of(crew, birth, self.recorder, tools.toolbox)
        inbox = Mailbox(self.recorder, goes_on=birth.loaded is not None)
        self._deps = deps_of(
            crew, birth, thread, tools, self._requests, self._hooks, inbox, self._listing
        )
        self.conversation = Conversation(self._deps, inbox)

    @property
    def mode(self) -> Mode:
        return find_mode(self._crew, self.birth.spec)

    @property
    def history(self) -> History:
        return self._story.history

    def begin_with(self, opening_entries: Sequence[Json]) -> None:
        """Copy entries from another conversation, so that the agent continues from them."""
        self._story.add(opening_entries)
        if opening_entries:
            birth = self.birth = replace(
                self.birth, begins_behind=str(opening_entries[-1].get("uuid", ""))
            )
            self.recorder.describe(make_metadata(birth))

    async def turn(self, words: str) -> TurnEnded:
        """Run a turn for the prompt `words`, with the definition's MCP servers and hooks active."""
        servers, hooks = self.birth.servers, self._crew.context.hooks
        own = hooks_of(self.birth.spec, self.birth.agent_id)
        if not managed_hooks_only(self._crew.context.ground.rules.standing.layers):
            hooks.add(own)
        try:
            await servers.wake()
            return await self._turn(words)
        finally:
            for source in {hook.source for hook in own}:
                hooks.remove(source)
            await servers.rest()

    async def _turn(self, words: str) -> TurnEnded:
        """Run a turn for the prompt `words`.

        In the agent's first turn, also send the context facts.
        """
        context = [] if len(self._story.history) else await self._surroundings()
        first = self.birth.spec.first_words if context else ""
        ended = await self.conversation.submit(
            f"{first}\n\n{words}" if first else words,
            self._emit,
            said_by=self._speaker(),
            context=context,
        )
        ask_count = 0
        while not ended.is_error:
            if await self._has_more():
                ended = await self.conversation.answer_unheard(self._emit)
                continue
            next_prompt = await self._may_wait() if ask_count < MOST_ASKED else ""
            if not next_prompt:
                break
            ask_count += 1
            ended = await self.conversation.submit(next_prompt, self._emit, said_by=self._speaker())
        return ended

    async def _may_wait(self) -> str:
        name = self.birth.name
        team = self.recorder.writer.team_name or ""
        return await self._hooks.idle(name, team, self._emit) if name else ""

    async def _has_more(self) -> bool:
        """Wait for the agent's own subagents to end. Return whether there is undelivered news."""
        tasks, owner = self._tools.background.tasks, self.birth.agent_id
        await tasks.ended("agent", owner=owner)
        return self.conversation.has_unheard or tasks.has_news("agent", owner=owner)

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

    async def hear(self, words: str) -> None:
        """Deliver a message while the agent works. The message is recorded when this returns."""
        self.conversation.say(words, self._speaker())
        await self.recorder.durable()

    def _speaker(self) -> Speaker:
        return Speaker(source="system", mode=self.mode)

    async def _surroundings(self) -> list[Json]:
        outcome = await self._hooks.started(self._emit)
        facts = await self._facts()
        return [
            *make_attachments([fact for fact in facts if fact]),
            *make_hook_entries(self._deps, outcome),
        ]

    async def _facts(self) -> list[Fact | None]:
        """Return the context facts for the agent's first turn."""
        crew, spec = self._crew, self.birth.spec
        ground = crew.context.ground
        facts = await crew.opening.facts(
            model=self.birth.model.id, day=get_timestamp()[:10], cwd=Path(self.birth.cwd)
        )
        if not spec.reads_memory:
            facts = [fact for fact in facts if fact.payload["type"] != "instructions"]
        skills, has_skills = crew.skills, self._requests.offers("Skill")
        return [
            *facts,
            make_tool_listing_fact(find_listed_tools(()), self._requests.deferred()),
            self._listing(self.history),
            skills.news(self.history) if has_skills else None,
            *self.birth.servers.facts(),
            await make_opening_fact(skills, spec.skills),
            make_memory_fact(spec, ground.began.places, ground.gate),
        ]


def nothing(_: History) -> Fact | None:
    """Return None: an agent that may not start other agents needs no list of agent types."""
    return None


def recorder_of(crew: Crew, birth: Birth) -> AgentRecorder:
    recorder = AgentRecorder(crew.context.thread.recorder, birth.agent_id)
    recorder.moved_to(birth.cwd)
    recorder.describe(make_metadata(birth))
    if birth.loaded is not None:
        recorder.resume(birth.loaded)
    if birth.name:
        crew.context.thread.recorder.join_team()
        recorder.join_team(birth.name)
    return recorder


def make_checkout_fields(tree: Worktree | None) -> Json:
    """Return the fields that record a worktree, except for its path."""
    if tree is None:
        return {}
    return {
        "worktreeBranch": tree.branch,
        "worktreeBase": tree.base,
        "worktreeRepository": tree.repository,
    }


def make_metadata(birth: Birth, **fields: Any) -> AgentMetadata:
    """Return the metadata that is needed to resume an agent from its transcript."""
    optional = {
        "name": birth.name,
        "parentAgentId": birth.parent_id,
        "beginsBehind": birth.begins_behind,
        SHARED_WITH: birth.shared_with,
        **make_checkout_fields(birth.worktree),
    }
    optional_fields = {key: value for key, value in optional.items() if value}
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
            **optional_fields,
            **fields,
        },
    )

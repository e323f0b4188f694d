"""MCP servers that an agent brings along in its definition: begun with it, ended when it rests.

They are this agent's alone. What of a definition may start programs is decided in `agent_places`; an
administrator's lists hold here as for every server.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from clew.agent.calls import BoundCall
from clew.agent.context.facts import Fact, make_instructions_fact
from clew.agent.deps import Emit
from clew.agent.hooks.handlers import Hook, read_hooks
from clew.agent.hooks.outcome import NOTHING, HookOutcome
from clew.agent.hooks.run import SessionHooks
from clew.agent.subagents.offer import is_named
from clew.agent.subagents.specs import AgentSpec
from clew.agent.tools.base import Tool
from clew.core.json_object import Json
from clew.core.messages.errors import ClewError
from clew.core.messages.text import wrap_in_tag
from clew.parts.context import Ground
from clew.parts.mcp.part import Connected, is_denied
from clew.parts.mcp.scopes import ServerEntry, ServerListing, settle_entries
from clew.parts.skills.part import SessionSkills
from clew.parts.skills.tool import LoadedSkill

# The session's hooks as a conversation beside it has them: told whose event it is, and where.


# Nobody typed anything, and what begins and ends is the session's own affair.
NOT_ITS_OWN = frozenset({"UserPromptSubmit", "StopFailure", "SessionStart"})


def hooks_of(spec: AgentSpec, agent_id: str) -> list[Hook]:
    """What a definition wants called while this agent works; its end is an event of an agent's."""
    hook_settings = {
        ("SubagentStop" if name == "Stop" else name): v for name, v in spec.hooks.items()
    }
    hooks = read_hooks(hook_settings, source=f"agent:{agent_id}").hooks
    return [replace(hook, agent_id=agent_id) for hook in hooks]


class AgentHooks:
    """An agent's end is an event of its own name."""

    def __init__(
        self,
        hooks: SessionHooks,
        *,
        agent_id: str,
        kind: str,
        transcript: Path,
        where: Callable[[], str],
        is_heard: bool = True,
        effort: str | None = None,
    ) -> None:
        self._is_heard = is_heard
        self._hooks = hooks
        self._about: Json = {"agent_id": agent_id, "agent_type": kind}
        if effort is not None:
            self._about["effort"] = {"level": effort}
        self._transcript = str(transcript)
        self._where = where

    async def fire(
        self, event: str, fields: Json, emit: Emit, call: BoundCall | None = None, /
    ) -> HookOutcome:
        if event in NOT_ITS_OWN or not self._is_heard:
            return NOTHING
        fields = {**self._about, "cwd": self._where(), **fields}
        if event == "Stop":
            event = "SubagentStop"
            fields["agent_transcript_path"] = self._transcript
        if isinstance(fields.get("tool_input"), dict):
            fields["tool_input"] = self._placed(fields["tool_input"])
        return await self._hooks.fire(event, fields, emit, call)

    def _placed(self, hook_input: Json) -> Json:
        """A call's input with its file named from the agent's own folder, not the session's."""
        path = hook_input.get("file_path")
        if not isinstance(path, str) or path.startswith("~"):
            return hook_input
        return hook_input | {"file_path": os.path.normpath(Path(self._where(), path))}

    async def waiting(self, _: Emit, /) -> HookOutcome:
        """What hooks in the background say is for the session."""
        return NOTHING

    async def idle(self, name: str, emit: Emit) -> str:
        """Whether one that others know by a name may wait; else what it is to do first."""
        fields = {**self._about, "teammate_name": name, "team_name": "session"}
        outcome = await self._hooks.fire("TeammateIdle", fields, emit)
        return "" if outcome.block is None else outcome.block or "go on"

    async def started(self, emit: Emit) -> HookOutcome:
        if not self._is_heard:
            return NOTHING
        return await self._hooks.fire("SubagentStart", dict(self._about), emit)


class AgentServers:
    """Without servers all of it is nothing. What it begins, `rest` ends."""

    def __init__(self, ground: Ground, mcp: Connected, spec: AgentSpec) -> None:
        self._mcp = mcp
        self._rules = ground.rules
        self._spec = spec
        self._found = ServerListing()
        if spec.servers:
            self._found = found_of(ground, spec)
        self._servers = mcp.separate() if self._found.servers else None
        self._is_awake = False

    async def wake(self) -> None:
        """Begins them, and waits as long as a first request waits for servers."""
        servers = self._servers
        if servers is None or self._is_awake:
            return
        self._is_awake = True
        if len(servers):
            for server in servers.all():
                await servers.reconnect(server.name)
        else:
            servers.add(self._found.servers)
        await servers.settled(self._mcp.most_s)

    async def rest(self) -> None:
        if self._servers is not None:
            self._is_awake = False
            await self._servers.aclose()

    def tools(self) -> Sequence[Tool[Any]]:
        """What they offer, as far as neither the definition nor a rule says no."""
        offered = () if self._servers is None else self._servers.tools()
        return [
            tool
            for tool in offered
            if not is_denied(self._rules, tool.name)
            and not is_named(tool.name, self._spec.disallowed, is_whole_tool=True)
        ]

    def facts(self) -> list[Fact | None]:
        """What the agent is told of them: what they say about their use, and which are not there."""
        clients = () if self._servers is None else self._servers.all()
        words = {client.name: client.instructions for client in clients if client.instructions}
        names = {client.name for client in self._mcp.clients()}
        missing = [
            f"{name}: the session has no such server"
            for name in self._spec.named_servers
            if name not in names
        ]
        missing += [f"{entry.name}: {entry.held}" for entry in self._found.held]
        missing += self._found.faults
        missing += [
            f"{client.name}: {client.problem or client.state}"
            for client in clients
            if not is_there(client)
        ]
        return [make_instructions_fact(words), missing_fact(missing)]


def is_there(server: Any) -> bool:
    return bool(server.state == "ready")


def found_of(ground: Ground, spec: AgentSpec) -> ServerListing:
    """The servers of a definition; where the command line names the only ones, none of them."""
    standing, options = ground.rules.standing, ground.options
    is_kept_out = options.is_bare or options.strict_mcp_config
    reason = "only servers of the command line are begun" if is_kept_out else ""
    return settle_entries(
        [
            ServerEntry(
                name=name,
                scope="cli",
                source=spec.where or f"agent {spec.name}",
                value=value,
                held=reason,
                is_literal=spec.origin == "host",
            )
            for name, value in spec.servers.items()
        ],
        standing.layers,
        standing.settings,
        standing.environ,
    )


def missing_fact(missing: Sequence[str]) -> Fact | None:
    if not missing:
        return None
    lines = "\n".join(f"- {line}" for line in missing)
    words = f"These MCP servers of yours are not there, so go on without them:\n{lines}"
    payload = {"type": "agent_servers_missing", "servers": list(missing)}
    return Fact(payload=payload, rendered=(wrap_in_tag("system-reminder", f"\n{words}\n"),))


# The skills of a session as an agent has them: their words, and nothing that they would lend.


class AgentSkills:
    """A `Keeper`."""

    def __init__(self, skills: SessionSkills) -> None:
        self._skills = skills

    def fault(self, name: str) -> str:
        return self._skills.fault(name)

    async def load(self, name: str, arguments: str) -> LoadedSkill:
        return await self._skills.load(name, arguments, lends=False)

    def search(self, query: str) -> Sequence[tuple[str, str]]:
        return self._skills.search(query)


async def make_opening_fact(skills: SessionSkills, names: Sequence[str]) -> Fact | None:
    """What an agent knows from the beginning: the skills that its definition names, as far as they
    are there."""
    texts = []
    for name in names:
        try:
            loaded = await skills.load(name, "", lends=False)
        except (ClewError, OSError) as error:
            texts.append(f"The skill {name} could not be loaded: {error}")
        else:
            texts.append(f"The skill {name}:\n\n{loaded.text}")
    if not texts:
        return None
    words = wrap_in_tag("system-reminder", "\n" + "\n\n".join(texts) + "\n")
    return Fact(payload={"type": "agent_skills", "skills": list(names)}, rendered=(words,))

"""An agent's hooks, skills and MCP servers.

The servers from the agent's definition are started when the agent begins to work and stopped when
it is idle; no other agent can use them. `places` decides whether a definition may start programs.
Administrators' server lists apply here as well.
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
from clew.parts.mcp.part import Connected
from clew.parts.mcp.scopes import ServerEntry, ServerListing, settle_entries
from clew.parts.skills.part import SessionSkills
from clew.parts.skills.tool import LoadedSkill

# The session's hooks as seen by an agent, with the agent's identity and folder.


# Events of the session only: the user submits no prompts to an agent, and the session reports its
# own start and failures.
NOT_ITS_OWN = frozenset({"UserPromptSubmit", "StopFailure", "SessionStart"})


def hooks_of(spec: AgentSpec, agent_id: str) -> list[Hook]:
    """Return the hooks in an agent's definition; `Stop` becomes `SubagentStop`."""
    hook_settings = {
        ("SubagentStop" if name == "Stop" else name): v for name, v in spec.hooks.items()
    }
    hooks = read_hooks(hook_settings, source=f"agent:{agent_id}").hooks
    return [replace(hook, agent_id=agent_id) for hook in hooks]


class AgentHooks:
    """The session's hooks as one agent uses them; the agent's end is a `SubagentStop` event."""

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
        """Return a call's input with its file path resolved from the agent's own folder."""
        path = hook_input.get("file_path")
        if not isinstance(path, str) or path.startswith("~"):
            return hook_input
        return hook_input | {"file_path": os.path.normpath(Path(self._where(), path))}

    def hears(self, event: str) -> bool:
        return event not in NOT_ITS_OWN and self._is_heard and self._hooks.hears(event)

    async def waiting(self, _: Emit, /) -> HookOutcome:
        """Return an empty outcome, because the output of background hooks goes to the session."""
        return NOTHING

    async def idle(self, name: str, team: str, emit: Emit) -> str:
        """Run the TeammateIdle hooks; return what the agent must do before becoming idle, or ""."""
        fields = {**self._about, "teammate_name": name, "team_name": team}
        outcome = await self._hooks.fire("TeammateIdle", fields, emit)
        return "" if outcome.block is None else outcome.block or "go on"

    async def started(self, emit: Emit) -> HookOutcome:
        if not self._is_heard:
            return NOTHING
        return await self._hooks.fire("SubagentStart", dict(self._about), emit)


class AgentServers:
    """The MCP servers in one agent's definition; `wake` starts them, `rest` stops them."""

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
        """Start the servers and wait for them, as before a session's first request."""
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
        """Return the servers' tools, except those that the definition or a rule denies."""
        offered = () if self._servers is None else self._servers.tools()
        return [
            tool
            for tool in offered
            if not self._rules.standing.rules.withholds(tool.name)
            and not is_named(tool.name, self._spec.disallowed, is_whole_tool=True)
        ]

    def facts(self) -> list[Fact | None]:
        """Return the servers' instructions, and a fact about servers that are not available."""
        clients = () if self._servers is None else self._servers.all()
        words = {client.name: client.instructions for client in clients if client.instructions}
        names = {client.name for client in self._mcp.clients()}
        missing = [
            f"{name}: not configured in this session"
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
    """Return the servers in a definition.

    If only servers from the command line are allowed, none of the returned servers may start.
    """
    standing, options = ground.rules.standing, ground.options
    is_kept_out = options.is_bare or options.strict_mcp_config
    reason = "only servers from the command line are allowed" if is_kept_out else ""
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
    words = f"Some of your MCP servers are not available; continue without them:\n{lines}"
    payload = {"type": "agent_servers_missing", "servers": list(missing)}
    return Fact(payload=payload, rendered=(wrap_in_tag("system-reminder", f"\n{words}\n"),))


# The session's skills as seen by an agent: their text, without extra permissions.


class AgentSkills:
    """The session's skills as one agent uses them; implements `Keeper`."""

    def __init__(self, skills: SessionSkills) -> None:
        self._skills = skills

    def fault(self, name: str) -> str:
        return self._skills.fault(name)

    async def load(self, name: str, arguments: str) -> LoadedSkill:
        return await self._skills.load(name, arguments, lends=False)

    def search(self, query: str) -> Sequence[tuple[str, str]]:
        return self._skills.search(query)


async def make_opening_fact(skills: SessionSkills, names: Sequence[str]) -> Fact | None:
    """Load the skills that an agent's definition names; return them as a fact, None without any."""
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

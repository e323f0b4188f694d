"""MCP servers that an agent brings along in its definition: begun with it, ended when it rests.

They are this agent's alone. What of a definition may start programs is decided in `agent_places`; an
administrator's lists hold here as for every server.
"""

from collections.abc import Sequence
from typing import Any

from clew.app.ground import Ground
from clew.app.mcp import Connected, denied
from clew.context.facts import Fact
from clew.context.server_facts import instructions_fact
from clew.mcp.scopes import Entry, Found, settled
from clew.messages.wording import tagged
from clew.subagents.offer import is_named
from clew.subagents.specs import Spec
from clew.tools.base import Tool


class AgentServers:
    """Without servers all of it is nothing. What it begins, `rest` ends."""

    def __init__(self, ground: Ground, mcp: Connected, spec: Spec) -> None:
        self._mcp = mcp
        self._rules = ground.rules
        self._spec = spec
        self._found = Found()
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
            if not denied(self._rules, tool.name)
            and not is_named(tool.name, self._spec.disallowed, whole=True)
        ]

    def facts(self) -> list[Fact | None]:
        """What the agent is told of them: what they say about their use, and which are not there."""
        clients = () if self._servers is None else self._servers.all()
        words = {one.name: one.instructions for one in clients if one.instructions}
        there = {one.name for one in self._mcp.clients()}
        missing = [
            f"{name}: the session has no such server"
            for name in self._spec.named_servers
            if name not in there
        ]
        missing += [f"{entry.name}: {entry.held}" for entry in self._found.held]
        missing += self._found.faults
        missing += [
            f"{one.name}: {one.problem or one.state}" for one in clients if not is_there(one)
        ]
        return [instructions_fact(words), missing_fact(missing)]


def is_there(server: Any) -> bool:
    return bool(server.state == "ready")


def found_of(ground: Ground, spec: Spec) -> Found:
    """The servers of a definition; where the command line names the only ones, none of them."""
    standing, options = ground.rules.standing, ground.options
    is_kept_out = options.is_bare or options.strict_mcp_config
    held = "only servers of the command line are begun" if is_kept_out else ""
    return settled(
        [
            Entry(
                name=name,
                scope="cli",
                source=spec.where or f"agent {spec.name}",
                value=value,
                held=held,
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
    return Fact(payload=payload, rendered=(tagged("system-reminder", f"\n{words}\n"),))

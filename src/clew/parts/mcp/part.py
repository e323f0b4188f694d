"""The MCP servers of a session: they start in the background, and their tools join the toolbox.

Owns the connection between `mcp` and the rest of clew. A session without servers imports none of
the code for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from clew.agent.context.facts import (
    Fact,
    find_introduced_servers,
    find_listed_tools,
    make_changed_fact,
    make_instructions_fact,
    make_tool_listing_fact,
)
from clew.agent.options import Options
from clew.agent.subagents.offer import has
from clew.agent.subagents.specs import AgentSpec
from clew.agent.tools.registry import Toolbox
from clew.core.json_object import Json
from clew.core.messages.errors import UserError
from clew.core.messages.history import History
from clew.parts.context import NOTHING, HostParts
from clew.parts.mcp.config import ServerConfig, why_forbidden
from clew.parts.mcp.scopes import (
    ServerEntry,
    ServerListing,
    allow_list,
    find_configured_servers,
)
from clew.parts.part import Part, PartContext
from clew.parts.plugins.part import OF_PLUGINS
from clew.permissions.session_rules import CurrentRules
from clew.system.clock import make_id
from clew.system.config.environment import Environment
from clew.system.config.flags import is_feature_on
from clew.system.config.settings import value_in

if TYPE_CHECKING:
    from clew.parts.mcp.server import McpServer
    from clew.parts.mcp.servers import Servers


Named = TypeVar("Named", ServerConfig, ServerEntry)

# The source of servers that the host adds during the session.
HOST = "host"

# How long a host waits for servers that it added.
EXCHANGE_WAIT_S = 30.0


class Connected(Part):
    """The session part for MCP servers. If the session has none, all its results are empty."""

    name = "mcp"
    _context: PartContext
    _toolbox: Toolbox

    def __init__(
        self, listing: ServerListing, first_wait_s: float, brought: HostParts = NOTHING
    ) -> None:
        self.found = listing
        self._brought = brought
        self.servers: Servers | None = None
        self._notices: tuple[str, ...] = (
            *listing.faults,
            *(f"MCP server {entry.name}: {entry.held}" for entry in shown(listing)),
        )
        self.most_s = first_wait_s
        self._first_wait_s: float | None = first_wait_s
        # The longest time that anything waits for the servers; 0 if nothing does.
        self._awaited_s = 0.0
        self._failures: tuple[str, ...] = ()
        self._told_revision = 0
        # The servers whose instructions were sent. None until the first request.
        self._instructed: set[str] | None = None
        # Whether new tools go into the toolbox as soon as servers offer them.
        self._is_open = False
        # Called when the state of a server changes.
        self.listeners: list[Callable[[], object]] = []
        # The functions that get the other notifications of servers, by server name.
        self._hearers: dict[str, Callable[[str, Json], object]] = {}
        # The servers that may be replaced during the session, by the source that added them.
        self._exchanged: dict[str, dict[str, ServerConfig]] = {
            OF_PLUGINS: {s.name: s for s in listing.servers if s.name.startswith(OF_PLUGINS)}
        }

    async def open(self, context: PartContext, /) -> None:
        """Start all servers, without waiting for any of them."""
        self._context = context
        self._toolbox = context.toolbox
        self._told_revision = context.toolbox.revision
        if self.found.servers:
            self.servers = self._made(self._gather)
            self._notices += tuple(self.servers.add(self.found.servers))

    def _is_denied(self, name: str) -> bool:
        """Return whether every call of a tool would be denied; if so, the tool is not offered."""
        ground = self._context.ground
        lead = ground.options.lead
        return ground.rules.standing.rules.withholds(name) or (
            lead is not None and not has(lead, name)
        )

    def _made(self, on_change: Callable[[], None], *, defers: bool = True) -> Servers:
        from clew.parts.mcp.asking import ServerQuestions
        from clew.parts.mcp.connect import make_line_maker
        from clew.parts.mcp.servers import Servers

        context, ground = self._context, self._context.ground
        hooks, rules = context.hooks, ground.rules
        return Servers(
            make_line_maker(
                launcher=ground.launcher,
                transport=ground.service.provider.transport,
                places=ground.began.places,
                cwd=ground.cwd,
                environ=context.tool_session.shell.environment,
                to_host=self._brought.to_host,
                in_host=self._brought.in_host,
            ),
            ServerQuestions(
                context.ask,
                context.judge,
                context.thread.side.ask_model,
                make_id,
                hooks.aside,
                hooks.tell,
                self._brought.elicit,
            ).helpers(lambda: rules.standing.context.roots, self._hear),
            on_change=on_change,
            startup_s=seconds(ground.environment, "mcp_timeout_ms"),
            patience_s=seconds(ground.environment, "mcp_tool_timeout_ms"),
            defers=defers and ground.environment.switch("tool_search"),
        )

    def notices(self) -> tuple[str, ...]:
        return self._notices

    def _hear(self, server: str, method: str, params: Json) -> None:
        hearer = self._hearers.get(server)
        if hearer is not None:
            hearer(method, params)

    def attach(self, config: ServerConfig, hear: Callable[[str, Json], object]) -> str:
        """Start a server that is in no configuration; return an error message, or an empty string.

        `hear` gets the server's notifications that MCP does not define.
        """
        standing = self._context.ground.rules.standing
        denied = value_in(standing.settings, "deniedMcpServers")
        if why := why_forbidden(config, allow_list(standing.layers), denied):
            return why
        if self.servers is None:
            self.servers = self._made(self._gather)
        self._hearers[config.name] = hear
        return "".join(self.servers.add([config]))

    async def detach(self, name: str) -> None:
        """Stop a server that `attach` started."""
        if self._hearers.pop(name, None) is not None and self.servers is not None:
            await self.servers.remove(name)

    def separate(self) -> Servers:
        """Return a new, empty set of servers, whose tools are available only to the caller."""
        return self._made(nothing, defers=False)

    async def exchange(
        self, listing: ServerListing, by: str = HOST
    ) -> tuple[list[str], list[str], dict[str, str]]:
        """Replace the servers that a source (`by`) added before with the servers in `listing`.

        Return the names that were added, the names that were removed, and an error for each name
        that failed.
        """
        before = self._exchanged.get(by, {})
        if self.servers is None:
            self.servers = self._made(self._gather)
        now = {server.name: server for server in listing.servers}
        # A server whose configuration changed is restarted.
        gone = [name for name, was in before.items() if now.get(name) != was]
        for name in gone:
            await self.servers.remove(name)
        kept_names = before.keys() - gone
        errors = {entry.name: entry.held for entry in listing.held}
        added: list[str] = []
        for name, config in now.items():
            if name in kept_names:
                continue
            problems = self.servers.add([config])
            if problems:
                errors[name] = problems[0]
            else:
                added.append(name)
        self._exchanged[by] = {name: now[name] for name in (*kept_names, *added)}
        await self.servers.settled(EXCHANGE_WAIT_S)
        for server in self.servers.all():
            if server.name in added and server.problem:
                errors[server.name] = server.problem
        self._gather()
        return added, gone, errors

    async def exchange_plugins(
        self, listing: ServerListing
    ) -> tuple[list[str], list[str], dict[str, str]]:
        """Replace the servers that come from plugins. The result is that of `exchange`."""
        mine = ServerListing(servers=of_plugins(listing.servers), held=of_plugins(listing.held))
        others = [s for s in self.found.servers if s not in of_plugins(self.found.servers)]
        entries = [s for s in self.found.held if s not in of_plugins(self.found.held)]
        self.found = replace(
            self.found, servers=(*others, *mine.servers), held=(*entries, *mine.held)
        )
        if self.servers is None and not mine.servers:
            return [], [], {entry.name: entry.held for entry in mine.held}
        return await self.exchange(mine, OF_PLUGINS)

    def _gather(self) -> None:
        """Update the toolbox to the tools that the servers offer now.

        Do nothing before the first request: until then, the order of the tools, which is
        part of the cached prefix, would depend on the order in which the servers started.
        """
        for listener in self.listeners:
            listener()
        if self.servers is None or not self._is_open:
            return
        tools = [tool for tool in self.servers.tools() if not self._is_denied(tool.name)]
        now = {tool.name: tool for tool in tools}
        before = {tool.name: tool for tool in self._toolbox if tool.is_mcp}
        gone = [name for name in before if name not in now]
        new = [tool for tool in tools if before.get(tool.name) is not tool]
        if gone:
            self._toolbox.lose(gone)
        if new:
            self._toolbox.gain(new)

    async def facts(self, history: History, /) -> Sequence[Fact]:
        """Return the facts for the next request.

        The first call waits for the servers, for a limited time. It doesn't if there is no key,
        because no request will be sent.
        """
        service, model = self._context.ground.service, self._context.speaking.model
        if (
            self.servers is not None
            and self._first_wait_s is not None
            and service.can_ask(model.id)
        ):
            most_s, self._first_wait_s = self._first_wait_s, None
            try:
                await self.wait(most_s)
            finally:
                # If the user interrupts the wait, the next request is sent without waiting.
                self._stop_waiting()
        facts = [*self._instructions(history), make_changed_fact(self._changed())]
        if self._told_revision != self._toolbox.revision:
            self._told_revision = self._toolbox.revision
            facts.append(
                make_tool_listing_fact(find_listed_tools(history), self._toolbox.deferred())
            )
        return [fact for fact in facts if fact is not None]

    def _stop_waiting(self) -> None:
        """Offer the available tools, and note which servers are missing."""
        self._failures = tuple(
            f"MCP server {server.name}: {server.hindrance} (see /mcp)"
            for server in self.clients()
            if server.state not in ("ready", "disabled")
        )
        self._is_open = True
        self._gather()

    async def wait(self, most_s: float) -> None:
        """Wait for all servers, for a limited time. Meanwhile, `describe_wait` names them."""
        if self.servers is not None:
            self._awaited_s = most_s
            try:
                await self.servers.settled(most_s)
            finally:
                self._awaited_s = 0.0

    def describe_wait(self) -> str:
        """Return a message that names the servers still being waited for, or an empty string."""
        if not self._awaited_s:
            return ""
        names = [server.name for server in self.clients() if not server.is_settled]
        which = "the MCP server" if len(names) == 1 else "the MCP servers"
        return (
            f"Waiting up to {self._awaited_s:g} s for {which} {', '.join(names)}" if names else ""
        )

    def take_failures(self) -> tuple[str, ...]:
        """Return which servers were not ready for the first request, and why.

        Each failure is returned only once.
        """
        failures, self._failures = self._failures, ()
        return failures

    def _instructions(self, history: History) -> list[Fact | None]:
        """Return the instructions that servers provided and that the model has not received yet."""
        words = {s.name: s.instructions for s in self.clients() if s.instructions}
        if not words.keys() - (self._instructed or set()):
            return []
        if self._instructed is None:
            self._instructed = find_introduced_servers(history)
        new = {name: text for name, text in words.items() if name not in self._instructed}
        self._instructed |= set(new)
        return [make_instructions_fact(new)]

    def _changed(self) -> dict[str, list[str]]:
        """Return the resources that changed since they were read, by server.

        Each change is reported only once.
        """
        changed = {}
        for server in self.clients():
            if server.changed_resources:
                changed[server.name] = sorted(server.changed_resources)
                server.changed_resources.clear()
        return changed

    async def settled(self) -> None:
        """Wait for all servers, but no longer than the first request would."""
        await self.wait(self.most_s)

    async def in_host(self) -> None:
        """Wait for the servers inside the host program, which respond at once or not at all."""
        if self.servers is None or not any(s.config.kind == "sdk" for s in self.clients()):
            return
        await self.servers.settled(self._first_wait_s or 0, kind="sdk")
        self._is_open = True
        self._gather()

    async def resource(self, text: str) -> Fact | None:
        """Return the resource that `@server:uri` in a prompt names; None for an unknown server."""
        name, separator, uri = text.partition(":")
        server = None if self.servers is None or not separator else self.servers.get(name)
        if server is None or not uri:
            return None
        from clew.parts.mcp.resource_tools import make_resource_fact

        return await make_resource_fact(server, uri, text)

    async def asked(self, name: str, arguments: Json) -> str:
        """Call a tool on clew's own behalf and return its text.

        Raise `UserError` if the call fails.
        """
        await self.settled()
        if self.servers is None:
            raise UserError("no MCP servers configured")
        from clew.parts.mcp.servers import answer_of

        return await answer_of(self.servers, name, arguments)

    def clients(self) -> tuple[McpServer, ...]:
        return () if self.servers is None else self.servers.all()

    async def aclose(self) -> None:
        if self.servers is not None:
            await self.servers.aclose()


def nothing() -> None:
    """Do nothing when servers change. Owners of separate servers query the tools themselves."""


def of_plugins(items: Iterable[Named]) -> tuple[Named, ...]:
    return tuple(item for item in items if item.name.startswith(OF_PLUGINS))


def shown(listing: ServerListing) -> Iterable[Any]:
    """Return the servers that do not start, except those that the user rejected."""
    return (entry for entry in listing.held if "rejected" not in entry.held)


def servers_of(
    options: Options,
    standing: CurrentRules,
    environment: Environment,
    brought: HostParts = NOTHING,
    plugins: Sequence[ServerEntry] = (),
) -> Connected:
    """Return the part with the session's servers.

    Raise `SettingsError` if --mcp-config is invalid.
    """
    is_on = is_feature_on("mcp", standing.settings, environment)
    listing = find_servers(options, standing, brought, plugins) if is_on else ServerListing()
    return Connected(listing, seconds(environment, "mcp_wait_ms"), brought)


def find_servers(
    options: Options, standing: CurrentRules, brought: HostParts, plugins: Sequence[ServerEntry]
) -> ServerListing:
    return find_configured_servers(
        standing.places,
        standing.layers,
        standing.settings,
        standing.environ,
        arguments=options.mcp_config,
        brought=brought.servers,
        plugins=[*plugins, *of_lead(options.lead)],
        strict=options.strict_mcp_config,
        sources=standing.sources,
    )


def of_lead(spec: AgentSpec | None) -> list[ServerEntry]:
    """Return the servers in the definition of the agent that the session runs as."""
    if spec is None:
        return []
    source = spec.where or f"agent {spec.name}"
    is_literal = spec.origin == "host"
    return [
        ServerEntry(name=name, scope="cli", source=source, value=value, is_literal=is_literal)
        for name, value in spec.servers.items()
    ]


def seconds(environment: Environment, field: str) -> float:
    """Return a time limit in seconds, from an environment variable or its default."""
    return (environment.number(field) or 0) / 1000

"""All MCP servers of a session: started together in the background, stopped with the session.

Owns the servers' tasks. Code waits for a server only on request, and never without a time limit.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any

from clew.agent.tools.base import Tool
from clew.core.json_object import Json
from clew.core.messages.errors import UserError
from clew.parts.mcp import config as names
from clew.parts.mcp.client import Helpers
from clew.parts.mcp.config import ServerConfig
from clew.parts.mcp.content import reply_of
from clew.parts.mcp.resource_tools import (
    ListMcpResourcesTool,
    ReadMcpResourceDir,
    ReadMcpResourceTool,
    RefreshMcpTools,
)
from clew.parts.mcp.server import MakeLine, McpServer
from clew.parts.mcp.tools import CALL_PATIENCE_S, RECONNECT_WAIT_S, McpTool, describe_refusal
from clew.system.jsonrpc.peer import PeerFailure


class Servers:
    """The MCP servers of a session.

    `on_change` is called when the state of a server changes, or what it offers.
    """

    def __init__(
        self,
        make_line: MakeLine,
        helpers: Helpers,
        *,
        on_change: Callable[[], None] = lambda: None,
        startup_s: float | None = None,
        patience_s: float = CALL_PATIENCE_S,
        defers: bool = True,
    ) -> None:
        self._make_line = make_line
        self._helpers = helpers
        self._on_change = on_change
        self._startup_s = startup_s
        self._patience_s = patience_s
        # Whether the model receives only a tool's name until it searches for it.
        self._defers = defers
        self._servers: dict[str, McpServer] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._tools: dict[str, tuple[object, tuple[McpTool, ...]]] = {}
        self._readers = (
            ListMcpResourcesTool(self.all, is_deferred=defers),
            ReadMcpResourceTool(self.all, is_deferred=defers),
            ReadMcpResourceDir(self.all, is_deferred=defers),
        )
        self._refresher = RefreshMcpTools(self.all, is_deferred=defers)

    def __len__(self) -> int:
        return len(self._servers)

    def all(self) -> tuple[McpServer, ...]:
        return tuple(self._servers.values())

    def get(self, name: str) -> McpServer | None:
        return self._servers.get(name)

    def add(self, configs: Iterable[ServerConfig]) -> list[str]:
        """Start these servers. Return an error message for each server that could not be added."""
        problems: list[str] = []
        for config in configs:
            part = names.server_part(config.name)
            same = [name for name in self._servers if names.server_part(name) == part]
            if same:
                problems.append(
                    f"MCP server {config.name}: the name conflicts with {same[0]}; "
                    "rename one of them"
                )
                continue
            server = McpServer(
                config,
                self._make_line,
                self._helpers,
                on_change=self._on_change,
                startup_s=self._startup_s,
            )
            self._servers[config.name] = server
            self._begin(server)
        return problems

    def _begin(self, server: McpServer) -> None:
        self._tasks[server.name] = asyncio.create_task(server.live(), name=f"mcp {server.name}")

    async def settled(self, most_s: float, *, kind: str | None = None) -> tuple[str, ...]:
        """Wait, for a limited time, until every server has connected or failed.

        Return the names of the servers that are still pending.
        """
        meant = [s for s in self._servers.values() if kind in (None, s.config.kind)]
        waiting = [server for server in meant if not server.is_settled]
        if waiting and most_s > 0:
            tasks = [asyncio.ensure_future(server.settled()) for server in waiting]
            try:
                await asyncio.wait(tasks, timeout=most_s)
            finally:
                for task in tasks:
                    task.cancel()
        return tuple(server.name for server in meant if not server.is_settled)

    async def connected(self, name: str, most_s: float) -> str:
        """Wait, for a limited time, for a server's first attempt to connect.

        Return an error message, or an empty string if the server is connected.
        """
        server = self._servers[name]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                while not server.is_settled and server.state != "waiting":
                    await server.moved()
        if server.is_connected:
            return ""
        return server.problem or f"it is still {server.state} after {most_s:g} s"

    def tools(self) -> tuple[Tool[Any], ...]:
        """Return the servers' tools, ordered by server name, then clew's own tools for servers."""
        tools: list[Tool[Any]] = []
        has_resources = False
        for name in sorted(self._servers):
            server = self._servers[name]
            if server.state == "disabled":
                continue
            tools += self._tools_of(server)
            has_resources = has_resources or bool(server.offers.resources)
        if has_resources:
            tools += self._readers
        if tools and self._defers:
            tools.append(self._refresher)
        return tuple(tools)

    def _tools_of(self, server: McpServer) -> tuple[McpTool, ...]:
        """Return a server's tools. The objects are the same until the server's list changes."""
        cached = self._tools.get(server.name)
        if cached is None or cached[0] is not server.offers.tools:
            offers, wanted = server.offers.tools, server.config.model_tools
            is_deferred = self._defers and not server.config.always_load
            tools = tuple(
                McpTool(offer, server, patience_s=self._patience_s, is_deferred=is_deferred)
                for offer in offers
                if wanted is None or offer.tool in wanted
            )
            cached = self._tools[server.name] = (offers, tools)
        return cached[1]

    # -- requests of users and hosts

    async def reconnect(self, name: str) -> None:
        server = self._servers[name]
        await self._end([name])
        server.reset()
        self._begin(server)

    async def toggle(self, name: str, *, enabled: bool) -> None:
        server = self._servers[name]
        await self._end([name])
        if enabled:
            server.enable()
            server.reset()
            self._begin(server)
        else:
            server.disable()

    async def remove(self, name: str) -> None:
        await self._end([name])
        del self._servers[name]
        self._on_change()

    async def aclose(self) -> None:
        """Stop all servers at the same time."""
        await self._end(list(self._tasks))

    async def _end(self, server_names: list[str]) -> None:
        tasks = [self._tasks.pop(name) for name in server_names if name in self._tasks]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def answer_of(servers: Servers, name: str, arguments: Json) -> str:
    """Call a server's tool on clew's own behalf and return its text."""
    offers = {
        offer.name: (offer, server) for server in servers.all() for offer in server.offers.tools
    }
    if name not in offers:
        raise UserError(f"tool {name} not found in the connected MCP servers")
    offer, server = offers[name]
    outcome = await server.call(
        "tools/call",
        {"name": offer.tool, "arguments": arguments},
        patience_s=server.config.timeout_s or CALL_PATIENCE_S,
        wait_s=RECONNECT_WAIT_S,
    )
    if isinstance(outcome, PeerFailure):
        raise UserError(describe_refusal(server.name, outcome, CALL_PATIENCE_S))
    reply = reply_of(outcome.result)
    if reply.is_error:
        raise UserError(reply.words or "the tool failed without an error message")
    return reply.words

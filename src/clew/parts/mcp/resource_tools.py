"""The tools with which the model lists and reads the resources of MCP servers."""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from clew.agent.context.facts import Fact
from clew.agent.tools.base import Input, Tool, ToolContext, ToolError, ToolOutcome, make_failure
from clew.core.json_object import Json
from clew.core.messages.text import format_count
from clew.parts.mcp.catalogue import ResourceOffer
from clew.parts.mcp.content import ServerReply, as_json, blocks_of
from clew.parts.mcp.protocol import as_object
from clew.parts.mcp.server import McpServer
from clew.parts.mcp.tools import CALL_PATIENCE_S, RECONNECT_WAIT_S, describe_refusal, result_of
from clew.system.jsonrpc.peer import PeerAnswer


class ResourceTool(Tool[Input]):
    """Base class of the read-only tools for the servers' resources."""

    is_mcp = True

    def __init__(
        self, servers: Callable[[], tuple[McpServer, ...]], *, is_deferred: bool = False
    ) -> None:
        self._servers = servers
        self.is_deferred = is_deferred

    def is_read_only(self, arguments: Input) -> bool:
        return True


class ListInput(Struct, frozen=True, forbid_unknown_fields=True):
    server: str | None = None


class ListMcpResourcesTool(ResourceTool[ListInput]):
    """The tool that lists the available resources."""

    name = "ListMcpResourcesTool"
    description = "List the resources of MCP servers"
    prompt = (
        "List the resources of the connected MCP servers: documents, tables, records. Pass a resource's "
        "server and URI to ReadMcpResourceTool; fill in any {braces} in the URI."
    )
    input_type = ListInput

    async def call(self, arguments: ListInput, ctx: ToolContext) -> ToolOutcome:
        servers = chosen(self._servers(), arguments.server)
        listed = [
            {
                "server": offer.server,
                "uri": offer.uri,
                "name": offer.name,
                **({"description": offer.description} if offer.description else {}),
                **({"mimeType": offer.mime_type} if offer.mime_type else {}),
            }
            for server in servers
            for offer in server.offers.resources
        ]
        if not listed:
            return ToolOutcome(content="No server offers resources.", tool_use_result=[])
        return ToolOutcome(
            content="\n".join(as_json(resource) for resource in listed),
            tool_use_result=listed,
            display=format_count(len(listed), "resource"),
        )


class ReadResourceInput(Struct, frozen=True, forbid_unknown_fields=True):
    server: str
    uri: str


class ReadMcpResourceTool(ResourceTool[ReadResourceInput]):
    """The tool that reads one resource."""

    name = "ReadMcpResourceTool"
    description = "Read a resource of an MCP server"
    prompt = "Read one resource of an MCP server, given the server's name and the URI."
    input_type = ReadResourceInput

    def title(self, arguments: ReadResourceInput) -> str:
        return f"{arguments.server}:{arguments.uri}"

    async def call(self, arguments: ReadResourceInput, ctx: ToolContext) -> ToolOutcome:
        (server,) = chosen(self._servers(), arguments.server)
        return await read_resource(server, arguments.uri)


class ReadMcpResourceDir(ResourceTool[ReadResourceInput]):
    """The tool that lists the direct children of a resource that is a folder."""

    name = "ReadMcpResourceDir"
    description = "List the resources in a folder of an MCP server"
    prompt = (
        "List the direct children of a folder resource of an MCP server, given the server's name and the "
        "folder's URI. Folders in it have the MIME type inode/directory."
    )
    input_type = ReadResourceInput

    def title(self, arguments: ReadResourceInput) -> str:
        return f"{arguments.server}:{arguments.uri}"

    async def call(self, arguments: ReadResourceInput, ctx: ToolContext) -> ToolOutcome:
        (server,) = chosen(self._servers(), arguments.server)
        children = find_children(server.offers.resources, arguments.uri)
        if not children:
            error = f"The server {server.name} lists no resources below {arguments.uri}."
            return make_failure(error)
        return ToolOutcome(
            content="\n".join(as_json(child) for child in children),
            tool_use_result={"resources": children},
            display=format_count(len(children), "resource"),
        )


def find_children(resources: Iterable[ResourceOffer], folder: str) -> list[Json]:
    """Return the direct children of a folder among a server's resources."""
    start = folder if folder.endswith("/") else f"{folder}/"
    children: dict[str, Json] = {}
    for resource in resources:
        name, separator, _ = resource.uri.removeprefix(start).partition("/")
        if not (resource.uri.startswith(start) and name):
            continue
        if separator:
            child = {"uri": f"{start}{name}", "name": name, "mimeType": "inode/directory"}
            children.setdefault(name, child)
        else:
            mime = {"mimeType": resource.mime_type} if resource.mime_type else {}
            children[name] = {"uri": resource.uri, "name": resource.name, **mime}
    return list(children.values())


class RefreshMcpTools(ResourceTool[ListInput]):
    """The tool that asks connected servers for their tools again."""

    name = "RefreshMcpTools"
    description = "Reload the tools of MCP servers"
    prompt = (
        "Ask the connected MCP servers, or the one named, for their tools again, if they may have changed "
        "without a notification. It connects to no server."
    )
    input_type = ListInput

    async def call(self, arguments: ListInput, ctx: ToolContext) -> ToolOutcome:
        rows = [await refresh_tools(server) for server in chosen(self._servers(), arguments.server)]
        changed = sum(bool(row.get("added") or row.get("removed")) for row in rows)
        return ToolOutcome(
            content="\n".join(as_json(row) for row in rows) or "No servers.",
            tool_use_result=rows,
            display=f"{format_count(len(rows), 'server')}, {changed} changed",
        )


async def refresh_tools(server: McpServer) -> Json:
    """Ask a server for its tools again, and return what changed."""
    before = [offer.tool for offer in server.offers.tools]
    if not server.is_connected:
        return {"server": server.name, "status": "not_connected"}
    failure = await server.relist_tools()
    if failure is not None:
        error = describe_refusal(server.name, failure, CALL_PATIENCE_S)
        return {"server": server.name, "status": "error", "error": error}
    now = [offer.tool for offer in server.offers.tools]
    return {
        "server": server.name,
        "status": "refreshed",
        "toolCount": len(now),
        "added": [name for name in now if name not in before],
        "removed": [name for name in before if name not in now],
    }


async def make_resource_fact(server: McpServer, uri: str, label: str) -> Fact:
    """Read a resource that a prompt names, and return it as a fact."""
    result = await read_resource(server, uri)
    head = f"The user's prompt refers to {label}. The MCP server {server.name} returned:"
    content = result.content
    blocks: Any = (
        f"<system-reminder>\n{head}\n{content}\n</system-reminder>"
        if isinstance(content, str)
        else [{"type": "text", "text": head}, *content]
    )
    payload = {
        "type": "mcp_resource",
        "server": server.name,
        "uri": uri,
        "content": result.tool_use_result,
    }
    return Fact(payload=payload, rendered=(blocks,))


async def read_resource(server: McpServer, uri: str) -> ToolOutcome:
    """Read a resource, for the tool or for an `@server:uri` in a prompt."""
    outcome = await server.call(
        "resources/read", {"uri": uri}, patience_s=CALL_PATIENCE_S, wait_s=RECONNECT_WAIT_S
    )
    if not isinstance(outcome, PeerAnswer):
        return make_failure(describe_refusal(server.name, outcome, CALL_PATIENCE_S))
    contents = as_object(outcome.result).get("contents")
    if not isinstance(contents, list):
        return make_failure(f"The server {server.name} returned a response without contents.")
    await server.watch(uri)
    blocks = blocks_of([{"type": "resource", "resource": content} for content in contents])
    return result_of(ServerReply(blocks=blocks), {"content": contents})


def chosen(servers: tuple[McpServer, ...], name: str | None) -> tuple[McpServer, ...]:
    if name is None:
        return servers
    matches = tuple(server for server in servers if server.name == name)
    if not matches:
        names = ", ".join(server.name for server in servers) or "none"
        raise ToolError(f"MCP server {name} not found; available: {names}")
    return matches

"""The tools with which the model lists and reads the resources of MCP servers."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from clew.agent.context.facts import Fact
from clew.agent.tools.base import Input, Tool, ToolContext, ToolError, ToolOutcome, make_failure
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
            display=f"{len(listed)} resources",
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

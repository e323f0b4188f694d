"""MCP servers for a host: the requests that add them, call their tools and read their resources."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from clew.agent.calls import bind
from clew.core.json_object import Json
from clew.core.messages.errors import UserError
from clew.core.wire import State
from clew.fronts.headless.permission import HostError, HostRequests
from clew.fronts.headless.session_controls import ControlContext, ControlHandlers
from clew.fronts.headless.standing_controls import object_of
from clew.parts.mcp.part import Connected
from clew.parts.mcp.protocol import as_object
from clew.parts.mcp.scopes import find_configured_servers
from clew.parts.mcp.server import McpServer
from clew.parts.mcp.tools import CALL_PATIENCE_S, describe_refusal
from clew.session.session import Session
from clew.system.clock import make_id
from clew.system.jsonrpc.peer import PeerAnswer

# The servers of a session for hosts, and the servers that hosts run themselves.


def to_host(host: HostRequests) -> Callable[[str, Json], Awaitable[Any]]:
    """Return a function that sends a message to a server in the host and returns the answer."""

    async def send(server: str, message: Json) -> Any:
        reply = await host.ask("mcp_message", {"server_name": server, "message": message})
        return reply.get("mcp_response")

    return send


ACTIONS = frozenset({"accept", "decline", "cancel"})


def make_elicit(
    host: HostRequests, *, state: Callable[[State], None], now: Callable[[], State]
) -> Callable[[Json], Awaitable[Json | None]]:
    """Return a function that passes a server's question to the host's user.

    An invalid answer is treated as declining the question.
    """

    async def elicit(about: Json) -> Json | None:
        before = now()
        state("requires_action")
        try:
            answer = await host.ask("elicitation", about)
        except HostError:
            return None  # Not every host knows this request.
        finally:
            state(before)
        content = answer.get("content")
        if answer.get("action") not in ACTIONS:
            return {"action": "decline"}
        if answer["action"] != "accept" or about.get("mode") == "url":
            return {"action": answer["action"]}
        is_form = isinstance(content, dict)
        return {"action": "accept", "content": content} if is_form else {"action": "decline"}

    return elicit


def describe_servers(mcp: Connected) -> list[Json]:
    """Return a complete description of each server."""
    return [whole(server) for server in mcp.clients()]


def whole(server: "McpServer") -> Json:
    from clew.parts.mcp.protocol import name_state

    fields: Json = {
        "name": server.name,
        "status": name_state(server.state),
        "scope": server.config.scope,
        "source": server.config.source,
        "transport": server.config.kind,
        "tools": [
            {
                "name": offer.tool,
                "description": offer.description,
                "annotations": {
                    "readOnly": offer.read_only,
                    "destructive": offer.destructive,
                    "openWorld": offer.open_world,
                },
            }
            for offer in server.offers.tools
        ],
    }
    if server.agreement is not None:
        fields["serverInfo"] = server.agreement.server
    return fields | {"error": server.problem} if server.problem else fields


PREFIX = "mcp__"


async def mcp_set_servers(context: ControlContext, fields: Json) -> Json:
    """Replace the servers that the host added before. The session's own servers remain."""
    session = context.session
    standing = session.rules.standing
    listing = find_configured_servers(
        standing.places,
        standing.layers,
        standing.settings,
        standing.environ,
        arguments=(json.dumps({"mcpServers": object_of(fields, "servers")}),),
        strict=True,
    )
    if listing.faults:
        raise UserError("; ".join(listing.faults))
    added, removed, errors = await session.parts.mcp.exchange(listing)
    return {"added": added, "removed": removed, "errors": errors}


async def mcp_call(context: ControlContext, fields: Json) -> Json:
    """Call a server's tool on behalf of the host, without a turn or a permission request."""
    session = context.session
    name, arguments = fields.get("tool"), fields.get("arguments", {})
    if not (isinstance(name, str) and name.startswith(PREFIX) and isinstance(arguments, dict)):
        raise UserError('mcp_call: "tool" must be mcp__SERVER__TOOL, and "arguments" an object')
    await session.parts.mcp.settled()
    servers = session.parts.mcp.servers
    offered = () if servers is None else servers.tools()
    tool = next((tool for tool in offered if tool.name == name), None)
    if tool is None:
        raise UserError(f"mcp_call: tool {name} not found on any connected server")
    block = {"type": "tool_use", "id": f"toolu_{make_id()}", "name": name, "input": arguments}
    outcome = await session.tools.call(bind(tool, block), message_uuid="", progress=unseen)
    return {"content": outcome.content, "isError": outcome.is_error}


async def mcp_read_resource(context: ControlContext, fields: Json) -> Json:
    """Return a server's resource unchanged."""
    session = context.session
    uri = fields.get("uri")
    if not isinstance(uri, str) or not uri:
        raise UserError("mcp_read_resource: uri: expected a non-empty string")
    await session.parts.mcp.settled()
    server = server_of(session, fields)
    outcome = await server.call("resources/read", {"uri": uri}, patience_s=CALL_PATIENCE_S)
    if not isinstance(outcome, PeerAnswer):
        raise UserError(describe_refusal(server.name, outcome, CALL_PATIENCE_S))
    contents = as_object(outcome.result).get("contents")
    if not isinstance(contents, list):
        raise UserError(f'Server {server.name} returned a result without "contents".')
    return {"contents": contents}


async def mcp_message(context: ControlContext, fields: Json) -> Json:
    """Accept a notification from a server in the host, such as a changed tool list."""
    message = fields.get("message")
    server = server_of(context.session, {"serverName": fields.get("server_name")})
    if server.config.kind != "sdk" or not isinstance(message, dict):
        raise UserError("mcp_message: expected a message from a server that the host runs")
    server.hear(message)
    return {}


def server_of(session: Session, fields: Json) -> McpServer:
    name, servers = fields.get("serverName"), session.parts.mcp.servers
    server = servers.get(name) if servers is not None and isinstance(name, str) else None
    if server is None:
        raise UserError(f"Server not found: {name}")
    return server


async def unseen(_: Any) -> None:
    """Ignore the progress of a call that the host made itself."""


CONTROLS: ControlHandlers = {
    "mcp_set_servers": mcp_set_servers,
    "mcp_call": mcp_call,
    "mcp_read_resource": mcp_read_resource,
    "mcp_message": mcp_message,
}

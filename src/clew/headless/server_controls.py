"""MCP servers as a host puts them in, calls their tools and reads what they offer."""

import json
from typing import Any, TypeAlias

from clew.app.session import Session
from clew.app.stamps import new_id
from clew.headless.standing_controls import object_of
from clew.jsonrpc.peer import Answer
from clew.mcp.protocol import an_object
from clew.mcp.scopes import find
from clew.mcp.server import Server
from clew.mcp.tools import CALL_PATIENCE_S, refused
from clew.messages.errors import UserError

Json: TypeAlias = dict[str, Any]
PREFIX = "mcp__"


async def mcp_set_servers(session: Session, fields: Json) -> Json:
    """These servers, in place of those that came in this way before; the session's own stay."""
    standing = session.rules.standing
    found = find(
        standing.places,
        standing.layers,
        standing.settings,
        standing.environ,
        given=(json.dumps({"mcpServers": object_of(fields, "servers")}),),
        strict=True,
    )
    if found.faults:
        raise UserError("; ".join(found.faults))
    added, removed, errors = await session.mcp.exchange(found)
    return {"added": added, "removed": removed, "errors": errors}


async def mcp_call(session: Session, fields: Json) -> Json:
    """A tool of a server, called by the host itself: no turn, and nobody is asked."""
    name, given = fields.get("tool"), fields.get("arguments", {})
    if not (isinstance(name, str) and name.startswith(PREFIX) and isinstance(given, dict)):
        raise UserError("mcp_call: tool: expected mcp__SERVER__TOOL, and arguments an object")
    await session.mcp.settled()
    servers = session.mcp.servers
    offered = () if servers is None else servers.tools()
    tool = next((tool for tool in offered if tool.name == name), None)
    if tool is None:
        raise UserError(f"mcp_call: there is no tool {name} of a server that is connected")
    block = {"type": "tool_use", "id": f"toolu_{new_id()}", "name": name, "input": given}
    outcome = await session.tools.call(tool, block, message_uuid="", progress=unseen)
    return {"content": outcome.content, "isError": outcome.is_error}


async def mcp_read_resource(session: Session, fields: Json) -> Json:
    """What a server gives for a URI, as it gives it."""
    uri = fields.get("uri")
    if not isinstance(uri, str) or not uri:
        raise UserError("mcp_read_resource: uri: expected a text")
    await session.mcp.settled()
    server = server_of(session, fields)
    outcome = await server.call("resources/read", {"uri": uri}, patience_s=CALL_PATIENCE_S)
    if not isinstance(outcome, Answer):
        raise UserError(refused(server.name, outcome, CALL_PATIENCE_S))
    contents = an_object(outcome.result).get("contents")
    if not isinstance(contents, list):
        raise UserError(f"The server {server.name} gave an answer without contents.")
    return {"contents": contents}


def mcp_message(session: Session, fields: Json) -> Json:
    """What a server that the host holds says unasked: that a list of its has changed, for one."""
    message = fields.get("message")
    server = server_of(session, {"serverName": fields.get("server_name")})
    if server.config.kind != "sdk" or not isinstance(message, dict):
        raise UserError("mcp_message: expected a message of a server that the host holds")
    server.hear(message)
    return {}


def server_of(session: Session, fields: Json) -> Server:
    name, found = fields.get("serverName"), session.mcp.servers
    server = found.get(name) if found is not None and isinstance(name, str) else None
    if server is None:
        raise UserError(f"Server not found: {name}")
    return server


async def unseen(_: Any) -> None:
    """Nobody looks on while a host's own call runs."""

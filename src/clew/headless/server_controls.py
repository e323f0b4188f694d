"""MCP servers as a host puts them in, calls their tools and reads what they offer."""

import json
from typing import Any, TypeAlias

from clew.app.session import Session
from clew.app.stamps import new_id
from clew.headless.standing_controls import object_of
from clew.mcp.scopes import find
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


async def unseen(_: Any) -> None:
    """Nobody looks on while a host's own call runs."""

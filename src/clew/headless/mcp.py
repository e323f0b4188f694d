"""The servers of a session as hosts see and manage them, and the servers that hosts hold themselves."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from clew.app.mcp import Connected

if TYPE_CHECKING:
    from clew.headless.host import Host
    from clew.mcp.server import Server

Json: TypeAlias = dict[str, Any]


def to_host(host: "Host") -> Callable[[str, Json], Awaitable[Any]]:
    """The way of a message to a server that lives in the host, and of the answer back."""

    async def send(server: str, message: Json) -> Any:
        said = await host.ask("mcp_message", {"server_name": server, "message": message})
        return said.get("mcp_response")

    return send


def listed(mcp: Connected) -> list[Json]:
    """Name and state of each, as every turn begins with."""
    from clew.mcp.states import word

    shown = [
        {"name": s.name, "status": word(s.state), "source": s.config.scope} for s in mcp.clients()
    ]
    return shown + [
        {"name": e.name, "status": "disabled", "source": e.scope} for e in mcp.found.held
    ]


def status(mcp: Connected) -> list[Json]:
    """Each in full."""
    return [whole(server) for server in mcp.clients()]


def whole(server: "Server") -> Json:
    from clew.mcp.states import word

    said: Json = {
        "name": server.name,
        "status": word(server.state),
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
        said["serverInfo"] = server.agreement.server
    return said | {"error": server.problem} if server.problem else said

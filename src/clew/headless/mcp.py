"""The servers of a session as hosts see and manage them, and the servers that hosts hold themselves."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from clew.app.mcp import Connected
from clew.headless.host import Host, HostError
from clew.wire.frames import State

if TYPE_CHECKING:
    from clew.mcp.server import Server

Json: TypeAlias = dict[str, Any]


def to_host(host: Host) -> Callable[[str, Json], Awaitable[Any]]:
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


ACTIONS = frozenset({"accept", "decline", "cancel"})


def eliciting(
    host: Host, *, state: Callable[[State], None], now: Callable[[], State]
) -> Callable[[Json], Awaitable[Json | None]]:
    """How the host puts a server's question to its person; an answer that is none declines."""

    async def elicit(about: Json) -> Json | None:
        before = now()
        state("requires_action")
        try:
            answer = await host.ask("elicitation", about)
        except HostError:
            return None  # not every host knows this question
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

"""`/mcp`, and the prompts of servers as commands. Loaded when a command is typed."""

from typing import TYPE_CHECKING

from clew.commands.slash import SlashHandlers
from clew.core.input import Outcome, Show, SlashCommand, SubmitPrompt
from clew.parts.mcp.catalogue import PromptOffer
from clew.parts.mcp.connect import probe_server
from clew.parts.mcp.prompts import fetch_prompt
from clew.parts.mcp.server import McpServer
from clew.parts.mcp.tools import RECONNECT_WAIT_S

if TYPE_CHECKING:
    from clew.session.session import Session

# Of a server's prompt, where a skill says who wrote it.
MCP = "mcp"
USAGE = (
    "/mcp [SERVER], /mcp reconnect SERVER, /mcp enable SERVER, /mcp disable SERVER, /mcp log SERVER"
)


async def manage(session: "Session", arguments: str) -> Outcome:
    """Every server and how it stands; one in full; or what is to be done with one."""
    mcp = session.parts.mcp
    word, _, name = arguments.partition(" ")
    if not word:
        lines = [
            f"{server.name}: {server.state} {probe_server(server).line}" for server in mcp.clients()
        ]
        lines += [f"{entry.name}: {entry.held}" for entry in mcp.found.held]
        return Show(text="\n".join(lines) or "no MCP servers; clew mcp add adds one")
    if word not in ("reconnect", "enable", "disable", "log"):
        word, name = "show", arguments
    server = next((client for client in mcp.clients() if client.name == name.strip()), None)
    if server is None or mcp.servers is None:
        return Show(text=f"no server {name.strip() or '?'}; {USAGE}", is_error=True)
    if word == "log":
        return Show(text="\n".join(server.host.log) or "it said nothing about itself")
    if word == "show":
        return Show(
            text="\n".join(
                [f"{server.name}: {probe_server(server).line}", *probe_server(server).offers]
            )
        )
    if word == "reconnect":
        await mcp.servers.reconnect(server.name)
        await mcp.servers.settled(RECONNECT_WAIT_S)
    else:
        await mcp.servers.toggle(server.name, enabled=word == "enable")
    return Show(text=f"{server.name}: {server.state} {server.problem}".rstrip())


def list_prompts(session: "Session") -> list[SlashCommand["Session"]]:
    """The prompts of every server that is there now."""
    return [
        command(server, offer)
        for server in session.parts.mcp.clients()
        for offer in server.offers.prompts
    ]


def command(server: McpServer, offer: PromptOffer) -> SlashCommand["Session"]:
    async def run(_: "Session", arguments: str) -> Outcome:
        return await prompt(server, offer, arguments)

    about = f"{offer.description.splitlines()[0] if offer.description else offer.prompt}"
    return SlashCommand(
        name=offer.name,
        description=f"{about} (MCP server {server.name})",
        run=run,
        hint=offer.hint,
        expands=MCP,
    )


async def prompt(server: McpServer, offer: PromptOffer, arguments: str) -> Outcome:
    """What the server's prompt says: a stranger's words, in which no file is named for clew to read."""
    return SubmitPrompt(text=await fetch_prompt(server, offer, arguments), by_stranger=True)


HANDLERS: SlashHandlers = {
    "mcp": manage,
}

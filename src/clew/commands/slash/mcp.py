"""`/mcp`, and the prompts of MCP servers as slash commands."""

from typing import TYPE_CHECKING

from clew.commands.slash import SlashHandlers, show_page
from clew.core.input import Outcome, Show, SlashCommand, SubmitPrompt
from clew.core.page import ReportPage, pairs
from clew.parts.mcp.catalogue import PromptOffer
from clew.parts.mcp.connect import probe_server
from clew.parts.mcp.prompts import fetch_prompt
from clew.parts.mcp.server import McpServer
from clew.parts.mcp.tools import RECONNECT_WAIT_S

if TYPE_CHECKING:
    from clew.session.session import Session

# The origin of a server's prompt, for hooks.
MCP = "mcp"
USAGE = (
    "/mcp [SERVER], /mcp reconnect SERVER, /mcp enable SERVER, /mcp disable SERVER, /mcp log SERVER"
)


async def manage(session: "Session", arguments: str) -> Outcome:
    """Show all servers or one of them, or run an action on one."""
    mcp = session.parts.mcp
    word, _, name = arguments.partition(" ")
    if not word:
        rows = [
            (server.name, probe_server(server).line.removeprefix("- ")) for server in mcp.clients()
        ]
        rows += [(entry.name, entry.held) for entry in mcp.found.held]
        hints = ("/mcp SERVER shows its tools", "/mcp reconnect | enable | disable | log SERVER")
        page = ReportPage(
            title="MCP servers",
            groups=(pairs(rows or [("none", "add one with: clew mcp add")]),),
            hints=hints if rows else (),
        )
        return show_page(page)
    if word not in ("reconnect", "enable", "disable", "log"):
        word, name = "show", arguments
    server = next((client for client in mcp.clients() if client.name == name.strip()), None)
    if server is None or mcp.servers is None:
        return Show(text=f'Unknown server "{name.strip()}". Usage: {USAGE}', is_error=True)
    if word == "log":
        return Show(text="\n".join(server.host.log) or "The server has not logged anything")
    if word == "show":
        return Show(
            text="\n".join(
                [f"{server.name}: {probe_server(server).line}", *probe_server(server).offers]
            )
        )
    if word == "reconnect":
        await mcp.servers.reconnect(server.name)
        await mcp.wait(RECONNECT_WAIT_S)
    else:
        await mcp.servers.toggle(server.name, enabled=word == "enable")
    return Show(text=f"{server.name}: {server.state} {server.problem}".rstrip())


def list_prompts(session: "Session") -> list[SlashCommand["Session"]]:
    """Return the prompts of all connected servers."""
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
    """Return the server's prompt. Its text is untrusted, so file mentions in it are ignored."""
    return SubmitPrompt(text=await fetch_prompt(server, offer, arguments), by_stranger=True)


HANDLERS: SlashHandlers = {
    "mcp": manage,
}

"""`/mcp`, and the prompts of servers as commands. Loaded when a command is typed."""

import shlex
from typing import TYPE_CHECKING

from clew.agent.tools.base import ToolError
from clew.core.input.outcome import Outcome, Show, SlashCommand, SubmitPrompt
from clew.parts.mcp.catalogue import PromptOffer
from clew.parts.mcp.connect import seen
from clew.parts.mcp.content import blocks_of
from clew.parts.mcp.protocol import a_text, an_object
from clew.parts.mcp.server import McpServer
from clew.parts.mcp.tools import CALL_PATIENCE_S, RECONNECT_WAIT_S, refused
from clew.system.jsonrpc.peer import PeerFailure

if TYPE_CHECKING:
    from clew.session.session import Session

# Of a server's prompt, where a skill says who wrote it.
MCP = "mcp"
USAGE = (
    "/mcp [SERVER], /mcp reconnect SERVER, /mcp enable SERVER, /mcp disable SERVER, /mcp log SERVER"
)


async def manage(session: "Session", arguments: str) -> Outcome:
    """Every server and how it stands; one in full; or what is to be done with one."""
    mcp = session.mcp
    word, _, name = arguments.partition(" ")
    if not word:
        lines = [f"{server.name}: {server.state} {seen(server).line}" for server in mcp.clients()]
        lines += [f"{entry.name}: {entry.held}" for entry in mcp.found.held]
        return Show(text="\n".join(lines) or "no MCP servers; clew mcp add adds one")
    if word not in ("reconnect", "enable", "disable", "log"):
        word, name = "show", arguments
    server = next((one for one in mcp.clients() if one.name == name.strip()), None)
    if server is None or mcp.servers is None:
        return Show(text=f"no server {name.strip() or '?'}; {USAGE}", is_error=True)
    if word == "log":
        return Show(text="\n".join(server.host.log) or "it said nothing about itself")
    if word == "show":
        return Show(text="\n".join([f"{server.name}: {seen(server).line}", *seen(server).offers]))
    if word == "reconnect":
        await mcp.servers.reconnect(server.name)
        await mcp.servers.settled(RECONNECT_WAIT_S)
    else:
        await mcp.servers.toggle(server.name, enabled=word == "enable")
    return Show(text=f"{server.name}: {server.state} {server.problem}".rstrip())


def prompts(session: "Session") -> list[SlashCommand["Session"]]:
    """The prompts of every server that is there now."""
    return [
        command(server, offer)
        for server in session.mcp.clients()
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
    return SubmitPrompt(text=await said(server, offer, arguments), by_stranger=True)


async def said(server: McpServer, offer: PromptOffer, arguments: str) -> str:
    """The words of a server's prompt. Raises ToolError where it gives none."""
    given = filled(offer, arguments)
    missing = [name for name, is_needed in offer.arguments if is_needed and name not in given]
    if missing:
        raise ToolError(await wanting(server, offer, missing))
    outcome = await server.call(
        "prompts/get",
        {"name": offer.prompt, "arguments": given},
        patience_s=CALL_PATIENCE_S,
        wait_s=RECONNECT_WAIT_S,
    )
    if isinstance(outcome, PeerFailure):
        raise ToolError(refused(server.name, outcome, CALL_PATIENCE_S))
    messages = an_object(outcome.result).get("messages")
    told: list[str] = []
    for message in messages if isinstance(messages, list) else []:
        part = an_object(message)
        blocks = blocks_of([part.get("content")])
        words = "\n".join(b.get("text", "[an image, which a prompt cannot bring]") for b in blocks)
        is_answer = a_text(part.get("role")) == "assistant"
        told.append(f"(An earlier answer of yours:) {words}" if is_answer else words)
    if not told:
        raise ToolError(f"the server {server.name} gave a prompt that says nothing")
    return "\n\n".join(told)


def filled(offer: PromptOffer, arguments: str) -> dict[str, str]:
    """The arguments by name, in the order the server lists them; the last takes all that is left."""
    names = [name for name, _ in offer.arguments]
    try:
        words = shlex.split(arguments)
    except ValueError:
        words = arguments.split()
    if names and len(words) > len(names):
        words = [*words[: len(names) - 1], " ".join(words[len(names) - 1 :])]
    return dict(zip(names, words, strict=False))


async def wanting(server: McpServer, offer: PromptOffer, missing: list[str]) -> str:
    """What an argument is missing for, and what the server would put there."""
    values = await server.completed(offer.prompt, missing[0], "")
    hint = f"; {missing[0]} may be {', '.join(values)}" if values else ""
    return f"/{offer.name} needs {', '.join(missing)}: {offer.hint}{hint}"

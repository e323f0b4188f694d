"""Prompts that MCP servers offer: fill in the arguments and convert the messages for the model."""

import shlex

from clew.agent.tools.base import ToolError
from clew.parts.mcp.catalogue import PromptOffer
from clew.parts.mcp.content import blocks_of
from clew.parts.mcp.protocol import as_object, as_text
from clew.parts.mcp.server import McpServer
from clew.parts.mcp.tools import CALL_PATIENCE_S, RECONNECT_WAIT_S, describe_refusal
from clew.system.jsonrpc.peer import PeerFailure


async def fetch_prompt(server: McpServer, offer: PromptOffer, arguments: str) -> str:
    """Fetch a prompt from its server and return the text. Raise ToolError if that fails."""
    values = fill_arguments(offer, arguments)
    missing = [name for name, is_needed in offer.arguments if is_needed and name not in values]
    if missing:
        raise ToolError(await say_missing(server, offer, missing))
    outcome = await server.call(
        "prompts/get",
        {"name": offer.prompt, "arguments": values},
        patience_s=CALL_PATIENCE_S,
        wait_s=RECONNECT_WAIT_S,
    )
    if isinstance(outcome, PeerFailure):
        raise ToolError(describe_refusal(server.name, outcome, CALL_PATIENCE_S))
    messages = as_object(outcome.result).get("messages")
    texts: list[str] = []
    for message in messages if isinstance(messages, list) else []:
        part = as_object(message)
        blocks = blocks_of([part.get("content")])
        words = "\n".join(b.get("text", "[an image; not supported in prompts]") for b in blocks)
        is_answer = as_text(part.get("role")) == "assistant"
        texts.append(f"(Your earlier response:) {words}" if is_answer else words)
    if not texts:
        raise ToolError(f"the prompt from the MCP server {server.name} is empty")
    return "\n\n".join(texts)


def fill_arguments(offer: PromptOffer, arguments: str) -> dict[str, str]:
    """Assign the words that the user typed to the prompt's arguments, in the server's order.

    The last argument gets all remaining words.
    """
    names = [name for name, _ in offer.arguments]
    try:
        words = shlex.split(arguments)
    except ValueError:
        words = arguments.split()
    if names and len(words) > len(names):
        words = [*words[: len(names) - 1], " ".join(words[len(names) - 1 :])]
    return dict(zip(names, words, strict=False))


async def say_missing(server: McpServer, offer: PromptOffer, missing: list[str]) -> str:
    """Return an error message for missing arguments, with the values that the server suggests."""
    values = await server.completed(offer.prompt, missing[0], "")
    hint = f"; values for {missing[0]}: {', '.join(values)}" if values else ""
    return f"missing {', '.join(missing)} (usage: /{offer.name} {offer.hint}){hint}"

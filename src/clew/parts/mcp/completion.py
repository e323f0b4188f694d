"""What a word that is being typed may become by the word of MCP servers: arguments of their prompts,
and `@server:uri`.

A server is asked once for each word and for a few seconds at most; what it says are a stranger's words,
so what cannot stand in a line is left out.
"""

import re
from collections.abc import Iterable, Sequence

from clew.parts.mcp.part import Connected
from clew.parts.mcp.server import McpServer

MOST = 20
# What is longer is nothing to choose from a list.
LONGEST = 1000
PLACE = re.compile(r"([^{}]*)\{([\w.-]+)\}([^{}]*)\Z")


async def arguments_of(
    mcp: Connected, command: str, before: Sequence[str], word: str
) -> Sequence[str]:
    """Values for the argument of a server's prompt at which somebody types; the last takes all the rest."""
    for server in mcp.clients():
        for offer in server.offers.prompts:
            if offer.name != command or not offer.arguments:
                continue
            names = [name for name, _ in offer.arguments]
            at = min(len(before), len(names) - 1)
            earlier_arguments = dict(zip(names[:at], before, strict=False))
            values = await server.completed(offer.prompt, names[at], word, earlier_arguments)
            return [value for value in fit(values) if " " not in value]
    return ()


async def resources_of(mcp: Connected, word: str) -> Sequence[str]:
    """Resources as `server:uri`; of one that has places to fill in, what the server would put there."""
    name, colon, uri = word.partition(":")
    resources = [
        f"{server.name}:{offer.uri}"
        for server in mcp.clients()
        for offer in server.offers.resources
        if not offer.is_template
    ]
    matching = [resource for resource in resources if word and word.lower() in resource.lower()]
    server = next((client for client in mcp.clients() if client.name == name), None)
    if colon and server is not None:
        matching += [f"{name}:{filled_uri}" for filled_uri in await filled(server, uri)]
    return list(dict.fromkeys(fit(matching)))


async def filled(server: McpServer, uri: str) -> list[str]:
    uris: list[str] = []
    for offer in server.offers.resources:
        place = PLACE.match(offer.uri) if offer.is_template else None
        if place is None or not uri.startswith(place[1]):
            continue
        typed = uri[len(place[1]) :]
        for value in await server.completed_uri(offer.uri, place[2], typed):
            uris.append(f"{place[1]}{value}{place[3]}")
    return uris


def fit(words: Iterable[str]) -> list[str]:
    return [word for word in words if 0 < len(word) <= LONGEST and word.isprintable()][:MOST]

"""Completions from MCP servers, for the arguments of their prompts and for `@server:uri`.

Each server is asked at most once about a word, with a time limit of a few seconds. Its suggestions
are untrusted; those that do not fit on a line are left out.
"""

import re
from collections.abc import Iterable, Sequence

from clew.parts.mcp.part import Connected
from clew.parts.mcp.server import McpServer

MOST = 20
# Longer values are of no use in a list.
LONGEST = 1000
PLACE = re.compile(r"([^{}]*)\{([\w.-]+)\}([^{}]*)\Z")


async def arguments_of(
    mcp: Connected, command: str, before: Sequence[str], word: str
) -> Sequence[str]:
    """Return suggestions for the argument being typed; the last argument may have several words."""
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
    """Return matching resources as `server:uri`; the server suggests values for URI templates."""
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

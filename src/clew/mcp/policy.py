"""Which servers an administrator lets be used.

A denied server is denied whoever denies it. An allow list, where there is one, stands in managed
settings alone, and what it does not name is not used. An entry names a server, its whole command, or a
pattern of its URL.
"""

import re
from collections.abc import Iterable
from typing import Any

from clew.mcp.config import Http, ServerConfig, Stdio


def forbidden(server: ServerConfig, allowed: Any, denied: Any) -> str:
    """Why a server may not be used; an empty text where it may."""
    if any(names(entry, server) for entry in listed(denied)):
        return "deniedMcpServers names it"
    if isinstance(allowed, list) and not may(server, allowed):
        return "allowedMcpServers does not name it"
    return ""


def may(server: ServerConfig, allowed: list[Any]) -> bool:
    """By its name, unless the list says which commands or URLs may be used: then by those."""
    key = {"stdio": "serverCommand", "http": "serverUrl", "sse": "serverUrl"}.get(server.kind)
    told = [e for e in allowed if isinstance(e, dict) and key in e]
    return any(names(entry, server) for entry in told or allowed)


def listed(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else ()


def names(entry: Any, server: ServerConfig) -> bool:
    if not isinstance(entry, dict):
        return False
    if "serverCommand" in entry:
        reach = server.reach
        return isinstance(reach, Stdio) and entry["serverCommand"] == [reach.command, *reach.args]
    if "serverUrl" in entry:
        return isinstance(server.reach, Http) and fits(entry["serverUrl"], server.reach.url)
    return entry.get("serverName") == server.name


def fits(pattern: Any, url: str) -> bool:
    """Whether a URL is what a pattern with stars says; a star does not leave its host."""
    if not isinstance(pattern, str):
        return False
    scheme, separator, rest = pattern.partition("://")
    host, slash, path = rest.partition("/")
    parts = (
        re.escape(scheme + separator).replace(r"\*", "[^/]*"),
        re.escape(host).replace(r"\*", "[^/@]*"),
        re.escape(slash + path).replace(r"\*", ".*"),
    )
    return re.fullmatch("".join(parts), url) is not None

"""The names under which a server's tools are known to the model and to the rules.

`mcp__server__tool`: the first double underscore behind the prefix ends the server's name. So that no
server can take tools into another's name, and with it under its rules, a server's part holds no double
underscore and neither begins nor ends with one.

Decision: docs/decisions/136-trust-in-projects.md
"""

import re
from collections.abc import Iterable
from hashlib import sha256

PREFIX = "mcp__"
# What the service takes as a tool's name.
LONGEST = 128
SERVER_NAME = re.compile(r"[A-Za-z0-9_.\- ]{1,64}")
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_RUNS = re.compile(r"__+")


def server_part(name: str) -> str:
    return _RUNS.sub("_", _OTHER.sub("_", name)).strip("_") or "server"


def tool_name(server: str, tool: str) -> str:
    """The name of a tool; one that is too long keeps its beginning and the hash of the whole."""
    full = f"{PREFIX}{server_part(server)}__{_OTHER.sub('_', tool)}"
    if len(full) <= LONGEST:
        return full
    return f"{full[: LONGEST - 9]}_{digest(server + chr(0) + tool)}"


def digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def distinct(server: str, tools: Iterable[str]) -> dict[str, str]:
    """Name for the model -> name for the server; of two that read alike the later gets its hash."""
    named: dict[str, str] = {}
    for tool in tools:
        name = tool_name(server, tool)
        if name in named and named[name] != tool:
            name = f"{name[: LONGEST - 9]}_{digest(tool)}"
        named.setdefault(name, tool)
    return named

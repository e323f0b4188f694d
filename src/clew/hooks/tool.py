"""Hooks that are tools of MCP servers: called with parts of the event, read like a program's output."""

import re
from typing import Any

from msgspec import json

from clew.hooks.handlers import McpTool
from clew.hooks.output import Ran
from clew.hooks.reach import HookError, Json, Reach

# The servers of a session begin while these happen.
BEFORE_SERVERS = frozenset({"SessionStart", "Setup"})
PATH = re.compile(r"\$\{([A-Za-z0-9_.]+)\}")


async def call_tool(handler: McpTool, given: Json, reach: Reach) -> Ran:
    event = given["hook_event_name"]
    if event in BEFORE_SERVERS:
        raise HookError(f"MCP servers are not there yet at {event}")
    if reach.call_tool is None:
        raise HookError(f"no MCP server {handler.server} is connected")
    words, is_error = await reach.call_tool(
        handler.server, handler.tool, substituted(handler.input, given)
    )
    if is_error:
        raise HookError(f"{handler.title} failed: {words}")
    return Ran(stdout=words)


def substituted(value: Any, given: Json) -> Any:
    """The input with `${tool_input.file_path}` and its like replaced by what the event says."""
    if isinstance(value, str):
        return PATH.sub(lambda found: told(given, found[1]), value)
    if isinstance(value, list):
        return [substituted(each, given) for each in value]
    if isinstance(value, dict):
        return {name: substituted(each, given) for name, each in value.items()}
    return value


def told(given: Json, path: str) -> str:
    value: Any = given
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return ""
    return value if isinstance(value, str) else json.encode(value).decode()

"""What a host says before anything else: the options of the session with what its handshake brings.

Owns the members of `initialize` that are more than hooks. What is of no use is left out; only what
would make every answer useless is refused. Pure: nothing is opened here.
"""

from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from clew.commands.outcome import Clear, Resume
from clew.messages.errors import UserError
from clew.options import Options
from clew.tools.json_schema import fault

Json: TypeAlias = dict[str, Any]


def gone_over(options: Options, taken: Clear | Resume) -> Options:
    """The options of the session that a command leads to."""
    named = taken.session if isinstance(taken, Resume) else None
    fresh = {"continues": False, "session_id": None, "fork": False, "name": None}
    fresh["is_cleared"] = isinstance(taken, Clear)
    return replace(options, resume=named, resume_at=None, drops_turn=None, **fresh)


def agents_of(fields: Json) -> Json:
    """The kinds of agents that a handshake brings."""
    agents = fields.get("agents")
    return agents if isinstance(agents, dict) else {}


def skills_of(fields: Json) -> list[str] | None:
    """The skills that a handshake leaves the model, by name; None: all."""
    named = fields.get("skills")
    if not isinstance(named, list):
        return None
    return [name for name in named if isinstance(name, str)]


def told_by(options: Options, fields: Json) -> Options:
    """The options with what the handshake says: of the system prompt, of plans, of what is to be told,
    of servers, plugins and tools, and of the shape of the answer."""
    whole, more = fields.get("systemPrompt"), fields.get("appendSystemPrompt")
    if isinstance(whole, list):
        whole = "\n\n".join(part for part in whole if isinstance(part, str))
    if isinstance(whole, str):
        options = replace(options, system_prompt=whole)
    if isinstance(more, str):
        options = replace(options, append_system_prompt=more)
    schema, title = fields.get("jsonSchema"), fields.get("title")
    if options.json_schema is None and isinstance(schema, dict):
        why = fault(schema)
        if why:
            raise UserError(f"initialize: jsonSchema: {why}")
        options = replace(options, json_schema=schema)
    planning = fields.get("planModeInstructions")
    if isinstance(planning, str) and planning.strip():
        options = replace(options, planning=planning.strip())
    if isinstance(title, str) and title and not (options.name or options.resume):
        options = replace(options, name=title)
    servers = servers_in(fields)
    if servers:
        given = msgspec.json.encode({"mcpServers": servers}).decode()
        options = replace(options, mcp_config=(*options.mcp_config, given))
    folders, quiet = plugins_in(fields)
    return replace(
        options,
        agent_text=options.agent_text or fields.get("forwardSubagentText") is True,
        suggests=options.suggests or fields.get("promptSuggestions") is True,
        keeps_prompt=options.keeps_prompt and fields.get("systemPromptSnapshot") is not False,
        plugin_folders=(*options.plugin_folders, *folders),
        plugins_without_servers=(*options.plugins_without_servers, *quiet),
        tool_aliases=aliases_of(fields),
    )


def aliases_of(fields: Json) -> dict[str, str]:
    """Which tool is called where the model names another."""
    given = fields.get("toolAliases")
    named = given.items() if isinstance(given, dict) else ()
    return {name: tool for name, tool in named if isinstance(tool, str) and tool}


def servers_in(fields: Json) -> Json:
    """The MCP servers of a handshake: entries, and the names of those that the host holds itself."""
    held, named = fields.get("mcpServers"), fields.get("sdkMcpServers")
    servers = dict(held) if isinstance(held, dict) else {}
    for name in named if isinstance(named, list) else ():
        if isinstance(name, str):
            servers.setdefault(name, {"type": "sdk", "name": name})
    return servers


def plugins_in(fields: Json) -> tuple[list[str], list[str]]:
    """The folders of plugins that a handshake brings, and which of them without their servers."""
    given = fields.get("plugins")
    found = [one for one in (given if isinstance(given, list) else ()) if isinstance(one, dict)]
    named = [one for one in found if isinstance(one.get("path"), str)]
    quiet = [one["path"] for one in named if one.get("skipMcpDiscovery") is True]
    return [one["path"] for one in named], quiet

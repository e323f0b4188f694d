"""Checks of what a program's options define: permission rules, MCP servers, agents and settings.

An invalid definition raises ValueError, because a session that ignores it would run with fewer
restrictions, servers or agents than the program expects.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clew.agent.subagents.files import read_agent_object
from clew.agent.subagents.specs import KNOWN
from clew.core.messages.errors import SettingsError
from clew.core.nearest import find_nearest, suggest_nearest
from clew.fronts.sdk.option_words import say_in_python
from clew.parts.mcp.config import PREFIX, SERVER_NAME, read_server, server_part
from clew.permissions.modes import unknown_tool
from clew.permissions.rules import RULE, Behavior, RejectedRule, RuleSource, parse_rule
from clew.permissions.session_rules import joinable, read_given


def check_rules(name: str, rules: Sequence[str], behavior: Behavior) -> None:
    """Reject rules that cannot be read or that name an unknown tool."""
    for text in rules:
        rule = parse_rule(text, behavior, root="/", source=RuleSource(scope="cli"))
        why = rule.what if isinstance(rule, RejectedRule) else unknown_tool(text)
        if why is not None:
            raise ValueError(f"{name}: {text!r}: {why}")


def check_servers(servers: Mapping[Any, Any]) -> None:
    for name, entry in servers.items():
        if not isinstance(name, str) or not SERVER_NAME.fullmatch(name):
            raise ValueError(
                f"mcp_servers: {name!r}: use 1 to 64 letters, digits, spaces and the characters "
                "_ . -"
            )
        server = read_server(name, entry, scope="cli", environ=None)
        if isinstance(server, str):
            raise ValueError(f"mcp_servers: {name}: {server.replace('an object', 'a dict')}")
        if server.kind == "sdk":
            raise ValueError(
                f'mcp_servers: {name}: type "sdk" is for servers of the Agent SDK; '
                "pass functions made with @clew.tool as `functions`"
            )


def check_agents(agents: Mapping[str, Any] | None) -> None:
    for name, fields in (agents or {}).items():
        for key in fields:
            if key not in KNOWN:
                near = suggest_nearest(str(key), KNOWN)
                raise ValueError(f"agents: {name}: unknown key {key!r}{near}")
    for fault in read_agent_object(agents or {}, "flag").faults:
        words = fault.removeprefix("agent ").replace("an object", "a dict")
        raise ValueError(f"agents: {words}")


def check_settings(text: str | None) -> None:
    """Check settings that are passed as JSON.

    A settings file is read when the session is opened.
    """
    if text is None or not text.lstrip().startswith("{"):
        return
    try:
        rules = joinable(read_given(text)[0], "deny")
    except SettingsError as error:
        raise ValueError(say_in_python(str(error))) from None
    check_rules(
        "settings: permissions.deny", [rule for rule in rules if isinstance(rule, str)], "deny"
    )


def may_match_nothing(rule: str) -> bool:
    """Return whether a rule names an agent type, an MCP server or a tool of an MCP server.

    Only the session knows whether these exist.
    """
    return rule.lstrip().startswith((PREFIX, "Agent(", "Task("))


def find_unmatched(
    rules: Sequence[str], servers: Mapping[str, Sequence[str]], agents: Sequence[str]
) -> Iterator[tuple[str, bool]]:
    """Yield a message for each rule that matches nothing, with whether a name in it is misspelled.

    `servers` maps the names of MCP servers to their tools. A server that has not started has no
    tools.
    """
    tools = {server_part(name): names for name, names in servers.items()}
    for text in rules:
        read = RULE.fullmatch(text)
        assert read is not None  # Invalid rules were rejected.
        tool, content = read[1], (read[2] or "").strip()
        server, _, own_name = tool.removeprefix(PREFIX).partition("__")
        if tool in ("Agent", "Task"):
            name, known, kind = content, agents, "agent type"
        elif server not in tools:
            name, known, kind = server, list(tools), "MCP server"
        else:
            name, kind = own_name, f"tool of the server {server!r}:"
            known = [tool.removeprefix(f"{PREFIX}{server}__") for tool in tools[server]] or [name]
        if name and name not in known and not set("*:") & set(name):
            near = find_nearest(name, known)
            hint = f" (did you mean {near!r}?)" if near else ""
            yield f"{text!r}: unknown {kind} {name!r}{hint}", near is not None

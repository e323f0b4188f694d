"""Which of the built-in tools a session has."""

from collections.abc import Sequence
from typing import Any

from clew.messages.errors import CommandLineError
from clew.options import Options
from clew.permissions.in_session import SessionRules
from clew.skills.tool import Keeper, SkillTool
from clew.subagents.offer import has
from clew.tools.base import Tool
from clew.tools.registry import NEED_A_PERSON, builtin_tools
from clew.tools.structured_output import StructuredOutput
from clew.tools.web_fetch import WebFetch
from clew.tools.web_search import WebSearch
from clew.web.fetch import Web


def offered_tools(
    options: Options,
    web: Web,
    settings: dict[str, Any],
    keeper: Keeper,
    more: Sequence[Tool[Any]] = (),
) -> list[Tool[Any]]:
    """The built-in tools, those of the web and `more`, without those that the command line left out or denies as a whole, and
    without those that ask a person where nobody can be asked."""
    endpoint = settings.get("webSearchEndpoint")
    search = WebSearch(web, endpoint if isinstance(endpoint, str) and endpoint else None)
    tools = (*builtin_tools(), WebFetch(web), search, SkillTool(keeper), *more)
    unknown = [name for name in options.tools or () if name not in {tool.name for tool in tools}]
    if unknown:
        known = ", ".join(tool.name for tool in tools)
        raise CommandLineError(f"--tools {unknown[0]}: no such tool; there are {known}")
    is_alone = options.is_print and options.asks != "stdio"
    shaped = [] if options.json_schema is None else [StructuredOutput(options.json_schema)]
    return [
        *shaped,
        *(
            tool
            for tool in tools
            if is_wanted(options, tool) and not (is_alone and tool.name in NEED_A_PERSON)
        ),
    ]


def is_wanted(options: Options, tool: Tool[Any]) -> bool:
    is_named = options.tools is None or tool.name in options.tools
    is_left = options.lead is None or has(options.lead, tool.name)
    return is_named and is_left and tool.name not in options.deny


def private_hosts(rules: SessionRules) -> tuple[str, ...]:
    """Hosts that a person lets WebFetch reach though their addresses are private; as it stands now."""
    named = rules.standing.settings.get("webPrivateHosts")
    hosts = named if isinstance(named, list) else []
    return tuple(host for host in hosts if isinstance(host, str))

"""Print the tools and their inputs for docs/using/tools.md: `python -m scripts.tool_table`."""

import sys

from clew.agent.tools.base import Input, Tool
from clew.agent.tools.registry import make_builtin_tools
from clew.agent.tools.schema import kind_of, make_shown_schema
from clew.agent.tools.web import WebFetch, WebSearch
from clew.system.transport.network import Network
from clew.system.web_fetch import Web


def table() -> str:
    web = Web(Network(), tuple)
    tools = (*make_builtin_tools(), WebFetch(web), WebSearch(web, None))
    return "".join(section(tool) for tool in sorted(tools, key=lambda tool: tool.name)).lstrip("\n")


def section(tool: Tool[Input]) -> str:
    schema = make_shown_schema(tool)
    head = f"\n### {tool.name}\n\n{tool.description}."
    if tool.is_deferred:
        head += " Loaded on demand."
    if not schema["properties"]:
        return f"{head} No input.\n"
    required = schema.get("required", ())
    rows = "".join(
        f"| `{name}` | {kind_of(one).replace('|', 'or')} "
        f"| {'yes' if name in required else ''} | {one.get('description', '')} |\n"
        for name, one in schema["properties"].items()
    )
    return f"{head}\n\n| field | type | required | meaning |\n|---|---|---|---|\n{rows}"


if __name__ == "__main__":
    sys.stdout.write(table())

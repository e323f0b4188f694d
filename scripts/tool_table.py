"""`python -m scripts.tool_table`: the tools and their inputs as docs/using/tools.md shows them."""

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
        return f"{head} Takes nothing.\n"
    required = schema.get("required", ())
    rows = "".join(
        f"| `{name}` | {kind_of(one).replace('|', 'or')} "
        f"| {'yes' if name in required else ''} | {one.get('description', '')} |\n"
        for name, one in schema["properties"].items()
    )
    return f"{head}\n\n| field | kind | required | meaning |\n|---|---|---|---|\n{rows}"


if __name__ == "__main__":
    sys.stdout.write(table())

"""Which of the built-in tools a session has."""

from typing import Any

from clew.messages.errors import CommandLineError
from clew.options import Options
from clew.tools.base import Tool
from clew.tools.registry import NEED_A_PERSON, builtin_tools


def offered_tools(options: Options) -> list[Tool[Any]]:
    """The built-in tools, without those that the command line left out or denies as a whole, and
    without those that ask a person where nobody can be asked."""
    tools = builtin_tools()
    unknown = [name for name in options.tools or () if name not in {tool.name for tool in tools}]
    if unknown:
        known = ", ".join(tool.name for tool in tools)
        raise CommandLineError(f"--tools {unknown[0]}: no such tool; there are {known}")
    is_alone = options.is_print and options.asks is None
    return [
        tool
        for tool in tools
        if (options.tools is None or tool.name in options.tools)
        and tool.name not in options.deny
        and not (is_alone and tool.name in NEED_A_PERSON)
    ]

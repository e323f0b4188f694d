"""The one door through which a tool runs: whatever happens inside comes out as a result."""

from typing import Any

from clew.messages.errors import ClewError, in_words
from clew.tools.base import Input, Tool, ToolContext, ToolResult, failed
from clew.tools.schema import parse_input


async def run_tool(tool: Tool[Input], raw: Any, ctx: ToolContext) -> ToolResult:
    """Checks the input and runs the tool. Raises CancelledError and nothing else."""
    given = parse_input(tool, raw)
    if isinstance(given, ToolResult):
        return given
    try:
        return await tool.call(given, ctx)
    except (ClewError, OSError) as error:
        return failed(in_words(error))
    except Exception as error:  # noqa: BLE001 one of the three doors: a tool must not end the session
        kind = type(error).__name__
        return failed(
            f"{tool.name} failed by a fault of its own ({kind}: {error}). Try another way."
        )

"""The one door through which a tool runs, and is asked whether it could: whatever happens inside comes
out as a result.

Decision: docs/decisions/004-turn-loop.md
"""

import asyncio
from typing import Any

from clew.messages.errors import ClewError, in_words
from clew.tools.base import Input, Tool, ToolContext, ToolResult, ToolSession, failed
from clew.tools.schema import parse_input


def rehearse(tool: Tool[Input], raw: Any, session: ToolSession) -> ToolResult | None:
    """Why a call would fail whoever permits it, by what there is now; None if nothing speaks against it."""
    given = parse_input(tool, raw)
    if isinstance(given, ToolResult):
        return given
    try:
        tool.rehearse(given, session)
    except (ClewError, OSError, ValueError) as error:
        return failed(in_words(error))
    return None


async def run_tool(tool: Tool[Input], raw: Any, ctx: ToolContext) -> ToolResult:
    """Checks the input and runs the tool. Raises CancelledError and nothing else."""
    given = parse_input(tool, raw)
    if isinstance(given, ToolResult):
        return given
    most_s = ctx.session.limits.call_timeout_s(tool.name, owns_its_time=tool.owns_its_time)
    clock = asyncio.timeout(most_s)
    try:
        async with clock:
            return await tool.call(given, ctx)
    except TimeoutError as error:
        if not clock.expired():
            return failed(in_words(error))
        return failed(
            f"{tool.name} did not end within {most_s:g} s and was given up. What it had begun may be "
            "done in part: look before you try again, and try less at once or another way."
        )
    except (ClewError, OSError) as error:
        return failed(in_words(error))
    except Exception as error:  # noqa: BLE001 (one of the three doors: a tool must not end the session)
        kind = type(error).__name__
        return failed(
            f"{tool.name} failed by a fault of its own ({kind}: {error}). Try another way."
        )

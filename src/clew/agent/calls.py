"""Bind tool calls to their tools and run them.

A tool_use block is bound once it is complete: its input is converted once, and the command line of
a shell call is parsed once. Permissions, hooks, display, transcript and execution use the bound
value. Any failure inside a tool becomes a result.

Decision: docs/decisions/004-turn-loop.md
"""

import asyncio
from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from clew.agent.tools.base import (
    ShellInput,
    Tool,
    ToolContext,
    ToolError,
    ToolOutcome,
    ToolSession,
    decided,
    make_failure,
)
from clew.agent.tools.schema import parse_input
from clew.core.json_object import Json
from clew.core.messages.errors import ClewError, describe_error

if TYPE_CHECKING:
    from clew.permissions.reading import CommandLine


class BoundCall(Struct, frozen=True, kw_only=True, dict=True):
    """A tool_use block with its tool and its converted input.

    `given` and `line` belong to exactly this block: for a different input, create another object
    (see `with_input`). If the tool is missing or the input is invalid, `given` is None and `fault`
    describes the problem.
    """

    block: Json
    tool: Tool[Any] | None = None
    given: Any = None
    fault: ToolOutcome | None = None

    @property
    def name(self) -> str:
        return str(self.block.get("name", ""))

    @property
    def line(self) -> "CommandLine | None":
        """The parsed command line of a shell call; None for any other call."""
        return self.given.line if isinstance(self.given, ShellInput) else None

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The files and folders that the call names, spelled as in the call."""
        return () if self.tool is None or self.given is None else self.tool.paths(self.given)

    @cached_property
    def places(self) -> dict[str, str]:
        """The real path that each file had at the permission decision, by its name in the call."""
        return {}

    @cached_property
    def title(self) -> str:
        """A one-line description of the call, or only the tool's name if the input adds nothing."""
        if self.tool is None or self.given is None:
            return self.name
        title = self.tool.title(self.given)
        return title if title.startswith(self.tool.name) else f"{self.tool.name}: {title}"

    @cached_property
    def is_concurrency_safe(self) -> bool:
        """True if the call may run concurrently with other calls; an invalid call always may."""
        if self.tool is None or self.given is None:
            return True
        return self.tool.is_concurrency_safe(self.given)

    @cached_property
    def is_read_only(self) -> bool:
        """True if the call changes nothing outside the session."""
        return self.tool is None or self.given is None or self.tool.is_read_only(self.given)

    def with_input(self, arguments: Json) -> "BoundCall":
        """Return this call with a different input, supplied by a hook or the user."""
        return bind(self.tool, self.block | {"input": arguments}, self.fault)

    def copy_block(self) -> Json:
        """Return a copy of the block, which hooks and hosts may modify."""
        return self.block | {"input": deepcopy(self.block["input"])}


def bind(tool: Tool[Any] | None, block: Json, fault: ToolOutcome | None = None) -> BoundCall:
    """Bind a block to its tool. If `tool` is None, `fault` says why the tool is missing."""
    if tool is None:
        return BoundCall(block=block, fault=fault)
    arguments = parse_input(tool, block.get("input"))
    if isinstance(arguments, ToolOutcome):
        return BoundCall(block=block, tool=tool, fault=arguments)
    return BoundCall(block=block, tool=tool, given=arguments)


def rehearse(call: BoundCall, session: ToolSession) -> ToolOutcome | None:
    """Return the failure that running the call now would cause, or None if it can run."""
    if call.tool is None or call.given is None:
        return call.fault
    try:
        with decided(call.places, session):
            call.tool.rehearse(call.given, session)
    except ToolError as error:
        return make_failure(error.problem, hint=error.hint)
    except (ClewError, OSError, ValueError) as error:
        return make_failure(describe_error(error))
    return None


async def run_tool(call: BoundCall, ctx: ToolContext) -> ToolOutcome:
    """Run a call and return its outcome. Raise only CancelledError."""
    tool = call.tool
    if tool is None or call.given is None:
        return call.fault or make_failure(f"{call.name} can't run: it is not bound to a tool")
    most_s = ctx.session.limits.call_timeout_s(tool.name, owns_its_time=tool.owns_its_time)
    clock = asyncio.timeout(most_s)
    try:
        with decided(call.places, ctx.session):
            async with clock:
                return await tool.call(call.given, ctx)
    except TimeoutError as error:
        if not clock.expired():
            return make_failure(describe_error(error))
        return make_failure(
            f"{tool.name} timed out after {most_s:g} s and was stopped.",
            hint="Some of its work may have been done: check before you retry, and do less per call.",
        )
    except ToolError as error:
        return make_failure(error.problem, hint=error.hint)
    except (ClewError, OSError) as error:
        return make_failure(describe_error(error))
    except Exception as error:  # noqa: BLE001 (one of the three doors: a tool must not end the session)
        kind = type(error).__name__
        return make_failure(
            f"{tool.name} failed because of a bug ({kind}: {error}).", hint="Try another approach."
        )

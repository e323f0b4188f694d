"""Which calls run behind the read-only wall: those of a shell that nobody was asked about, and those
that a user approves although they could reach a denied file."""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from clew.permissions.decision import Decision, runs_confined, stays_confined
from clew.permissions.request import tool_of

Json: TypeAlias = dict[str, Any]


class Confining(Protocol):
    """A toolset, as far as its walls are concerned."""

    @property
    def has_walls(self) -> bool:
        """Whether a read-only wall can stand here, as far as is known."""
        ...

    async def can_confine(self) -> bool:
        """Return whether one stands, found out by a run; from then on `has_walls` is true to it."""
        ...

    async def look_up(self) -> bool:
        """Find out what a decision could not know; return whether there was such a thing."""
        ...


async def decide(
    tools: Confining, block: Json, judge: Callable[[], Decision]
) -> tuple[Decision, bool]:
    """The decision on a call, and whether it must run behind the read-only wall.

    A decision relies on the wall: where none stands after all, the call is judged again. So it is
    once that is looked up which a decision could not know.
    """
    decision = judge()
    if await tools.look_up():
        decision = judge()
    is_shell = tool_of(block["name"]).family == "shell"
    if not (is_shell and tools.has_walls):
        return decision, False
    if stays_confined(decision):
        return decision, await tools.can_confine()
    if not runs_confined(decision):
        return decision, False
    if await tools.can_confine():
        return decision, True
    return judge(), False

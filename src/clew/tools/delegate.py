"""What a conversation may ask of others that work for it: begin one, let one go on, tell one something.

The words that the tools Agent and SendMessage share with whoever runs agents.
"""

from typing import Protocol

from msgspec import Struct

from clew.tools.base import ToolResult


class Wish(Struct, frozen=True, kw_only=True):
    """A piece of work for an agent; None leaves it to the agent's definition."""

    prompt: str
    description: str
    kind: str
    model: str | None = None
    in_background: bool | None = None
    in_worktree: bool | None = None
    # By which others call it; its id where it has none.
    name: str = ""
    # The id of an agent that goes on instead of a new one.
    resume: str = ""


class Agents(Protocol):
    async def run(self, wish: Wish, tool_use_id: str) -> ToolResult:
        """Has the work done and answers what came of it, or that it goes on in the background."""
        ...

    async def send(self, to: str, words: str) -> ToolResult:
        """Tells an agent something: one that runs hears it between its steps, another goes on."""
        ...
